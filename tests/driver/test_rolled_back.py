"""Spark's checkpoint is an older copy, but the state location is not: the query stops and says so."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import CorruptStateError, StaleDriverError
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.store import LocalStore
from flip27_source.snapshots.stored_lineage import StoredLineage
from tests.driver.batches import Batches
from tests.savepoints.test_savepoints import on_disk
from tests.toy_sources import FEEDS, EchoReader, Feed, items

ONE = Limits(files=1)


def running(tmp_path: Path, **options: str) -> Batches:
    FEEDS["back"] = items(*"abcdefgh")
    return on_disk(Feed, EchoReader, tmp_path / "state", feed="back", **options)


def copied(tmp_path: Path, now_ms: int = 0) -> tuple[Batches, dict[str, object]]:
    """A query that has read one item, and a copy of Spark's checkpoint."""
    batches = running(tmp_path)
    batches.now_ms = now_ms
    batches.batch(ONE)
    return batches, batches.committed


def gone_back(batches: Batches, offset: dict[str, object]) -> Batches:
    """Restart the query with an older copy of Spark's checkpoint."""
    batches.committed = batches.logged = offset
    batches.restart()
    return batches


@pytest.mark.parametrize("batches_since", [2, 3, 5])
def test_a_rolled_back_checkpoint_stops_the_query_with_a_remedy(tmp_path: Path, batches_since: int) -> None:
    batches, copy = copied(tmp_path)
    for _ in range(batches_since):
        batches.batch(ONE)
    before = sorted(path.name for path in (tmp_path / "state").glob("*/checkpoints/*"))
    with pytest.raises(CorruptStateError, match="is an older copy: its last checkpoint is 1 ") as caught:
        gone_back(batches, copy).batch(ONE)
    assert f"Spark committed {batches_since}" in str(caught.value)
    assert "allowRolledBackCheckpoint=true" in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "state").glob("*/checkpoints/*")) == before


@pytest.mark.parametrize("restarts", [False, True])
def test_a_checkpoint_is_older_by_one_batch_that_is_known_to_be_complete(
    tmp_path: Path, restarts: bool
) -> None:
    """Spark has a later batch without data of this source: an empty one, or one of another source."""
    batches = running(tmp_path)
    FEEDS["back"] = items("a", "b")
    batches.batch(ONE)
    copy = batches.committed
    assert batches.batch(ONE) == ["b"]
    if restarts:
        batches.restart()
    assert batches.trigger(ONE) is False
    if not restarts:
        batches.holder.close()
    with pytest.raises(CorruptStateError, match=r"is an older copy: its last checkpoint is 1 .* committed 2"):
        gone_back(batches, copy).batch(ONE)


def test_a_copy_of_a_line_that_the_query_has_left_stops_it(tmp_path: Path) -> None:
    batches, copy = copied(tmp_path)
    assert [batches.batch(ONE), batches.batch(ONE)] == [["b"], ["c"]]
    left = batches.committed
    allowed = gone_back(running(tmp_path, allowRolledBackCheckpoint="true"), copy)
    assert [allowed.batch(ONE), allowed.batch(ONE), allowed.batch(ONE)] == [["b"], ["c"], ["d"]]
    with pytest.raises(CorruptStateError, match="committed 3 on the line that it continued later"):
        gone_back(running(tmp_path), left).batch(ONE)


@pytest.mark.parametrize("batches_since", [0, 1, 2, 3])
@pytest.mark.parametrize("clock_ms", [0, 9_000])
def test_a_savepoint_is_of_the_line_that_the_newest_driver_continues(
    tmp_path: Path, batches_since: int, clock_ms: int
) -> None:
    """Neither the highest id nor the latest time says which line that is."""
    batches, copy = copied(tmp_path, now_ms=5_000)
    for _ in range(4):
        batches.batch(ONE)
    again = running(tmp_path, allowRolledBackCheckpoint="true")
    again.now_ms = clock_ms
    gone_back(again, copy)
    if not batches_since:
        again.holder.coordinator_at(copy)
    read = [row for _ in range(batches_since) for row in again.batch(ONE) or []]
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"), copy=True)
    assert made.checkpoint_id == max(1, batches_since)
    fork = on_disk(Feed, EchoReader, tmp_path / "fork", feed="back", savepoint=made.directory)
    rest = [row for _ in range(7) for row in fork.batch(ONE) or []]
    assert ["a", *read[: made.checkpoint_id - 1], *rest] == list("abcdefgh")


