"""Two drivers on one checkpoint and state location: the older one stops and says so (R9, S98)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import CorruptStateError, MissingStateError, StaleDriverError, StateLocationError
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.store import MemoryStore
from flip27_source.snapshots.stored_lineage import StoredLineage
from flip27_source.testing import MicroBatchEngine
from tests.driver.batches import Batches
from tests.edits.edited import IDS
from tests.snapshots.spark_logs import FileQuery
from tests.toy_sources import FEEDS, INITIAL, EchoReader, Feed, items

LINEAGE = "orders-0123456789abcdef"


class Interrupted(MemoryStore):
    """A store in which something happens just before a certain call."""

    before: tuple[str, Callable[[], object]] | None = None

    def read(self, name: str, limit: int | None = None) -> bytes:
        self._at(f"read {name.split('/')[1]}")
        return super().read(name, limit)

    def _at(self, call: str) -> None:
        if self.before is not None and self.before[0] == call:
            (_, work), self.before = self.before, None
            work()

    def list(self, folder: str) -> list[str]:
        self._at(f"list {folder.rpartition('/')[2]}")
        return super().list(folder)

    def delete(self, name: str) -> None:
        self._at("delete")
        super().delete(name)


def raising(error: Exception) -> Callable[[], object]:
    def work() -> None:
        raise error

    return work


@pytest.fixture
def batches(request: pytest.FixtureRequest) -> Batches:
    FEEDS[request.node.name] = items("a")
    return Batches(Feed, EchoReader, {"feed": request.node.name, "stateLocation": "/unused"})


def test_the_older_of_two_drivers_stops_with_an_error_and_writes_nothing_further_S98(
    batches: Batches,
) -> None:
    batches.batch()
    older, started = batches.holder, batches.committed
    batches.restart()
    batches.trigger()
    batches.source_feed.extend(items("b"))
    before = batches.files()
    with pytest.raises(StaleDriverError, match=r"another driver .* has taken over") as caught:
        older.latest_offset(started, None)
    assert "two queries run on the same checkpoint" in str(caught.value)
    assert batches.files() == before
    assert batches.batch() == ["b"]


def test_an_offset_that_the_older_driver_announced_is_not_read_after_a_takeover_R9(batches: Batches) -> None:
    """If it could plan that offset after Spark's log no longer has it, a batch would get two sets of rows."""
    batches.batch()
    older, start = batches.holder, batches.committed
    batches.source_feed.extend(items("b"))
    batches.trigger()
    never_logged = batches.logged
    batches.restart()
    assert batches.batch() == ["b"]
    with pytest.raises(StaleDriverError, match=r"another driver .* has taken over"):
        older.plan(start, never_logged)


def test_a_report_of_a_stale_drivers_task_is_not_taken_for_one_of_the_current_driver_R9_I13() -> None:
    """Both drivers plan the same checkpoint of one lineage; their documents and reports differ in name."""
    FEEDS["stale"] = items("a")
    options = {"feed": "stale", "stateLocation": "/unused", "taskReports": "always"}
    ours = Batches(Feed, EchoReader, options)
    ours.batch()
    theirs = Batches(Feed, EchoReader, options, store=ours.store)
    theirs.committed = theirs.logged = ours.committed
    theirs.now_ms = 5
    FEEDS["stale"] += items("b")
    our_task = ours.next_task()
    theirs.holder.coordinator_at(theirs.committed)
    FEEDS["stale"] += items("c")
    their_task = theirs.next_task()
    assert our_task.report != their_task.report
    assert theirs.attempt(their_task) == ["b", "c"]
    assert ours.attempt(our_task) == ["b"]


def test_a_clean_up_deletes_nothing_more_once_another_driver_has_taken_over() -> None:
    FEEDS["cleaned"] = items("first")
    store = Interrupted()
    options = {"feed": "cleaned", "stateLocation": "/unused", "retainedCheckpoints": "2"}
    older = Batches(Feed, EchoReader, options, store=store)
    older.batch()
    lineage = next(iter(older.files())).partition("/")[0]
    store.before = ("list segments", lambda: DriverEpoch(store, lineage, 0))
    while store.before is not None:
        FEEDS["cleaned"] += items(str(len(FEEDS["cleaned"])))
        with contextlib.suppress(StaleDriverError):  # the batch in which the other driver takes over
            older.batch()
        older.wait_for_clean_up()
    assert len([name for name in older.files() if "/checkpoints/" in name]) > 9


