"""Splits that a source with ``bound_split`` reads whole wait for their batch where they cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from flip27_source.coordination import checkpoints
from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.packing import Plan
from flip27_source.enumerator import Backlog, BoundedRange, Budget, SplitEnumerator
from flip27_source.enumerator_mixins import CutsSomeSplits
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.documents import SourceIdentity
from flip27_source.split import SplitSize
from tests.toy_sources import coordinator_of, freeze, frozen

SOURCE = SourceIdentity(
    uid="s", enumerator="s", reader="r", state_version=1, split_version=1, library="0", start_options={}
)


class Chunk(msgspec.Struct, frozen=True, tag="chunk"):
    split_id: str
    rows: int = 10

    @property
    def size(self) -> SplitSize:
        return SplitSize(rows=self.rows)


class Log(msgspec.Struct, frozen=True, tag="log"):
    split_id: str
    first: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=None if self.end is None else self.end - self.first)


class Snapshot(CutsSomeSplits, SplitEnumerator[Chunk | Log]):
    """Assigns a log, whose length is ``length``, and chunks one after another, or all at once."""

    at_once = False
    length = 1_000_000

    def __init__(self, context: Any, options: Any, state: list[Chunk | Log] | None = None) -> None:
        super().__init__(context, options, state)
        self.waiting = list(state or ())

    def start(self) -> None: ...

    def handle_split_request(self, subtask_id: int) -> None:
        for _ in range(len(self.waiting) if self.at_once else min(1, len(self.waiting))):
            self.context.assign_split(self.waiting.pop(0))

    def add_splits_back(self, splits: Sequence[Chunk | Log], subtask_id: int) -> None:
        self.waiting = [*splits, *self.waiting]

    def snapshot_state(self, checkpoint_id: int) -> list[Chunk | Log]:
        return list(self.waiting)

    @classmethod
    def is_cut_off(cls, split: Chunk | Log) -> bool:
        """Only a planned range has an end, so this is also False for a log that was just assigned."""
        return isinstance(split, Log) and split.end is not None

    def bound_split(self, split: Chunk | Log, budget: Budget) -> BoundedRange[Chunk | Log] | None:
        if isinstance(split, Chunk):
            fits = budget.rows is None or split.rows <= budget.rows
            return BoundedRange(read=split, rest=None) if fits else None
        most = split.first + (10 if budget.rows is None else budget.rows)
        end = min(self.length, most)
        if end <= split.first:
            return None
        read = msgspec.structs.replace(split, end=end)
        return BoundedRange(read=read, rest=msgspec.structs.replace(split, first=end))


class AllAtOnce(Snapshot):
    at_once = True


def chunks(number: int, rows: int = 10) -> list[Chunk | Log]:
    return [Chunk(f"chunk-{index:04}", rows) for index in range(number)]


def began(kind: type[Snapshot], *splits: Chunk | Log) -> SourceCoordinator[Any]:
    coordinator = coordinator_of(kind)
    waiting_with(coordinator).extend(splits)
    return coordinator


def waiting_with(coordinator: SourceCoordinator[Any]) -> list[Chunk | Log]:
    """The splits that still wait with the enumerator."""
    assert isinstance(coordinator.enumerator, Snapshot)
    return coordinator.enumerator.waiting


def planned_by_batch(coordinator: SourceCoordinator[Any], limits: Limits) -> list[list[str]]:
    """The ids in the plans of all batches, of tasks that read everything; each is restored from its state."""
    batches = []
    while (pending := freeze(coordinator, limits)) is not None:
        splits = [split for item in pending.snapshot.plan.assignments for split in item.splits]
        batches.append([split.split_id for split in splits])
        coordinator = coordinator_of(type(coordinator.enumerator), restored=pending.snapshot)
    return batches


@pytest.mark.parametrize("limits", [Limits(files=8), Limits(rows=80), Limits(files=8, rows=1000)])
def test_whole_splits_wait_with_the_enumerator_until_a_batch_has_room_for_them(limits: Limits) -> None:
    coordinator = began(Snapshot, *chunks(2000))
    ledger = frozen(coordinator, limits).snapshot.ledger
    assert (len(ledger.live), len(ledger.waiting)) == (0, 1)
    assert len(waiting_with(coordinator)) == 2000 - 8 - 1


def test_whole_splits_that_are_assigned_at_once_wait_outside_the_live_splits() -> None:
    coordinator = began(AllAtOnce, Log("log"), *chunks(2000))
    ledger = frozen(coordinator, Limits(files=8)).snapshot.ledger
    assert [split.split_id for split in ledger.live] == ["log"]
    assert len(ledger.waiting) == 2000 - 8


@pytest.mark.parametrize("kind", [Snapshot, AllAtOnce])
def test_a_checkpoint_does_not_grow_with_the_whole_splits_that_wait(kind: type[Snapshot]) -> None:
    """Apart from what the enumerator stores itself, and from waiting splits in files of their own."""
    coordinator = began(kind, Log("log"), *chunks(2000))
    for _ in range(4):
        pending = frozen(coordinator, Limits(files=8))
        snapshot = replace(pending.snapshot, enumerator_state=[])
        encoded = SnapshotCodec(kind).encode(snapshot, source=SOURCE, parent=None, inline_all=False)
        assert len(encoded.data) < 4_000
        coordinator.complete(pending.checkpoint_id)


@pytest.mark.parametrize("kind", [Snapshot, AllAtOnce])
@pytest.mark.parametrize("limits", [Limits(files=3), Limits(rows=25), Limits(files=3, rows=5), UNLIMITED])
def test_every_whole_split_is_read_once_and_in_order(kind: type[Snapshot], limits: Limits) -> None:
    batches = planned_by_batch(began(kind, *chunks(20)), limits)
    names = [name for names in batches for name in sorted(names)]
    assert names == [chunk.split_id for chunk in chunks(20)]
    assert (len(batches) == 1) == (limits is UNLIMITED)


@pytest.mark.parametrize("limits", [Limits(files=2), Limits(rows=20), Limits(rows=5)])
def test_a_log_is_read_while_whole_splits_wait(limits: Limits) -> None:
    coordinator = began(Snapshot, Log("log"), *chunks(100))
    turns = []
    for _ in range(12):
        pending = frozen(coordinator, limits)
        splits = [split for item in pending.snapshot.plan.assignments for split in item.splits]
        turns.append({split.split_id[:3] for split in splits})
        coordinator.complete(pending.checkpoint_id)
    for first, second, third in zip(turns, turns[1:], turns[2:], strict=False):
        assert first | second | third == {"log", "chu"}


def test_the_enumerator_counts_the_backlog_of_whole_splits_that_wait_for_room() -> None:
    """Its splits may have no size of their own."""

    class Estimates(AllAtOnce):
        def backlog(self, live: Sequence[Chunk | Log]) -> Backlog:
            return Backlog(splits=len(live), rows=sum(isinstance(split, Chunk) for split in live) * 7)

    coordinator = began(Estimates, Log("log"), *chunks(10))
    assert frozen(coordinator, Limits(files=4)).summary.backlog == Backlog(splits=7, rows=42, bytes=0)


def test_a_log_with_nothing_to_read_does_not_keep_whole_splits_waiting() -> None:
    class Quiet(Snapshot):
        length = 0

    batches = planned_by_batch(
        began(Quiet, *(Log(f"log-{n}") for n in range(5)), *chunks(4)), Limits(files=2)
    )
    assert [len(names) for names in batches] == [2, 2]


def test_whole_splits_of_an_older_state_which_are_all_live_are_read_before_others_are_requested() -> None:
    older: checkpoints.Snapshot[Any] = checkpoints.Snapshot(
        metadata=checkpoints.CheckpointMetadata(checkpoint_id=1, timestamp_ms=0),
        enumerator_state=chunks(6),
        ledger=checkpoints.LedgerState(live=tuple(Chunk(f"old-{number}") for number in range(4))),
        plan=Plan(),
    )
    coordinator = coordinator_of(Snapshot, restored=older)
    pending = frozen(coordinator, Limits(files=3))
    assert [split.split_id for split in pending.snapshot.ledger.live] == ["old-3"]
    assert len(waiting_with(coordinator)) == 5


def test_a_whole_split_that_cannot_be_read_now_holds_no_room() -> None:
    class Waits(Snapshot):
        def bound_split(self, split: Chunk | Log, budget: Budget) -> BoundedRange[Chunk | Log] | None:
            return None if split.split_id == "chunk-0000" else super().bound_split(split, budget)

    batches = planned_by_batch(began(Waits, *chunks(3)), Limits(files=1))
    assert batches == [["chunk-0001"], ["chunk-0002"]]