def test_with_the_option_later_batches_are_read_again_once_and_later_starts_do_not_need_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batches, copy = copied(tmp_path)
    assert [batches.batch(ONE) for _ in range(4)] == [["b"], ["c"], ["d"], ["e"]]
    allowed = running(tmp_path, allowRolledBackCheckpoint="true")
    allowed.now_ms = 1
    with caplog.at_level(logging.WARNING, "flip27_source"):
        assert gone_back(allowed, copy).batch(ONE) == ["b"]
    assert "is an older copy" in caplog.text
    later = running(tmp_path)
    later.now_ms = 2
    gone_back(later, allowed.committed)
    assert [later.batch(ONE) for _ in range(7)] == [["c"], ["d"], ["e"], ["f"], ["g"], ["h"], None]


def test_a_replaced_driver_gets_an_error_that_says_so_and_mentions_no_older_copy(tmp_path: Path) -> None:
    batches = running(tmp_path)
    batches.batch(ONE)
    stale, start = batches.holder, batches.committed
    batches.restart()
    for _ in range(3):
        batches.batch(ONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Feed, "handle_split_request", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            stale.latest_offset(start, ONE)
    with pytest.raises(StaleDriverError):
        stale.latest_offset(start, ONE)


def test_a_driver_killed_before_spark_logged_its_checkpoint_is_not_taken_for_an_older_copy(
    tmp_path: Path,
) -> None:
    batches = running(tmp_path)
    batches.batch(ONE)
    for now_ms in (1, 2, 3):
        batches.now_ms = now_ms
        batches.restart()
        batches.trigger(ONE)  # its offset is never logged
        batches.logged = batches.committed
    batches.restart()
    assert [batches.batch(ONE), batches.batch(ONE)] == [["b"], ["c"]]


def test_damaged_documents_of_an_abandoned_branch_do_not_stop_the_query(tmp_path: Path) -> None:
    batches, copy = copied(tmp_path)
    for _ in range(3):
        batches.batch(ONE)
    for document in (tmp_path / "state").glob("*/checkpoints/*"):
        if not document.name.startswith("1-"):
            document.write_text("damaged")
    batches.now_ms = 1
    assert gone_back(batches, copy).batch(ONE) == ["b"]


class Watched(LocalStore):
    """A store on disk that records which checkpoints are read."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.documents: list[str] = []

    def read(self, name: str, limit: int | None = None) -> bytes:
        if "/checkpoints/" in name:
            self.documents.append(name)
        return super().read(name, limit)


def test_an_ordinary_restart_reads_only_its_own_checkpoint(tmp_path: Path) -> None:
    batches = running(tmp_path)
    for _ in range(5):
        batches.batch(ONE)
    batches.store = store = Watched(str(tmp_path / "state"))
    batches.restart()
    assert batches.batch(ONE) == ["f"]
    (newest,) = (tmp_path / "state").glob("*/checkpoints/5-*")
    assert {*store.documents} == {"/".join(newest.parts[-3:])}


def test_each_checkpoint_of_a_line_that_was_left_is_read_once_in_a_search(tmp_path: Path) -> None:
    batches, copy = copied(tmp_path)
    for _ in range(6):
        batches.batch(ONE)
    allowed = gone_back(running(tmp_path, allowRolledBackCheckpoint="true"), copy)
    allowed.now_ms = 1
    allowed.batch(ONE)
    start = Offset.from_json(allowed.committed)
    assert start.lineage is not None
    assert start.name is not None
    store = Watched(str(tmp_path / "state"))
    assert StoredLineage(store, start.lineage).committed_after(start.name) is None
    assert len(store.documents) > 4
    assert max(Counter(store.documents).values()) == 1


def test_an_older_copy_whose_state_was_cleaned_up_is_not_offered_for_use(tmp_path: Path) -> None:
    batches, copy = copied(tmp_path)
    for _ in range(3):
        batches.batch(ONE)
    (first,) = (tmp_path / "state").glob("*/checkpoints/1-*")
    first.unlink()
    with pytest.raises(CorruptStateError, match="the state of its checkpoint was cleaned up") as caught:
        gone_back(batches, copy).batch(ONE)
    assert "allowRolledBackCheckpoint" not in str(caught.value)
