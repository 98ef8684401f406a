"""How many requests a look takes if the state is on S3: docs/ui.md names these numbers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from flip27_source.cli.commands import FileSystem
from flip27_source.cli.state.rows import Place, StoredState
from flip27_source.cli.ui.edit_pages import EditPages
from flip27_source.cli.ui.pages import Pages
from flip27_source.testing import MicroBatchEngine
from tests.quick_moto import QuickAnswers
from tests.s3_server import new_bucket
from tests.snapshots.spark_logs import checkpoint_in
from tests.ui.served import pages_of

BATCHES = 40
WRITING = {"PUT", "POST", "DELETE", "PATCH"}


@pytest.fixture
def pages(counting: QuickAnswers, tmp_path: Path) -> Pages:
    """Pages of a source with 40 checkpoints of a batch of two tasks that report."""
    bucket = new_bucket(counting.url)
    landing = tmp_path / "landing"
    landing.mkdir()
    state = f"s3://{bucket.name}/state"
    options = {"enumerator": "files", "reader": "text", "path": str(landing), "taskReports": "always"}
    engine = MicroBatchEngine({**options, "stateLocation": state, **bucket.options})
    for number in range(BATCHES):
        (landing / f"{number}-a").write_text("1\n" * 100)
        (landing / f"{number}-b").write_text("2\n" * 100)
        engine.now_ms += 1000
        engine.run_batch()
    engine.stop()
    words = [f"{name}={value}" for name, value in bucket.storage_options.items()]
    place = Place(location=state, stored=StoredState(files=FileSystem(storage=words)))
    counting.requests.clear()
    return pages_of([place])


def look(pages: Pages, second: int, view: str | None = None) -> None:
    pages.sources.look(dt.datetime(1970, 1, 1, 0, 1, second, tzinfo=dt.UTC))
    (source,) = pages.sources.found
    assert source.frame.checkpoint_id == BATCHES
    if view is not None:
        pages.page(source.key, view, {})


def test_the_first_screen_takes_33_requests_and_each_further_look_10(
    pages: Pages, counting: QuickAnswers
) -> None:
    """Of ten batches with their reports, and the oldest one; further looks list five folders, find that none
    has requests or, since the query has ended in a batch, failures, and read the driver's record."""
    look(pages, 0)
    assert not WRITING & counting.requests.keys()
    assert counting.requests.total() == 33, counting.requests
    for second in (2, 4):
        counting.requests.clear()
        look(pages, second)
        assert counting.requests == {"LIST": 9, "GET": 1}


def test_the_page_of_edits_asks_for_no_more_than_a_look(pages: Pages, counting: QuickAnswers) -> None:
    editing = EditPages(pages)
    look(pages, 0)
    editing.edits(pages.sources.found[0], {})  # reads the documents of the other checkpoints, once
    for second in (2, 4):
        look(pages, second)
        counting.requests.clear()
        editing.edits(pages.sources.found[0], {})
        assert counting.requests.total() == 0


def test_several_windows_within_a_second_see_one_look(pages: Pages, counting: QuickAnswers) -> None:
    look(pages, 0)
    counting.requests.clear()
    look(pages, 0)
    assert counting.requests.total() == 0


def test_a_page_of_all_batches_reads_each_of_them_once(pages: Pages, counting: QuickAnswers) -> None:
    """Two requests for each further batch: its document and the report of its task."""
    look(pages, 0, "checkpoints")
    assert counting.requests.total() == 33 + 2 * 30 - 2, counting.requests
    for second, view in (
        (2, "checkpoints"),
        (4, "batches"),
        (6, "splits"),
        (8, "quarantine"),
        (10, "progress"),
    ):
        counting.requests.clear()
        look(pages, second, view)
        assert counting.requests == {"LIST": 9, "GET": 2 if second == 2 else 1}, view


def test_with_the_checkpoint_location_a_look_takes_16_requests(
    counting: QuickAnswers, tmp_path: Path
) -> None:
    bucket = new_bucket(counting.url)
    checkpoint = checkpoint_in(bucket, tmp_path)
    words = [f"{name}={value}" for name, value in bucket.storage_options.items()]
    files = FileSystem(storage=words)
    pages = pages_of([Place(location=checkpoint, stored=StoredState(files=files))])
    found = []
    for second in (0, 2, 4):
        counting.requests.clear()
        pages.sources.look(dt.datetime(1970, 1, 1, 0, 1, second, tzinfo=dt.UTC))
        (source,) = pages.sources.found
        assert source.frame.complete_id == 20
        found.append(dict(counting.requests))
    # The offsets of twenty batches, twelve documents and a driver's record; later the newest two offsets and
    # that record.
    assert found == [{"LIST": 13, "GET": 33}, {"LIST": 13, "GET": 3}, {"LIST": 13, "GET": 3}]
