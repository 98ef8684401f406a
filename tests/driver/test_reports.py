"""Reports: what subtasks acknowledge, how later attempts repeat it, and what the coordinator does with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import (
    AccessError,
    AttemptError,
    ContractError,
    CorruptStateError,
    MissingReportError,
    QuarantineError,
    SplitReadError,
    StateLocationError,
)
from flip27_source.events import Progress, SourceEvent
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.snapshots.store import MemoryStore
from flip27_source.source import Source
from tests.driver.batches import Batches, InlineBatches
from tests.toy_sources import EchoReader, Fragile, Item, Shelf, holder_of

SERVER: dict[str, list[str]] = {}
"""The rows that the paged readers of the running test read, by split."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Fragile.mend()
    SERVER.clear()
    Talker.heard.clear()
    Listener.heard.clear()
    Flaky.broken.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    split_id: str
    next: int = 0


class Endpoints(DiscoveringEnumerator[Endpoint]):
    """Discovers every endpoint of the server once."""

    def discover(self, position: int | None) -> Discovery[Endpoint, int]:
        new = list(SERVER)[position or 0 :]
        return Discovery([Endpoint(split_id=name) for name in new], len(SERVER))


class Pages(YieldsProgress, SplitReader[Endpoint]):
    """Reads pages of two rows from the position of the split; ``END`` ends a split for good."""

    reads: ClassVar[int] = 0

    def read(self, split: Endpoint) -> Iterator[Any]:
        at = split.next
        while rows := SERVER[split.split_id][at : at + 2]:
            for row in rows:
                if row == "END":
                    yield Progress(None)
                    return
                yield (row,)
            at += len(rows)
            yield Progress(replace(split, next=at))


def paged(**options: str) -> Batches:
    return Batches(Endpoints, Pages, {"pollInterval": "0s", **options})


def test_a_batch_that_was_not_committed_is_read_again_up_to_the_same_row_R5() -> None:
    SERVER["orders"] = list("abcdef")
    batches = paged(maxRowsPerSplit="3")
    task = batches.next_task()
    assert batches.attempt(task) == list("abcd")
    SERVER["orders"] += list("ghijkl")
    batches.restart()
    (again,) = batches.tasks()
    assert again == task
    assert batches.attempt(again, number=1) == list("abcd")
    batches.commit()
    assert batches.batch() == list("efgh")


def test_a_replay_must_end_where_the_first_attempt_caught_up_although_there_is_more_data_now() -> None:
    SERVER["orders"] = list("abc")
    batches = paged()
    task = batches.next_task()
    assert batches.attempt(task) == list("abc")
    SERVER["orders"] = list("abcde")
    with pytest.raises(AttemptError, match="next=3"):
        # The pages were a, b | c and are now a, b | c, d: the reader cannot end after c as it did before.
        batches.attempt(task, number=1)
    batches.commit()
    assert batches.batch() == list("de")


def test_with_two_concurrent_attempts_the_first_to_report_counts_and_the_other_fails_S96() -> None:
    SERVER["orders"] = list("abcd")
    batches = paged(maxRowsPerSplit="2")
    task = batches.next_task()
    slow = batches.started_attempt(task, number=1)
    assert next(slow) == "a"
    assert batches.attempt(task) == ["a", "b"]
    assert list(slow) == ["b"]  # it has read the same rows
    SERVER["orders"] = list("abcd")
    batches.commit()
    task = batches.next_task()
    slow = batches.started_attempt(task, number=1)
    assert next(slow) == "c"
    before = dict(batches.files())
    SERVER["orders"] = list("cdc")
    assert batches.attempt(task) == ["c"]
    reported = {name for name in batches.files() if name not in before}
    with pytest.raises(AttemptError, match="was first"):
        list(slow)
    assert {name for name in batches.files() if name not in before} == reported


def test_a_split_that_caught_up_rests_until_the_poll_interval_has_passed() -> None:
    SERVER["orders"] = ["a"]
    batches = paged(pollInterval="5s")
    assert batches.batch() == ["a"]
    assert batches.batch() is None
    batches.now_ms += 4_999
    assert batches.batch() is None
    batches.now_ms += 1
    assert batches.batch() == []


