"""Listings of splits, page by page: what is on them, where they go on, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.history import History, StoredSplit
from flip27_source.state_tables.predicates import Predicate
from flip27_source.state_tables.split_listing import Cursor, Listed, list_splits
from flip27_source.state_tables.views import VIEWS
from tests.snapshots.spark_logs import STORAGE, FileQuery

FILES = 40


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> FileQuery:
    """Files 00 to 39: three batches of ten have read some, the last is not committed, and ten wait."""
    query = FileQuery(tmp_path_factory.mktemp("query"))
    query.land(*(f"{number:02}.txt" for number in range(FILES)))
    query.limits = Limits(files=10)
    for batch in range(3):
        query.batch(now_ms=1000 * batch, committed=batch < 2)
    return query


@pytest.fixture
def history(query: FileQuery) -> History:
    (lineage,) = find_lineages(str(query.checkpoint), STORAGE)
    return History(lineage.store(STORAGE), lineage)


def pages(history: History, most: int, **chosen: Any) -> Iterator[list[Listed]]:
    after: Cursor | None = Cursor()
    while after is not None:
        page = list_splits(history, Cursor.parse(str(after)), most, **chosen)
        yield page.splits
        after = page.after


def listed(history: History, most: int = 7, **chosen: Any) -> list[Listed]:
    return [split for page in pages(history, most, **chosen) for split in page]


@pytest.mark.parametrize("most", [1, 7, 10, 100])
def test_every_split_is_on_one_page_those_that_wait_first_and_then_the_newest_batch(
    most: int, history: History
) -> None:
    found = listed(history, most)
    assert [len(page) for page in pages(history, most)][:-1] == [most] * ((FILES - 1) // most)
    assert len({item.split.split_id for item in found}) == len(found) == FILES
    assert [item.name and item.name.checkpoint_id for item in found] == [None] * 10 + [3] * 10 + [2] * 10 + [
        1
    ] * 10


def test_the_status_is_that_of_the_view_files(history: History) -> None:
    rows = {row["split_id"]: row["status"] for row in VIEWS["files"].rows(history)}
    found = {item.split.split_id: item.status for item in listed(history)}
    # Of those that wait, the view has only what a limit has postponed, not what the enumerator holds.
    assert found == {item.split.split_id: "waiting" for item in listed(history)} | rows


@pytest.mark.parametrize(
    ("status", "number"), [("waiting", 10), ("planned", 10), ("finished", 20), ("undone", 0)]
)
def test_only_splits_with_a_status_are_listed(status: str, number: int, history: History) -> None:
    assert len(listed(history, statuses=[status])) == number


def test_splits_are_found_by_a_part_of_their_name(history: History) -> None:
    assert [Path(item.split.fields["path"]).name for item in listed(history, text="/17.txt")] == ["17.txt"]
    assert len(listed(history, text="landing/1")) == 10
    assert listed(history, text='"17') == []


def test_only_the_splits_of_one_batch_are_listed(history: History) -> None:
    name = history.line().names[1]
    assert {item.name for item in listed(history, only=name)} == {name}
    assert len(listed(history, only=name)) == 10


def test_a_page_decodes_only_the_splits_that_it_shows(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[msgspec.Raw] = []
    of = StoredSplit.of
    monkeypatch.setattr(StoredSplit, "of", lambda raw: (decoded.append(raw), of(raw))[1])
    page = list_splits(history, Cursor(), 5)
    assert len(page.splits) == len(decoded) == 5
    assert page.after is not None
    list_splits(history, page.after, 5)
    assert len(decoded) == 10


def test_looking_for_a_long_time_is_cut_and_goes_on_where_it_was(history: History) -> None:
    ticks = count(step=10)
    found, after, cuts = [], Cursor(), 0
    while True:
        page = list_splits(history, after, 5, text="00.txt", clock_s=lambda: float(next(ticks)))
        found += page.splits
        cuts += page.is_cut
        if page.after is None:
            break
        after = page.after
    assert [Path(item.split.fields["path"]).name for item in found] == ["00.txt"]
    assert cuts > 0


def test_a_cursor_of_a_batch_that_was_cleaned_up_finds_nothing(history: History) -> None:
    assert list_splits(history, Cursor("99.0", 3), 5).splits == []
    assert len(list_splits(history, Cursor.parse("nonsense"), 5).splits) == 5


def test_the_view_of_one_split_reads_only_splits_that_contain_its_name(history: History) -> None:
    (row,) = VIEWS["splits"].rows(history, Predicate(text="/17.txt"))
    assert (Path(row["split_id"]).name, row["status"], row["last_checkpoint"]) == ("17.txt", "finished", 2)


def test_reading_a_segment_does_not_look_through_all_segments_of_its_document(history: History) -> None:
    """A batch of n tasks has n segments: reading each would look n times n times."""

    class NotListed(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError("all segments are looked through")

    newest = history.newest()
    assert newest is not None
    name, document = newest
    raw = msgspec.structs.replace(document.raw, segments=NotListed(document.raw.segments))
    splits = history.raw_splits(name, replace(document, raw=raw), raw.plan[0].splits)
    assert splits
