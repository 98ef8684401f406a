"""The values of a checkpoint: what was asked, what was frozen, what it waits for.

Names and roles are Flink's (CheckpointMetaData, CheckpointMetrics, PendingCheckpoint,
CompletedCheckpoint; runtime/checkpoint). Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic

from ..enumerator import UNKNOWN_BACKLOG, Backlog
from ..events import SourceEvent
from ..split import SplitT
from .actions import PendingAction
from .data_losses import DataLoss
from .edit_values import AppliedEdit
from .packing import Plan
from .subtask_reports import AcknowledgeResult, ReportDemand, SubtaskReport

INITIAL_CHECKPOINT_ID = 0
"""The id of "nothing yet"; the first checkpoint is 1, as in Flink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata:
    """What a checkpoint is triggered with (Flink CheckpointMetaData, FLINK-5777 for the rest).

    Attributes:
        checkpoint_id: strictly increasing along one lineage, from 1.
        timestamp_ms: when it was triggered, milliseconds since the epoch.
        is_savepoint: whether it becomes a savepoint; that makes one by itself.
        target_directory: where a savepoint is written; None for plain checkpoints.
        edits: those that were applied since the checkpoint before; they make one by themselves.
        answered: requests that earlier checkpoints have applied, and whose files may still be there.
    """

    checkpoint_id: int
    timestamp_ms: int
    is_savepoint: bool = False
    target_directory: str | None = None
    edits: tuple[AppliedEdit, ...] = ()
    answered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSummary:
    """What a checkpoint amounts to; shown in the offset.

    Attributes:
        splits: splits in the plan. files, rows, bytes: their known sizes, added up.
        live_splits: unbounded splits that go on after this checkpoint.
        finished_splits: splits handed to batches since the source began.
        waiting_splits: splits assigned and put off to a later batch by a limit.
        quarantined_splits: splits that cannot be read and were set aside.
        ignored_splits: splits that cannot be read and were left out.
        data_losses: how often data was gone before it was read.
        backlog: what waits behind it.
        gauges: what the enumerator published.
    """

    splits: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    live_splits: int = 0
    finished_splits: int = 0
    waiting_splits: int = 0
    quarantined_splits: int = 0
    ignored_splits: int = 0
    data_losses: int = 0
    backlog: Backlog = UNKNOWN_BACKLOG
    gauges: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSplit(Generic[SplitT]):
    """A split that is assigned but in no plan yet; ``subtask_id`` None means any subtask."""

    split: SplitT
    subtask_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvent:
    """An event to a subtask that is in no plan yet."""

    event: SourceEvent
    subtask_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedSplit(Generic[SplitT]):
    """A split that cannot be read and was set aside, or left out: no row of it was delivered.

    Attributes:
        checkpoint_id: the batch that it was to be read in.
        attempts: how many times reading it was tried. error: how it failed last.
    """

    split: SplitT
    checkpoint_id: int
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState(Generic[SplitT]):
    """What the ledger owns after a checkpoint (DESIGN: where a split is).

    Attributes:
        live: unbounded splits at the position from which the next batch goes on.
        pins: the subtask that a live split stays with, by split id; most have none.
        waiting: splits that are assigned and not yet planned, in order.
        events: events to subtasks that are in no plan yet, in order.
        quarantined: splits that were set aside.
        ignored: the last few of those that an option left out. ignored_count: how many there were.
        losses: the last losses of data that were reported. loss_count: how many there were.
        finished: number of splits that were handed to batches for good.
    """

    live: tuple[SplitT, ...] = ()
    pins: dict[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingSplit[SplitT], ...] = ()
    events: tuple[WaitingEvent, ...] = ()
    quarantined: tuple[QuarantinedSplit[SplitT], ...] = ()
    ignored: tuple[QuarantinedSplit[SplitT], ...] = ()
    ignored_count: int = 0
    losses: tuple[DataLoss, ...] = ()
    loss_count: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[SplitT]):
    """The whole state of a coordinator at one checkpoint: everything needed to go on (R1)."""

    metadata: CheckpointMetadata
    enumerator_state: Any
    ledger: LedgerState[SplitT]
    plan: Plan[SplitT]
    actions: tuple[PendingAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCheckpoint(Generic[SplitT]):
    """Frozen, and not yet known to be complete (Flink PendingCheckpoint).

    Attributes:
        snapshot: what is made durable before the checkpoint is told of (R2).
        summary: for people.
        reports: the acknowledgements of subtasks, so far, by subtask.
        repeats: subtasks that gave none and whose share is read once more.
    """

    snapshot: Snapshot[SplitT]
    summary: CheckpointSummary = field(default_factory=CheckpointSummary)
    reports: dict[int, SubtaskReport[SplitT]] = field(default_factory=dict)
    repeats: frozenset[int] = frozenset()

    @property
    def checkpoint_id(self) -> int:
        return self.snapshot.metadata.checkpoint_id

    @property
    def not_yet_acknowledged(self) -> frozenset[int]:
        """Subtasks whose report is required and not there yet (R6)."""
        plan = self.snapshot.plan
        if plan.reports is not ReportDemand.REQUIRED:
            return frozenset()
        return frozenset(item.subtask_id for item in plan.assignments) - self.reports.keys() - self.repeats

    def repeated(self, subtask_id: int) -> PendingCheckpoint[SplitT]:
        """The checkpoint that waits no longer for a subtask: its share is read once more."""
        return replace(self, repeats=self.repeats | {subtask_id})

    def acknowledged(
        self, report: SubtaskReport[SplitT]
    ) -> tuple[AcknowledgeResult, PendingCheckpoint[SplitT]]:
        """The checkpoint with a report added; itself where the report changes nothing."""
        if report.checkpoint_id != self.checkpoint_id:
            return AcknowledgeResult.DISCARDED, self
        if report.subtask_id in self.reports:
            return AcknowledgeResult.DUPLICATE, self
        if all(report.subtask_id != item.subtask_id for item in self.snapshot.plan.assignments):
            return AcknowledgeResult.UNKNOWN, self
        reports = {**self.reports, report.subtask_id: report}
        return AcknowledgeResult.SUCCESS, replace(self, reports=reports)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpoint(Generic[SplitT]):
    """A checkpoint whose batch is in Spark's commit log (Flink CompletedCheckpoint).

    Attributes:
        reports: of its subtasks, in order.
        due_actions: what is to be performed now, with the number to answer with.
    """

    checkpoint_id: int
    reports: tuple[SubtaskReport[SplitT], ...] = ()
    due_actions: tuple[tuple[int, Any], ...] = ()