def test_paged_splits_are_spread_over_the_subtasks_because_the_time_of_a_page_is_unknown() -> None:
    SERVER.update(orders=["a"], customers=["x"])
    batches = paged()
    batches.trigger()
    assert [task.subtask_id for task in batches.tasks()] == [0, 1]


def test_a_split_that_is_finished_for_good_is_never_read_again() -> None:
    SERVER["orders"] = ["a", "END", "never"]
    batches = paged()
    assert batches.batch() == ["a"]
    assert batches.batch() is None
    batches.restart()
    assert batches.batch() is None


def test_a_reader_gets_the_end_positions_of_the_attempt_that_counts() -> None:
    told: list[dict[str, Any]] = []

    class Told(Pages):
        def read(self, split: Endpoint) -> Iterator[Any]:
            told.append(dict(self.context.end_positions))
            yield from super().read(split)

    SERVER.update(orders=list("abc"), customers=["x", "END"])
    batches = Batches(Endpoints, Told)
    batches.trigger()
    for number in range(2):
        for task in batches.tasks():
            batches.attempt(task, number)
    assert told == [{}, {}, {"orders": Endpoint(split_id="orders", next=3)}, {"customers": None}]


class Careless(YieldsProgress, SplitReader[Endpoint]):
    def read(self, split: Endpoint) -> Iterator[Any]:
        yield ("a",)


class GoesOn(Careless):
    def read(self, split: Endpoint) -> Iterator[Any]:
        yield Progress(None)
        yield from super().read(split)


class Stuck(Careless):
    def read(self, split: Endpoint) -> Iterator[Any]:
        yield from super().read(split)
        yield Progress(split)


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        (Careless, "1 rows after its last Progress"),
        (GoesOn, "yielded more after Progress"),
        (Stuck, "a Progress whose position has not changed"),
    ],
)
def test_rows_without_a_new_position_after_them_are_refused(reader: type[Careless], said: str) -> None:
    SERVER["orders"] = ["a"]
    batches = Batches(Endpoints, reader)
    task = batches.next_task()
    with pytest.raises(ContractError, match=said):
        batches.attempt(task)


@dataclass(frozen=True, slots=True)
class Saw(SourceEvent):
    row: str


@dataclass(frozen=True, slots=True)
class Say(SourceEvent):
    number: int


class Talker(Shelf):
    """Records every event of its readers, and puts a split on its shelf, and so into its state, for each."""

    heard: ClassVar[list[str]] = []

    def handle_source_event(self, subtask_id: int, event: Saw) -> None:
        self.heard.append(f"{subtask_id}:{event.row}")
        self.shelf.append(Item(split_id=f"after-{event.row}"))


class Tells(EchoReader):
    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        if not split.split_id.startswith("after"):
            self.context.send_event_to_coordinator(Saw(split.split_id))
        yield from super().read(split)


def talking(*names: str, **options: str) -> Batches:
    batches = Batches(Talker, Tells, options)
    batches.shelve(*names)
    return batches


def test_events_of_readers_arrive_in_order_when_the_batch_is_complete_S94_R4() -> None:
    batches = talking("a", "b", "c")
    batches.trigger()
    for task in reversed(batches.tasks()):
        batches.attempt(task)
    assert Talker.heard == []
    batches.commit()
    batches.trigger()
    assert Talker.heard == ["0:a", "0:b", "0:c"]
    assert sorted(r for t in batches.tasks() for r in batches.attempt(t)) == ["after-a", "after-b", "after-c"]


def test_events_are_delivered_once_however_often_the_task_was_tried() -> None:
    batches = talking("a")
    task = batches.next_task()
    for number in range(3):
        assert batches.attempt(task, number) == ["a"]
    batches.commit()
    assert batches.batch() == ["after-a"]
    assert batches.batch() is None
    assert Talker.heard == ["0:a"]


