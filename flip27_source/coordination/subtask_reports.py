"""What a subtask says of its share of a checkpoint (Flink AcknowledgeCheckpoint). Pure values."""

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
    """All is decided on the driver: executors write nothing."""
    WANTED = "wanted"
    """For its metrics; nothing depends on it, a missing one is borne."""
    REQUIRED = "required"
    """The source takes events, or only reading tells where a split ends or whether it can be read."""


class SplitStatus(StrEnum):
    """What became of a split in a batch."""

    FINISHED = "finished"
    LIVE = "live"
    """Read up to a position, from which the next batch goes on."""
    RETURNED = "returned"
    """Not read; it goes back to the enumerator."""
    FAILED = "failed"
    """It cannot be read; none of its rows were delivered."""
    IGNORED = "ignored"
    """The same, and an option leaves such splits out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult(Generic[SplitT]):
    """What became of one split.

    Attributes:
        position: LIVE only: the split as it stands after the rows of this batch.
        caught_up: LIVE only: the reader had nothing more for now; False when a budget ended it.
        error: FAILED and IGNORED only: why.
        attempts: FAILED and IGNORED only: how many times reading it was tried.
    """

    split_id: str
    status: SplitStatus
    position: SplitT | None = None
    caught_up: bool = False
    error: str | None = None
    attempts: int = 0

    def same_range(self, other: SplitResult[SplitT]) -> bool:
        """Whether both stand for exactly the same rows."""
        mine = (self.split_id, self.status, self.position)
        return mine == (other.split_id, other.status, other.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """What a subtask did for a checkpoint (Flink CheckpointMetrics).

    Attributes:
        rows: rows given to Spark. bytes: their size as Arrow data, 0 for readers of tuples.
        splits: splits that gave rows or were found to hold none. duration_ms: wall time of the attempt.
        attempt_number: Spark's number of the attempt, from 0. host: where it ran.
        max_event_time: largest value of ``eventTimeColumn``, ISO 8601; None when not asked for.
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
    """The acknowledgement of one subtask: the first one that is written is the one that counts (R5).

    Attributes:
        results: one for each split of the subtask that did not simply finish.
        events: what the reader sent, in order (R4).
        losses: data that was gone when it was to be read.
    """

    checkpoint_id: int
    subtask_id: int
    results: tuple[SplitResult[SplitT], ...] = ()
    events: tuple[SourceEvent, ...] = ()
    losses: tuple[DataLoss, ...] = ()
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)

    def same_ranges(self, other: SubtaskReport[SplitT]) -> bool:
        """Whether both stand for exactly the same rows, whoever wrote them."""
        pairs = zip(_by_id(self.results), _by_id(other.results), strict=False)
        return len(self.results) == len(other.results) and all(a.same_range(b) for a, b in pairs)


class AcknowledgeResult(Enum):
    """What an acknowledgement did (Flink PendingCheckpoint.TaskAcknowledgeResult)."""

    SUCCESS = "success"
    DUPLICATE = "duplicate"
    """The subtask has acknowledged before; the first report stands."""
    UNKNOWN = "unknown"
    """The subtask has no part in the checkpoint; nothing changes."""
    DISCARDED = "discarded"
    """The checkpoint is not pending; nothing changes."""


def _by_id(results: Iterable[SplitResult[SplitT]]) -> list[SplitResult[SplitT]]:
    return sorted(results, key=lambda result: result.split_id)
