"""Scenarios of Flink's coordinator tests, adapted to this library: a holder and attempts without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from flip27_source.coordination.batch_limits import Limits
from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import AttemptError, MissingReportError, MissingStateError, SplitReadError
from flip27_source.events import SourceEvent
from flip27_source.options import Options
from flip27_source.reader import SplitReader
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.store import MemoryStore
from tests.driver.batches import Batches
from tests.driver.test_reports import SERVER, Endpoint, Endpoints, Pages
from tests.toy_sources import INITIAL, EchoReader, Fragile, Item, Shelf, items, source_of


@dataclass(frozen=True, slots=True)
class Say(SourceEvent):
    number: int


class Hears(EchoReader):
    """Records the numbers of its events; fails on the numbers in ``chokes_on``."""

    heard: ClassVar[list[int]] = []
    chokes_on: ClassVar[set[int]] = set()

    def handle_source_event(self, event: Say) -> None:
        if event.number in self.chokes_on:
            raise RuntimeError("choked")
        self.heard.append(event.number)


class Remembers(Shelf):
    """Records every instance that was made, and the calls of each."""

    made: ClassVar[list[Remembers]] = []
    fails: ClassVar[set[str]] = set()

    def __init__(self, context: Any, options: Options, state: list[Item] | None = None) -> None:
        super().__init__(context, options, state)
        self.made.append(self)

    def start(self) -> None:
        super().start()
        self._may_fail("start")

    def handle_split_request(self, subtask_id: int) -> None:
        self._may_fail("request")
        super().handle_split_request(subtask_id)

    def add_splits_back(self, splits: Any, subtask_id: int) -> None:
        self.calls.append(f"back {[split.split_id for split in splits]}")
        super().add_splits_back(splits, subtask_id)

    def subtask_reset(self, subtask_id: int, checkpoint_id: int) -> None:
        self.calls.append(f"reset {subtask_id} to {checkpoint_id}")

    def snapshot_state(self, checkpoint_id: int) -> list[Item]:
        self._may_fail("snapshot")
        return super().snapshot_state(checkpoint_id)

    def _may_fail(self, where: str) -> None:
        if where in self.fails:
            raise RuntimeError(f"no {where}")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Fragile.mend()
    Hears.heard.clear()
    Hears.chokes_on.clear()
    Remembers.made.clear()
    Remembers.fails.clear()


def remembering(*names: str, reader: type[SplitReader[Any]] = EchoReader, **options: str) -> Batches:
    batches = Batches(Remembers, reader, options)
    batches.shelve(*names)
    return batches


@pytest.mark.parametrize("when", ["before the freeze", "after the freeze"])
def test_an_event_that_fails_in_its_reader_fails_the_batch_until_an_attempt_takes_it_S12_S13_S14(
    when: str,
) -> None:
    batches = remembering("a", reader=Hears)
    if when == "after the freeze":
        batches.trigger()
        batches.enumerator().context.send_event_to_reader(0, Say(7))
        batches.commit()
    else:
        batches.enumerator().context.send_event_to_reader(0, Say(7))
    batches.trigger()
    Hears.chokes_on.add(7)
    (task,) = batches.tasks()
    for number in range(2):
        with pytest.raises(SplitReadError, match="reader Hears failed: RuntimeError: choked"):
            batches.attempt(task, number)
    Hears.chokes_on.clear()
    batches.attempt(task, 2)
    batches.commit()
    assert Hears.heard == [7]
    assert batches.batch() is None


def test_results_of_another_thread_while_checkpoints_freeze_belong_to_one_checkpoint_S15_S16_I1() -> None:
    """At every freeze the state counts the events that were sent; each of them is planned or waits."""

    class Counts(Shelf):
        state_type = int
        event_types = ()
        seen = threading.Event()

        def __init__(self, context: Any, options: Options, state: int | None = None) -> None:
            super().__init__(context, options, None)
            self.sent = state or 0

        def start(self) -> None:
            self.context.call_async(lambda: None, self._tick, period_s=0.0005)

        def _tick(self, result: None, error: BaseException | None) -> None:
            self.context.send_event_to_reader(0, Say(self.sent))
            self.sent += 1
            self.seen.set()

        def snapshot_state(self, checkpoint_id: int) -> int:  # type: ignore[override]
            self._tick(None, None)
            return self.sent

    batches = Batches(Counts, Hears)
    codec = SnapshotCodec(Counts, Hears)
    planned: list[int] = []
    try:
        for _ in range(40):
            batches.trigger()
            for task in batches.tasks():
                events = [codec.events_to_readers.decode(event) for event in task.events]
                planned += [event.number for event in events if isinstance(event, Say)]
            batches.commit()
            snapshot = batches.snapshot()
            waiting = [item.event.number for item in snapshot.ledger.events]
            assert [*planned, *waiting] == list(range(snapshot.enumerator_state))
    finally:
        batches.holder.close()
    assert Counts.seen.is_set()


def shelve_and_trigger(batches: Batches) -> None:
    batches.shelve("a")
    batches.trigger()


@pytest.mark.parametrize("where", ["start", "request", "snapshot"])
def test_an_error_of_the_enumerator_fails_the_query_once_and_the_next_call_starts_again_S17_S18_S61(
    where: str,
) -> None:
    batches = Batches(Remembers, EchoReader)
    Remembers.fails.add(where)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"no {where}"):
            shelve_and_trigger(batches)
    Remembers.fails.clear()
    assert [made.calls[-1] for made in Remembers.made] == ["close", "close"]
    batches.shelve("a")
    assert batches.batch() == ["a"]
    assert len(Remembers.made) == 3


def test_only_the_first_of_two_simultaneous_failures_reaches_the_query_S17_S52() -> None:
    """The second failure belongs to an instance that has already been closed."""
    failed = threading.Semaphore(0)

    class Fails(Remembers):
        def start(self) -> None:
            super().start()
            if len(self.made) == 1:
                for number in range(2):
                    self.context.call_async(lambda number=number: self._work(number), self._ended)

        def _work(self, number: int) -> None:
            failed.release()
            raise RuntimeError(f"failure {number}")

        def _ended(self, result: None, error: BaseException | None) -> None:
            assert error is not None
            raise error

    batches = Batches(Fails, EchoReader)
    with pytest.raises(RuntimeError, match="failure"):
        batches.holder.latest_offset(INITIAL, None)
    assert failed.acquire(timeout=10)
    assert failed.acquire(timeout=10)
    batches.shelve("a")
    assert batches.batch() == ["a"]
    assert len(Remembers.made) == 2


def test_no_task_is_planned_before_its_document_is_durable_S22_R2() -> None:
    batches = remembering("a")
    batches.trigger()
    (name,) = [name for name in batches.files() if "/checkpoints/" in name]
    batches.store.delete(name)
    batches.restart()
    with pytest.raises(MissingStateError):
        batches.tasks()


def test_an_aborted_checkpoint_is_never_reported_as_complete_S23_S7_S8() -> None:
    batches = remembering("a", "b")
    batches.trigger(Limits(files=1))
    batches.commit()
    batches.trigger(Limits(files=1))
    batches.trigger(Limits(files=1))  # from the same start, so the second checkpoint is aborted
    batches.commit()
    batches.trigger()
    given_up, living = Remembers.made
    assert [c for c in given_up.calls if c.startswith(("complete", "aborted"))] == ["complete 1", "aborted 2"]
    assert [c for c in living.calls if c.startswith(("complete", "aborted"))] == ["complete 1", "complete 2"]


def test_a_restart_resets_no_subtask_and_returns_no_split_S49_S59() -> None:
    batches = remembering("a", "b", taskReports="always")
    batches.batch()
    batches.restart()
    batches.enumerator()
    batches.trigger()
    told = [call for call in Remembers.made[-1].calls if call.startswith(("reset", "back"))]
    assert len(Remembers.made) == 2
    assert told == []


def test_a_batch_read_plans_once_from_the_beginning_and_its_tasks_report_nothing_S51() -> None:
    store = MemoryStore()
    holder = CoordinatorHolder(
        source_of(Remembers, {}),
        Boundedness.BOUNDED,
        store=store,
        environment=Environment(now_ms=lambda: 0, cores=2),
        one_batch=True,
    )
    enumerator: Any = holder.coordinator_at(INITIAL).enumerator
    enumerator.shelf.extend(items("a", "b"))
    end = holder.latest_offset(INITIAL, None)
    planned = holder.plan(INITIAL, end)
    assert [task.report for task in planned] == [None]
    assert holder.plan(INITIAL, end) == planned
    assert not [name for name in store.files if "/reports/" in name or "/drivers/" in name]


def test_an_abandoned_instance_can_no_longer_do_anything_S52_I13() -> None:
    batches = remembering("a", "b", reader=Hears)
    batches.trigger(Limits(files=1))
    stale = Remembers.made[0].context
    batches.trigger(Limits(files=1))
    stale.assign_split(Item(split_id="ghost"), 0)
    stale.send_event_to_reader(0, Say(13))
    batches.shelve("c")
    batches.commit()
    batches.trigger()
    assert [row for task in batches.tasks() for row in batches.attempt(task)] == ["c"]
    assert Hears.heard == []


@pytest.mark.slow
def test_a_thousand_restores_leave_one_living_instance_S53() -> None:
    class Full(Remembers):
        def start(self) -> None:
            self.shelf.append(Item(split_id="a"))

    batches = Batches(Full, EchoReader)
    for _ in range(1001):
        batches.trigger()
    assert len(Remembers.made) == 1001
    assert [made for made in Remembers.made if "close" not in made.calls] == [Remembers.made[-1]]
    assert [row for task in batches.tasks() for row in batches.attempt(task)] == ["a"]


def test_a_split_that_a_late_attempt_returns_after_the_completion_stays_finished_S59() -> None:
    batches = remembering("a", reader=Fragile, taskReports="always")
    task = batches.next_task()
    assert batches.attempt(task) == ["a"]
    batches.commit()
    batches.trigger()
    Fragile.busy = {"a"}
    with pytest.raises(AttemptError, match="was first and finished it"):
        batches.attempt(task, number=1)
    Fragile.mend()
    assert batches.batch() is None
    assert not [call for call in Remembers.made[0].calls if call.startswith("back")]


class CrashesOnce(Pages):
    """Fails at the row ``CRASH``, and removes it."""

    def read(self, split: Endpoint) -> Iterator[Any]:
        for item in super().read(split):
            if item == ("CRASH",):
                SERVER[split.split_id].remove("CRASH")
                raise OSError("connection reset")
            yield item


def paged(rows: dict[str, list[str]], **options: str) -> Batches:
    SERVER.clear()
    SERVER.update(rows)
    return Batches(Endpoints, CrashesOnce, {"pollInterval": "0s", **options})


def read_on(batches: Batches, restart: bool) -> list[str]:
    """Run batches until three in a row have no rows; return all rows."""
    read: list[str] = []
    empty = 0
    while empty < 3:
        rows = batches.batch() or []
        empty = 0 if rows else empty + 1
        read += rows
        if restart:
            batches.restart()
    return read


@pytest.mark.parametrize("restart", [False, True], ids=["one driver", "a new driver after each batch"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 100])
def test_every_record_is_read_once_wherever_a_batch_ends_S70(rows: int, restart: bool) -> None:
    batches = paged({"orders": list("abcdefg"), "users": list("uvw")}, maxRowsPerSplit=str(rows))
    read = read_on(batches, restart)
    assert sorted(read) == list("abcdefguvw")
    for names in ("abcdefg", "uvw"):
        assert [row for row in read if row in names] == list(names)


def test_a_split_that_appears_while_others_are_read_is_read_together_with_them_S70() -> None:
    batches = paged({"orders": list("abcd")}, maxRowsPerSplit="2", discoveryInterval="10ms")
    assert batches.batch() == ["a", "b"]
    SERVER["late"] = ["x"]
    batches.restart()
    batches.trigger()
    assert sorted(row for task in batches.tasks() for row in batches.attempt(task)) == ["c", "d", "x"]


@pytest.mark.parametrize("at", [0, 2, 3])
def test_a_failed_page_never_counts_as_the_end_of_the_split_S71(at: int) -> None:
    rows = list("abcd")
    rows.insert(at, "CRASH")
    batches = paged({"orders": rows})
    task = batches.next_task()
    with pytest.raises(SplitReadError, match="connection reset"):
        batches.attempt(task)
    assert not [name for name in batches.files() if "/reports/" in name]
    batches.commit()  # as if the task had succeeded
    with pytest.raises(MissingReportError):
        batches.trigger()
    assert batches.attempt(task, number=1) == list("abcd")
    assert batches.batch() == []


@pytest.mark.parametrize(
    ("one", "other"),
    [(["a", "END"], ["x", "END"]), (["a", "b", "END"], ["x", "END"]), (["a", "b", "c", "END"], ["END"])],
    ids=["with their last rows", "one split after its last rows", "one split without rows"],
)
def test_splits_finish_together_or_apart_with_or_after_their_last_rows_S71(
    one: list[str], other: list[str]
) -> None:
    batches = paged({"one": one, "other": other}, maxRowsPerSplit="2")
    read = read_on(batches, restart=False)
    assert sorted(read) == sorted(row for row in (*one, *other) if row != "END")
    assert batches.batch() is None


@pytest.mark.parametrize(
    "before", [0, 1, 2], ids=["before any checkpoint", "after one checkpoint", "after two checkpoints"]
)
def test_live_splits_are_assigned_once_after_a_restart_with_fewer_subtasks_S65(before: int) -> None:
    names = ["one", "two", "three", "four", "five"]
    batches = paged({name: [f"{name}-{i}" for i in range(6)] for name in names}, maxRowsPerSplit="2")
    read: list[str] = []
    for _ in range(before):
        read += batches.batch() or []
    batches.restart_with({"parallelism": "1"})
    task = batches.next_task()
    read += batches.attempt(task)
    assert batches.attempt(task, number=1)[:1] == [f"one-{2 * before}"]
    assert sorted(read) == sorted(f"{name}-{i}" for name in names for i in range(2 * before + 2))


class Lists(DiscoveringEnumerator[Item]):
    found: ClassVar[list[str]] = []

    def discover(self, position: int | None) -> Discovery[Item, int]:
        return Discovery([Item(split_id=name) for name in self.found[position or 0 :]], len(self.found))


def test_a_found_split_waits_until_it_is_requested_and_is_kept_when_it_is_returned_S74() -> None:
    Fragile.busy = {"b"}
    Lists.found[:] = ["a", "b", "c"]
    batches = Batches(Lists, Fragile, {"taskReports": "always"})
    one = Limits(files=1)
    batches.trigger()  # without a limit every split is assigned
    batches.trigger(one)  # back to the start: one split is requested, two stay waiting
    rows = [row for task in batches.tasks() for row in batches.attempt(task)]
    batches.commit()
    batches.restart()
    rows += batches.batch(one) or []  # "b", which comes back
    Fragile.mend()
    while (more := batches.batch(one)) is not None:
        rows += more
    assert sorted(rows) == ["a", "b", "c"]


def test_an_event_reaches_only_the_attempts_of_its_own_batch_S36_I6() -> None:
    """A late task still belongs to the batch that it was planned for."""
    batches = remembering("a", reader=Hears)
    batches.enumerator().context.send_event_to_reader(0, Say(1))
    late = batches.next_task()
    batches.attempt(late)
    batches.commit()
    batches.enumerator().context.send_event_to_reader(0, Say(2))
    batches.trigger()
    Hears.heard.clear()
    batches.attempt(late, number=1)
    assert Hears.heard == [1]
