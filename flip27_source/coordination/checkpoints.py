"""The values of a checkpoint: its metadata, the frozen snapshot, and the reports that it waits for.

Names and roles are Flink's (CheckpointMetaData, CheckpointMetrics, PendingCheckpoint;
runtime/checkpoint). Pure values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import msgspec

from ..enumerator import UNKNOWN_BACKLOG, Backlog
from ..events import SourceEvent
from ..split import SplitT
from .action_pages import ActionPage
from .actions import PendingAction
from .alignment import BatchHorizon
from .batch_sizing import BatchTimes, SizedLimits
from .data_losses import DataLoss
from .edit_values import AppliedEdit
from .event_time_order import EventTimeProgress
from .packing import Plan
from .subtask_reports import AcknowledgeResult, ReportDemand, SubtaskReport

AnyT = TypeVar("AnyT")

INITIAL_CHECKPOINT_ID = 0
"""The id before the first checkpoint, which is 1, as in Flink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata:
    """The parameters of a checkpoint (Flink CheckpointMetaData; FLINK-5777 for savepoints).

    Attributes:
        checkpoint_id: strictly increasing along one lineage, from 1.
        timestamp_ms: when it was triggered, milliseconds since the epoch.
        is_savepoint: whether it becomes a savepoint; this alone is a reason for a checkpoint.
        target_directory: where a savepoint is written; None for plain checkpoints.
        edits: the edits applied since the previous checkpoint; they alone are a reason for a checkpoint.
        answered: requests that earlier checkpoints have applied and whose files may still exist.
    """

    checkpoint_id: int
    timestamp_ms: int
    is_savepoint: bool = False
    target_directory: str | None = None
    edits: tuple[AppliedEdit, ...] = ()
    answered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSummary:
    """The numbers of a checkpoint, shown in the offset.

    Attributes:
        splits: splits in the plan. files, rows, bytes: their known sizes, added up.
        live_splits: unbounded splits that continue after this checkpoint.
        finished_splits: splits handed to batches since the source began.
        waiting_splits: assigned splits that a limit has postponed to a later batch.
        quarantined_splits: splits that are quarantined: they cannot be read, and can be retried.
        ignored_splits: splits that are ignored: they cannot be read, and are only counted.
        data_losses: how often data was lost before it was read.
        backlog: the backlog after this checkpoint.
        limited_by: the limits that have ended the batch while something waited, by the name of the amount.
        sized: the limits of the batch and why they are these; None if batches do not size themselves.
        event_time: how far batches are in event-time order; None if splits are handed out in another order.
        horizon: how far in event time the batch was read; None if nothing bounded it.
        gauges: the numbers that the enumerator published.
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
    limited_by: Mapping[str, int] = field(default_factory=dict)
    sized: SizedLimits | None = None
    event_time: EventTimeProgress | None = None
    horizon: BatchHorizon | None = None
    gauges: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSplit(Generic[SplitT]):
    """A split that is assigned but in no plan yet; ``subtask_id`` None means any subtask."""

    split: SplitT
    subtask_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvent:
    event: SourceEvent
    subtask_id: int


class QuarantinedSplit(
    msgspec.Struct, Generic[AnyT], frozen=True, kw_only=True, rename={"checkpoint_id": "checkpoint"}
):
    """A split that cannot be read and was quarantined or skipped: none of its rows were delivered.

    Attributes:
        split: the split, or its JSON in documents.
        checkpoint_id: the checkpoint whose batch should have read it.
        attempts: number of attempts to read it. error: the last error.
    """

    split: AnyT
    checkpoint_id: int
    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState(Generic[SplitT]):
    """The ledger's state after a checkpoint (DESIGN: where a split is).

    Attributes:
        live: unbounded splits at the position where the next batch continues.
        pins: the subtask that a live split stays with, by split id; most splits have none.
        waiting: splits that are assigned and not yet planned, in order.
        ranges: ranges of splits that were not read in their batch and are read again as they are, in order.
        events: events to subtasks that are in no plan yet, in order.
        quarantined: splits that cannot be read, and can be retried.
        ignored: the last few splits that an option ignores. ignored_count: how many there were.
        losses: the last few reported losses of data. loss_count: how many there were.
        finished: number of splits that were handed to batches for good.
    """

    live: tuple[SplitT, ...] = ()
    pins: dict[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingSplit[SplitT], ...] = ()
    ranges: tuple[SplitT, ...] = ()
    events: tuple[WaitingEvent, ...] = ()
    quarantined: tuple[QuarantinedSplit[SplitT], ...] = ()
    ignored: tuple[QuarantinedSplit[SplitT], ...] = ()
    ignored_count: int = 0
    losses: tuple[DataLoss, ...] = ()
    loss_count: int = 0
    finished: int = 0

    def quarantined_as(self, split_ids: Collection[str]) -> list[QuarantinedSplit[SplitT]]:
        """All quarantined splits with these ids, in order.

        Several may have one id: ranges that were cut from one split, or records of a topic and of another one
        that later had its name.
        """
        return [item for item in self.quarantined if item.split.split_id in split_ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[SplitT]):
    """The complete state of a coordinator at one checkpoint: everything needed to continue (R1).

    Attributes:
        actions: side effects that are due and not known to be done.
        delayed: side effects that wait for a delay. action_delay_ms: the delay in the run that stored them.
        times: the batches by which the next ones are sized; None if they are not.
        event_time: how far batches are in event-time order; None if splits are handed out in another order.
        horizon: how far in event time the batch was read, for people: no later batch depends on it.
    """

    metadata: CheckpointMetadata
    enumerator_state: Any
    ledger: LedgerState[SplitT]
    plan: Plan[SplitT]
    actions: tuple[PendingAction, ...] = ()
    delayed: tuple[ActionPage, ...] = ()
    action_delay_ms: int | None = None
    times: BatchTimes | None = None
    event_time: EventTimeProgress | None = None
    horizon: BatchHorizon | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCheckpoint(Generic[SplitT]):
    """A checkpoint that is frozen and not yet known to be complete (Flink PendingCheckpoint).

    Attributes:
        snapshot: the state, which is durable before Spark gets the offset (R2).
        summary: numbers for people.
        reports: the subtasks' reports so far, by subtask.
        repeats: subtasks without a report, whose splits are read again.
    """

    snapshot: Snapshot[SplitT]
    summary: CheckpointSummary = field(default_factory=CheckpointSummary)
    reports: dict[int, SubtaskReport[SplitT]] = field(default_factory=dict)
    repeats: frozenset[int] = frozenset()

    @property
    def checkpoint_id(self) -> int:
        return self.snapshot.metadata.checkpoint_id

    @property
    def reports_in_order(self) -> tuple[SubtaskReport[SplitT], ...]:
        return tuple(report for _, report in sorted(self.reports.items()))

    @property
    def not_yet_acknowledged(self) -> frozenset[int]:
        """Subtasks whose required report is still missing (R6)."""
        plan = self.snapshot.plan
        if plan.reports is not ReportDemand.REQUIRED:
            return frozenset()
        return frozenset(item.subtask_id for item in plan.assignments) - self.reports.keys() - self.repeats

    def repeated(self, subtask_id: int) -> PendingCheckpoint[SplitT]:
        """The checkpoint, no longer waiting for the report of a subtask whose splits are read again."""
        return replace(self, repeats=self.repeats | {subtask_id})

    def acknowledged(
        self, report: SubtaskReport[SplitT]
    ) -> tuple[AcknowledgeResult, PendingCheckpoint[SplitT]]:
        """The checkpoint with a report added; itself if the report changes nothing."""
        if report.checkpoint_id != self.checkpoint_id:
            return AcknowledgeResult.DISCARDED, self
        if report.subtask_id in self.reports:
            return AcknowledgeResult.DUPLICATE, self
        if all(report.subtask_id != item.subtask_id for item in self.snapshot.plan.assignments):
            return AcknowledgeResult.UNKNOWN, self
        return AcknowledgeResult.SUCCESS, replace(self, reports={**self.reports, report.subtask_id: report})
