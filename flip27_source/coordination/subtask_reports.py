"""A subtask's report for a checkpoint (Flink AcknowledgeCheckpoint). Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Generic

from ..events import SourceEvent
from ..split import SplitT
from .data_losses import DataLoss


class ReportDemand(StrEnum):
    """Whether the subtasks of a checkpoint report (R6)."""

    NONE = "none"
    """The driver decides everything: executors write nothing."""
    WANTED = "wanted"
    """Only for metrics: nothing depends on the report, and it may be missing."""
    REQUIRED = "required"
    """The source takes events, or only the reader knows where a split ends or whether it can be read."""


class SplitStatus(StrEnum):
    FINISHED = "finished"
    LIVE = "live"
    """Read up to a position, where the next batch continues."""
    RETURNED = "returned"
    """Not read; it goes back to the enumerator."""
    FAILED = "failed"
    """It cannot be read; none of its rows were delivered."""
    IGNORED = "ignored"
    """It cannot be read, and an option skips such splits; none of its rows were delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult(Generic[SplitT]):
    """The result of one split.

    Attributes:
        position: with LIVE, the split at its position after the rows of this batch; with FAILED, the part or
            range of the split that was quarantined, if it has its own id.
        caught_up: LIVE only: whether the reader found no more data for now; False if a budget ended the
            read.
        error: FAILED and IGNORED only: the error.
        attempts: FAILED and IGNORED only: number of attempts to read it.
    """

    split_id: str
    status: SplitStatus
    position: SplitT | None = None
    caught_up: bool = False
    error: str | None = None
    attempts: int = 0

    def same_range(self, other: SplitResult[SplitT]) -> bool:
        """Whether both results cover exactly the same rows."""
        return (self.split_id, self.status, self.position) == (other.split_id, other.status, other.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """The metrics of a subtask for a checkpoint (Flink CheckpointMetrics).

    Attributes:
        rows: rows passed to Spark. bytes: their size as Arrow data, 0 for readers of tuples.
        splits: splits that were read, including empty ones. duration_ms: wall time of the attempt.
        attempt_number: Spark's number of the attempt, from 0. host: where it ran.
        max_event_time: largest value of ``eventTimeColumn``, ISO 8601; None if the option is not set.
    """

    rows: int = 0
    bytes: int = 0
    splits: int = 0
    duration_ms: int = 0
    attempt_number: int = 0
    host: str = ""
    max_event_time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskReport(Generic[SplitT]):
    """The acknowledgement of one subtask: the first one that is written counts (R5).

    Attributes:
        results: one for each split of the subtask that did not simply finish, and for each part that was
            quarantined.
        events: the events that the reader sent, in order (R4).
        losses: data that was lost before it was read.
    """

    checkpoint_id: int
    subtask_id: int
    results: tuple[SplitResult[SplitT], ...] = ()
    events: tuple[SourceEvent, ...] = ()
    losses: tuple[DataLoss, ...] = ()
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)

    def same_ranges(self, other: SubtaskReport[SplitT]) -> bool:
        """Whether both reports cover exactly the same rows."""
        pairs = zip(_by_id(self.results), _by_id(other.results), strict=False)
        return len(self.results) == len(other.results) and all(a.same_range(b) for a, b in pairs)


class AcknowledgeResult(Enum):
    """The result of an acknowledgement (Flink PendingCheckpoint.TaskAcknowledgeResult)."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    """The subtask has already acknowledged the checkpoint; the first report counts."""
    UNKNOWN = "unknown"
    """The checkpoint's plan does not contain the subtask; nothing changes."""
    DISCARDED = "discarded"
    """The checkpoint is not pending; nothing changes."""


def _by_id(results: Iterable[SplitResult[SplitT]]) -> list[SplitResult[SplitT]]:
    return sorted(results, key=lambda result: result.split_id)