def test_a_state_that_is_moved_while_the_query_runs_stops_it(batches: Batches) -> None:
    batches.batch()
    for name in batches.files():
        batches.store.delete(name)
    batches.source_feed.extend(items("b"))
    with pytest.raises(MissingStateError, match="was moved or deleted while the query ran"):
        batches.trigger()
    assert batches.files() == {}


def test_an_idle_driver_that_another_one_has_replaced_answers_no_request(tmp_path: Path) -> None:
    FEEDS["idle"] = items("a")
    options = {"feed": "idle", "stateLocation": str(tmp_path / "state")}
    older = MicroBatchEngine(options, enumerator=Feed, reader=EchoReader, schema=IDS)
    older.process_all_available()
    lineage = next((tmp_path / "state").iterdir()).name
    DriverEpoch(older.driver_store() or MemoryStore(), lineage, 0)
    (tmp_path / "file").touch()
    request = savepoints.request(state=options["stateLocation"], to=str(tmp_path / "file"))
    older.holder.look_for_requests()
    with pytest.raises(StaleDriverError):
        older.trigger()
    (waiting,) = savepoints.pending(state=options["stateLocation"])
    assert (waiting.request_id, waiting.error) == (request.request_id, None)


def test_a_restart_takes_the_next_epoch_and_old_ones_are_forgotten(batches: Batches) -> None:
    batches.batch()
    for _ in range(3):
        batches.restart()
        batches.trigger()
    names = [name.rpartition("/")[2] for name in batches.files() if "/drivers/" in name]
    assert sorted(names) == ["3.json", f"4.{batches.now_ms}.alive", "4.json"]


def test_two_drivers_that_take_over_at_once_get_different_epochs() -> None:
    store = MemoryStore()
    first, second = (DriverEpoch(store, LINEAGE, 0) for _ in range(2))
    assert (first.epoch, second.epoch) == (1, 2)
    second.check()
    with pytest.raises(StaleDriverError):
        first.check()


def test_two_queries_in_one_location_do_not_fence_each_other(batches: Batches) -> None:
    other = Batches(Feed, EchoReader, {k: str(v) for k, v in batches.options.items()}, store=batches.store)
    assert batches.batch() == ["a"]
    assert other.batch() == ["a"]
    batches.source_feed.extend(items("b"))
    assert batches.batch() == ["b"]
    assert other.batch() == ["b"]


@pytest.mark.parametrize(
    ("call", "fails"),
    [
        ("read nothing", StaleDriverError),
        ("read checkpoints", StateLocationError),  # whether Spark has committed more cannot be found out
        ("delete", StaleDriverError),  # the claim stays
    ],
)
def test_a_driver_that_was_suspended_while_it_restored_does_not_take_over(
    call: str, fails: type[Exception]
) -> None:
    FEEDS["late"] = items(*"abcd")
    store, one, options = Interrupted(), Limits(files=1), {"feed": "late", "stateLocation": "/x"}
    living, late = (Batches(Feed, EchoReader, options, store=store) for _ in "12")
    living.batch(one)
    late.committed = late.logged = living.committed

    def refused() -> None:
        store.before = (call, refused)
        raise StateLocationError("the disk does not answer", remedy="wait")

    def continued() -> None:
        for _ in range(2):
            living.batch(one)
        store.before = (call, refused)

    store.before = ("list drivers", continued)
    with pytest.raises(fails):
        late.trigger()
    store.before = None
    newest = Offset.from_json(living.committed)
    assert StoredLineage(store, str(newest.lineage)).line().newest == newest.name
    late.holder.close()
    assert living.batch(one) == ["d"]


def test_of_two_drivers_that_continue_an_older_copy_the_suspended_one_does_not_take_over() -> None:
    FEEDS["older"] = items(*"abcdef")
    store, one, options = Interrupted(), Limits(files=1), {"feed": "older", "stateLocation": "/x"}
    before = Batches(Feed, EchoReader, options, store=store)
    before.batch(one)
    copy = before.committed
    for _ in range(3):
        before.batch(one)
    options["allowRolledBackCheckpoint"] = "true"
    living, late = (Batches(Feed, EchoReader, options, store=store) for _ in "12")
    for driver in (living, late):
        driver.committed = driver.logged = copy

    def continued() -> None:
        assert [living.batch(one), living.batch(one)] == [["b"], ["c"]]

    store.before = ("list drivers", continued)
    with pytest.raises(StaleDriverError, match="has continued"):
        late.trigger()
    assert living.batch(one) == ["d"]