def test_after_a_crash_the_events_are_delivered_to_the_restored_enumerator() -> None:
    batches = talking("a")
    assert batches.batch() == ["a"]
    batches.trigger()
    batches.restart()
    Talker.heard.clear()
    assert batches.batch() == ["after-a"]
    assert Talker.heard == ["0:a"]


def test_an_event_that_the_enumerator_does_not_accept_fails_in_the_reader_S54() -> None:
    class Odd(EchoReader):
        def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
            self.context.send_event_to_coordinator(Say(1))
            yield from super().read(split)

    batches = Batches(Talker, Odd)
    batches.shelve("a")
    batches.trigger()
    with pytest.raises(ContractError, match="Talker takes no Say"):
        batches.attempt(batches.tasks()[0])


def test_a_missing_report_of_a_committed_batch_stops_the_query_S96_R6() -> None:
    batches = talking("a")
    batches.trigger()
    batches.commit()
    with pytest.raises(MissingReportError, match="subtask 0 has not written its report"):
        batches.trigger()
    with pytest.raises(MissingReportError):
        batches.trigger()


class Answers(Talker):
    """Answers the sender of each event."""

    def handle_source_event(self, subtask_id: int, event: Saw) -> None:
        super().handle_source_event(subtask_id, event)
        self.context.send_event_to_reader(subtask_id, Say(len(self.heard)))


class Chats(Tells):
    def handle_source_event(self, event: Say) -> None:
        pass


def test_the_sender_of_an_event_can_be_answered_although_the_batch_had_more_tasks_than_are_registered() -> (
    None
):
    """A large batch at default parallelism has more; so has the last batch before parallelism was reduced."""
    batches = Batches(Answers, Chats, {"parallelism": "3"})
    enumerator = batches.enumerator()
    for subtask_id, name in enumerate("abc"):
        enumerator.context.assign_split(Item(split_id=name), subtask_id)
    assert sorted(batches.batch() or []) == ["a", "b", "c"]
    batches.restart_with({"parallelism": "2"})
    Talker.heard.clear()
    assert batches.batch() == ["after-a", "after-b", "after-c"]
    assert Talker.heard == ["0:a", "1:b", "0:c"]


class FailsOnce(Pages):
    """The second page cannot be read the first time."""

    error: ClassVar[Exception] = ValueError("torn")
    failures: ClassVar[list[str]] = []

    def read(self, split: Endpoint) -> Iterator[Any]:
        for number, item in enumerate(super().read(split)):
            if split.next + number >= 3 and not self.failures:
                self.failures.append(split.split_id)
                raise self.error
            yield item


class Waits(Pages):
    """Its first Progress does not move the position."""

    def read(self, split: Endpoint) -> Iterator[Any]:
        yield Progress(split)
        raise FailsOnce.error


@pytest.mark.parametrize("policy", ["quarantine", "ignore"])
def test_a_bounded_run_does_not_end_because_a_page_failed_once(policy: str) -> None:
    SERVER["orders"] = list("abcdef")
    FailsOnce.failures.clear()
    batches = Batches(Endpoints, FailsOnce, {"onSplitError": policy}, boundedness=Boundedness.BOUNDED)
    rows = []
    while (batch := batches.batch()) is not None:
        rows += batch
    assert rows == list("abcdef")
    assert FailsOnce.failures == ["orders"]


def test_a_split_whose_position_does_not_move_before_its_error_is_quarantined() -> None:
    SERVER["orders"] = ["a"]
    batches = Batches(Endpoints, Waits, {"onSplitError": "quarantine", "pollInterval": "0s"})
    assert batches.batch() == []
    assert batches.batch() is None
    assert (batches.holder.report() or {})["quarantinedSplits"] == 1


