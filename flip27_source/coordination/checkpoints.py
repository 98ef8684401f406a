"""The values of a checkpoint: what was asked, what was frozen, what it waits for.

Names and roles are Flink's (CheckpointMetaData, CheckpointMetrics, PendingCheckpoint,
CompletedCheckpoint; runtime/checkpoint). Pure values, no behaviour beyond their own fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from ..split import SplitT
from .planning import Plan

INITIAL_CHECKPOINT_ID = 0
"""The id of "nothing yet"; the first checkpoint is 1, as in Flink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata:
    """What a checkpoint is triggered with (Flink CheckpointMetaData, FLINK-5777 for the rest).

    Attributes:
        checkpoint_id: strictly increasing along one lineage, from 1.
        timestamp_ms: when it was triggered, milliseconds since the epoch.
        is_savepoint: whether it becomes a savepoint.
        target_directory: where a savepoint is written; None for plain checkpoints.
    """

    checkpoint_id: int
    timestamp_ms: int
    is_savepoint: bool = False
    target_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """What a checkpoint amounts to (Flink CheckpointMetrics); shown in the offset's summary.

    Attributes:
        splits: splits in the plan. files, rows, bytes: their known sizes, added up.
        live_splits: unbounded splits that go on after this checkpoint.
        finished_splits: splits handed to batches since the source began.
        waiting_splits: splits assigned and put off to a later batch by a limit.
        gauges: what the enumerator published.
    """

    splits: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    live_splits: int = 0
    finished_splits: int = 0
    waiting_splits: int = 0
    gauges: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSplit(Generic[SplitT]):
    """A split that is assigned but in no plan yet; ``subtask_id`` None means any subtask."""

    split: SplitT
    subtask_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState(Generic[SplitT]):
    """What the ledger owns after a checkpoint (DESIGN: where a split is).

    Attributes:
        live: unbounded splits at the position from which the next batch goes on.
        pins: the subtask that a live split stays with, by split id; most have none.
        waiting: splits that are assigned and not yet planned, in order.
        finished: number of splits that were handed to batches for good.
    """

    live: tuple[SplitT, ...] = ()
    pins: dict[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingSplit[SplitT], ...] = ()
    finished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[SplitT]):
    """The whole state of a coordinator at one checkpoint: everything needed to go on (R1)."""

    metadata: CheckpointMetadata
    enumerator_state: Any
    ledger: LedgerState[SplitT]
    plan: Plan[SplitT]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCheckpoint(Generic[SplitT]):
    """Frozen, and not yet known to be complete (Flink PendingCheckpoint).

    Attributes:
        snapshot: what is made durable before the checkpoint is told of (R2).
        not_yet_acknowledged: subtasks whose report is demanded and not folded in yet (R6).
        metrics: for people.
    """

    snapshot: Snapshot[SplitT]
    metrics: CheckpointMetrics
    not_yet_acknowledged: frozenset[int] = frozenset()

    @property
    def checkpoint_id(self) -> int:
        return self.snapshot.metadata.checkpoint_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpoint:
    """A checkpoint whose batch is in Spark's commit log (Flink CompletedCheckpoint)."""

    checkpoint_id: int