def test_a_renewal_that_could_not_be_deleted_is_deleted_when_the_driver_ends() -> None:
    store = Interrupted()
    epoch = DriverEpoch(store, LINEAGE, 0, is_renewed=True)
    store.before = ("delete", raising(StateLocationError("the disk does not answer", remedy="wait")))
    epoch.renew(10_000)
    assert len([name for name in store.files if name.endswith(".alive")]) == 2
    epoch.end()
    assert [name for name in store.files if name.endswith(".alive")] == []


def test_a_claim_that_is_given_back_twice_deletes_no_claim_of_another_driver() -> None:
    """Otherwise the next driver takes the same epoch, and two lines cannot be told apart."""

    class DeletesAndFails(MemoryStore):
        def delete(self, name: str) -> None:
            super().delete(name)
            raise StateLocationError("the folder cannot be synced", remedy="wait")

    store = DeletesAndFails()
    claim = DriverEpoch(store, LINEAGE, 1, at="")
    claim.give_back()
    other = DriverEpoch(store, LINEAGE, 2)
    assert other.epoch == claim.epoch
    claim.give_back()
    other.check()


def test_a_report_that_seems_missing_is_asked_for_again_R19() -> None:
    """The file system of another process may remember that the report did not exist."""
    FEEDS["again"] = items("a")
    options = {"feed": "again", "stateLocation": "/x", "onSplitError": "quarantine"}
    batches = Batches(Feed, EchoReader, options, store=(store := Interrupted()))
    assert batches.batch() == ["a"]
    FEEDS["again"] += items("b")
    store.before = ("read reports", raising(MissingStateError("no report", remedy="look again")))
    assert batches.batch() == ["b"]
    assert store.before is None


def repeating(query: FileQuery, start: dict[str, Any], planned: dict[str, Any]) -> CoordinatorHolder:
    """The driver of a restart that repeats the batch of ``planned``."""
    holder = CoordinatorHolder(query.source, Boundedness.BOUNDED)
    assert holder.plan(start, planned)
    return holder


def test_an_older_copy_that_repeats_a_batch_does_not_stop_the_driver_that_has_gone_on(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a")
    copied = query.batch()
    query.land("b")
    query.batch()
    driver = CoordinatorHolder(query.source, Boundedness.BOUNDED)
    assert driver.latest_offset(query.at, None) == query.at  # it records that the second batch is complete
    of_copy = repeating(query, INITIAL, copied)
    with pytest.raises(CorruptStateError, match="is an older copy"):
        of_copy.latest_offset(copied, None)
    of_copy.close()
    assert driver.plan(copied, query.at)
    driver.close()


def test_an_older_copy_that_may_be_continued_claims_the_state_while_it_repeats_a_batch(
    tmp_path: Path,
) -> None:
    """Otherwise `flip27 retire` would remove the state of a query that runs."""
    query = FileQuery(tmp_path, allowRolledBackCheckpoint="true")
    query.land("a")
    copied = query.batch()
    for name in "bc":
        query.land(name)
        query.batch()
    (lineage,) = query.checkpoint.glob("flip27/*")
    epochs = set(lineage.glob("drivers/*"))
    of_copy = repeating(query, INITIAL, copied)
    assert set(lineage.glob("drivers/*")) - epochs
    of_copy.latest_offset(copied, None)
    of_copy.close()


def test_a_repeated_batch_without_its_state_writes_nothing_to_the_location(tmp_path: Path) -> None:
    """Otherwise a state that is moved back would be moved into what was written."""
    query = FileQuery(tmp_path)
    query.land("a")
    planned = query.batch(committed=False)
    state = query.checkpoint / "flip27"
    state.rename(tmp_path / "moved")
    with pytest.raises(MissingStateError, match="restore it from a backup"):
        repeating(query, INITIAL, planned)
    assert not state.exists()
    (tmp_path / "moved").rename(state)
    repeating(query, INITIAL, planned).close()


def test_a_batch_that_fails_again_and_again_leaves_no_record_of_each_driver(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a")
    planned = query.batch(committed=False)
    for _ in range(6):
        repeating(query, INITIAL, planned).close()
    assert len(list(query.checkpoint.glob("flip27/*/drivers/*"))) <= 3