@pytest.mark.parametrize("reader", [Waits, FailsOnce])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_failure_of_access_fails_the_task_wherever_the_page_is(
    reader: type[Pages], is_repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    SERVER["orders"] = list("abcd")
    FailsOnce.failures[:] = ["none now"]
    batches = Batches(Endpoints, reader if not is_repeated else FailsOnce, {"onSplitError": "quarantine"})
    task = batches.next_task()
    if is_repeated:
        assert batches.attempt(task) == list("abcd")
    FailsOnce.failures.clear()
    monkeypatch.setattr(FailsOnce, "error", ConnectionResetError("the server closed the connection"))
    with pytest.raises(AccessError, match="the server closed the connection"):
        batches.attempt(task, 1)


def test_by_policy_the_splits_of_a_missing_report_are_read_again_R6() -> None:
    batches = talking("a", "b", onMissingReport="repeat")
    batches.trigger()
    batches.commit()
    assert batches.batch() == ["a", "b"]
    assert batches.batch() == ["after-a", "after-b"]


def test_by_policy_a_paged_split_of_a_missing_report_keeps_its_position() -> None:
    SERVER["orders"] = list("ab")
    batches = paged(onMissingReport="repeat")
    batches.trigger()
    batches.commit()
    assert batches.batch() == list("ab")


class Listener(EchoReader):
    heard: ClassVar[list[str]] = []

    def handle_source_event(self, event: Say) -> None:
        self.heard.append(f"{self.context.subtask_id}:{event.number}")


def test_events_to_readers_come_with_the_next_batch_in_order_before_its_splits_S8() -> None:
    batches = Batches(Shelf, Listener)
    context = batches.enumerator().context
    for number in range(3):
        context.send_event_to_reader(1, Say(number))
    context.send_event_to_reader(0, Say(9))
    batches.shelve("a")
    assert batches.batch() == ["a"]
    assert Listener.heard == ["0:9", "1:0", "1:1", "1:2"]
    assert batches.batch() is None


def test_an_event_sent_after_the_freeze_is_in_the_next_batch_and_survives_a_restart_I3() -> None:
    batches = Batches(Shelf, Listener)
    batches.shelve("a")
    batches.trigger()
    batches.enumerator().context.send_event_to_reader(1, Say(1))
    assert [task.events for task in batches.tasks()] == [()]
    batches.commit()
    batches.shelve("b")
    batches.trigger()
    assert sum(len(task.events) for task in batches.tasks()) == 1
    batches.restart()
    assert sorted(row for task in batches.tasks() for row in batches.attempt(task)) == ["b"]
    assert Listener.heard == ["1:1"]


def test_an_event_that_the_reader_does_not_accept_is_refused_when_it_is_sent() -> None:
    batches = Batches(Shelf, EchoReader)
    with pytest.raises(ContractError, match="EchoReader takes no Say, but one was sent to subtask 0"):
        batches.enumerator().context.send_event_to_reader(0, Say(1))


class Flaky(EchoReader):
    """Fails on splits in ``broken``, after the number of rows given there; records its attempts."""

    broken: ClassVar[dict[str, int]] = {}
    tries: ClassVar[list[str]] = []

    def read(self, split: Item) -> Iterator[tuple[Any, ...]]:
        self.tries.append(split.split_id)
        for number in range(3):
            if self.broken.get(split.split_id) == number:
                raise OSError("disk on fire")
            yield (f"{split.split_id}{number}",)


def quarantining(*names: str, **options: str) -> Batches:
    Flaky.tries.clear()
    batches = Batches(Shelf, Flaky, {"onSplitError": "quarantine", **options})
    batches.shelve(*names)
    return batches


def test_a_failing_split_delivers_none_of_its_rows_and_the_others_are_read() -> None:
    Flaky.broken["b"] = 2
    batches = quarantining("a", "b", "c", maxSplitAttempts="2")
    assert batches.batch() == ["a0", "a1", "a2", "c0", "c1", "c2"]
    assert Flaky.tries == ["a", "b", "b", "c"]
    batches.shelve("d")
    assert batches.batch() == ["d0", "d1", "d2"]
    (quarantined,) = batches.quarantined()
    assert (quarantined.split.split_id, quarantined.attempts) == ("b", 2)
    assert "disk on fire" in quarantined.error


def test_a_quarantined_split_is_in_the_state_after_a_restart_with_its_error() -> None:
    Flaky.broken["b"] = 0
    batches = quarantining("a", "b")
    batches.batch()
    batches.restart()
    batches.shelve("c")
    assert batches.batch() == ["c0", "c1", "c2"]
    batches.restart()
    assert batches.batch() is None
    assert [item.split.split_id for item in batches.quarantined()] == ["b"]


def test_another_attempt_skips_the_splits_that_the_first_attempt_quarantined() -> None:
    Flaky.broken["b"] = 0
    batches = quarantining("a", "b")
    task = batches.next_task()
    assert batches.attempt(task) == ["a0", "a1", "a2"]
    Flaky.broken.clear()
    assert batches.attempt(task, number=1) == ["a0", "a1", "a2"]


def test_an_attempt_that_read_a_split_quarantined_by_another_attempt_fails() -> None:
    Flaky.broken["b"] = 0
    batches = quarantining("a", "b")
    task = batches.next_task()
    slow = batches.started_attempt(task, number=1)
    assert next(slow) == "a0"
    batches.attempt(task)
    Flaky.broken.clear()
    with pytest.raises(AttemptError):
        list(slow)


def test_failures_are_counted_across_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A split too large to be held back fails its task; the next attempts find that failure recorded."""
    monkeypatch.setattr("flip27_source.executor.quarantine.BUFFERED_BYTES", 1)
    Flaky.broken["b"] = 2
    batches = quarantining("b", "c", maxSplitAttempts="3")
    batches.trigger()
    with pytest.raises(SplitReadError, match="disk on fire"):
        batches.attempt(batches.tasks()[0])
    batches.restart()
    assert batches.attempt(batches.tasks()[0]) == ["c0", "c1", "c2"]
    assert Flaky.tries == ["b", "b", "b", "c"]


def test_more_quarantined_splits_than_allowed_fail_the_task_and_nothing_is_quarantined() -> None:
    Flaky.broken.update(a=0, b=0)
    batches = quarantining("a", "b", "c", maxQuarantinedSplits="1")
    batches.trigger()
    with pytest.raises(QuarantineError, match="2 splits of one task cannot be read"):
        batches.attempt(batches.tasks()[0])
    Flaky.broken.clear()
    assert batches.attempt(batches.tasks()[0]) == [f"{s}{n}" for s in "abc" for n in range(3)]


def test_more_quarantined_splits_than_allowed_in_total_fail_the_query() -> None:
    Flaky.broken.update(a=0, b=0)
    batches = quarantining("a", maxQuarantinedSplits="1")
    batches.batch()
    batches.shelve("b")
    batches.batch()
    for _ in range(2):
        with pytest.raises(QuarantineError, match="2 splits cannot be read"):
            batches.trigger()


def test_a_returned_split_goes_back_to_the_enumerator_once_S58() -> None:
    Fragile.busy = {"b"}
    batches = Batches(Talker, Fragile)
    batches.shelve("a", "b")
    assert batches.batch() == ["a"]
    Fragile.mend()
    assert batches.batch() == ["b"]
    assert batches.batch() is None


def test_a_split_that_is_returned_from_a_batch_without_reports_goes_back_once_tasks_report() -> None:
    Fragile.busy = {"b"}
    batches = Batches(Shelf, Fragile)
    batches.shelve("a", "b")
    with pytest.raises(ContractError, match="set taskReports=always"):
        batches.batch()
    batches.restart_with({"taskReports": "always"})
    (task,) = batches.tasks()
    assert batches.attempt(task) == ["a"]
    batches.commit()
    Fragile.mend()
    batches.restart_with({"taskReports": "auto"})
    assert batches.batch() == ["b"]


def test_a_failed_first_attempt_is_reported_to_the_enumerator_S50() -> None:
    class Watches(Talker):
        resets: ClassVar[list[tuple[int, int]]] = []

        def subtask_reset(self, subtask_id: int, checkpoint_id: int) -> None:
            self.resets.append((subtask_id, checkpoint_id))

    batches = Batches(Watches, EchoReader)
    for name, number in (("a", 0), ("b", 2)):
        batches.shelve(name)
        batches.trigger()
        batches.attempt(batches.tasks()[0], number)
        batches.commit()
    batches.trigger()
    assert Watches.resets == [(0, 1)]


def test_a_source_that_is_fully_planned_on_the_driver_writes_nothing_from_executors_R6() -> None:
    batches = Batches(Shelf, EchoReader)
    batches.shelve("a")
    batches.trigger()
    before = dict(batches.files())
    batches.attempt(batches.tasks()[0])
    assert batches.files() == before


def test_a_missing_report_that_would_only_carry_numbers_stops_no_query() -> None:
    batches = Batches(Shelf, EchoReader, {"taskReports": "always"})
    batches.shelve("a", "b")
    assert batches.batch() == ["a", "b"]
    batches.shelve("c")
    batches.trigger()
    assert (batches.holder.report() or {})["lastRows"] == 2
    batches.commit()
    assert batches.batch() is None


@pytest.mark.parametrize(
    ("options", "classes"),
    [
        ({}, {"enumerator": Endpoints, "reader": Pages}),
        ({"onDataLoss": "report"}, {"enumerator": Shelf, "reader": EchoReader}),
        ({"enumerator": "files", "reader": "text", "path": "/", "ignoreMissingFiles": "true"}, {}),
        ({"enumerator": "kafka", "valueFormat": "json", "onRecordError": "quarantine"}, {}),
    ],
    ids=str,
)
def test_reports_need_a_state_location(options: dict[str, str], classes: dict[str, Any]) -> None:
    source = Source.resolve(options, **classes)
    with pytest.raises(StateLocationError, match="write reports, and option stateLocation is not set"):
        holder_of(source, None)


@pytest.mark.parametrize("how", ["cut off", "altered", "of another format"])
def test_a_damaged_report_is_refused_R11(how: str) -> None:
    batches = talking("a")
    batches.attempt(batches.next_task())
    (name,) = [name for name in batches.files() if "/reports/" in name]
    data = batches.files()[name]
    damaged = {
        "cut off": data[:-20],
        "altered": data.replace(b'"row":"a"', b'"row":"b"'),
        "of another format": b'{"digest":"x","report":{}}',
    }[how]
    batches.store.replace(name, damaged)
    batches.commit()
    with pytest.raises(CorruptStateError, match=r"report .*/reports/1-"):
        batches.trigger()


def test_reports_and_failures_are_cleaned_up_with_their_documents() -> None:
    Flaky.broken["x3"] = 0
    batches = quarantining(retainedCheckpoints="2")
    for number in range(25):
        batches.shelve(f"x{number}")
        batches.batch()
    batches.wait_for_clean_up()
    left = {name.split("/")[1] + "/" + name.split("/")[2] for name in batches.files() if "/reports/" in name}
    documents = [name for name in batches.files() if "/checkpoints/" in name]
    assert len(left) == len(documents) < 15
    assert not [name for name in batches.files() if "/failures/" in name]


@pytest.mark.parametrize("options", [{"onSplitError": "quarantine"}, {"taskReports": "always"}])
def test_a_sink_that_has_a_batch_may_skip_it_whatever_the_options_of_its_repetition_demand(
    options: dict[str, str],
) -> None:
    batches = InlineBatches(Shelf, EchoReader, {"onMissingReport": "repeat"})
    batches.shelve("a")
    assert batches.attempt(batches.next_task()) == ["a"]
    batches.restart_with(options)
    tasks = batches.tasks()
    assert tasks, "the sink runs none of them"
    assert batches.tasks() == tasks
    batches.commit()
    assert batches.batch() is None
    batches.restart()
    assert batches.batch() is None


def test_a_returned_split_is_not_finished_because_its_report_cannot_be_written() -> None:
    class Full(MemoryStore):
        def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
            if "/reports/" in name:
                raise StateLocationError("no space is left")
            return super().create(name, data, exclusive=exclusive)

    Fragile.busy = {"a"}
    batches = Batches(Shelf, Fragile, {"taskReports": "always"}, store=Full())
    batches.shelve("a")
    task = batches.next_task()
    with pytest.raises(StateLocationError):
        batches.attempt(task)
    Fragile.mend()
    assert batches.attempt(task, 1) == ["a"]
