"""The things that survive a driver: Spark's offset log, its commit log, and a sink with each batch once.

Offsets are kept as JSON text, as Spark keeps and compares them. No I/O: everything is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from ..snapshots.offsets import INITIAL_OFFSET

Row: TypeAlias = tuple[Any, ...]
"""One row, its values in the order of the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of one task.

    Attributes:
        task: number of the task in its stage, from 0.
        number: Spark's number of the attempt, from 0.
        stage: number of the stage, from 0; a foreachBatch with several actions has several stages.
        rows: the rows of the attempt; if it failed, those before the failure.
        error: why it failed; None if it succeeded.
        accepted: whether its rows count.
    """

    task: int
    subtask_id: int
    number: int
    stage: int = 0
    rows: tuple[Row, ...] = ()
    error: str | None = None
    accepted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch in the sink.

    Attributes:
        start, end: its offsets.
        rows: in the order of the tasks.
        attempts: all attempts, in the order in which they ended.
        is_replay: whether the batch was run again after a restart.
    """

    batch_id: int
    start: dict[str, Any]
    end: dict[str, Any]
    rows: tuple[Row, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    is_replay: bool = False

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The attempts that failed."""
        return tuple(attempt for attempt in self.attempts if attempt.error is not None)

    def to_arrow(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table."""
        names = schema.names
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in self.rows], schema=schema)


class SparkLogs:
    """The offset log and the commit log of one query's checkpoint location.

    Args:
        committed: the end of batch 0, which is committed, as text; None for a new query.

    Attributes:
        offsets: JSON texts; the index in the list is the batch id.
        commits: the ids of the committed batches.
    """

    def __init__(self, committed: str | None = None) -> None:
        self.offsets = [] if committed is None else [committed]
        self.commits = set(range(len(self.offsets)))

    @property
    def next_batch_id(self) -> int:
        """The batch to run: the one that is not committed, or a new one."""
        last = len(self.offsets) - 1
        return len(self.offsets) if last in self.commits or last < 0 else last

    @property
    def has_uncommitted(self) -> bool:
        """Whether the newest batch has an offset and no commit."""
        return self.next_batch_id < len(self.offsets)

    @property
    def committed(self) -> dict[str, Any]:
        """The end of the last committed batch, where the next one starts."""
        return as_value(self.start_of(self.next_batch_id))

    def start_of(self, batch_id: int) -> str:
        """The start offset of a batch, as text; the initial offset is a constant and is not stored."""
        return as_text(INITIAL_OFFSET.to_json()) if batch_id == 0 else self.offsets[batch_id - 1]

    def batch(self, batch_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return as_value(self.start_of(batch_id)), as_value(self.offsets[batch_id])

    def write_offset(self, text: str) -> None:
        self.offsets.append(text)

    def forget_uncommitted(self) -> None:
        """Lose the batch that is not committed, as when Spark's logs are restored from a copy (R8)."""
        if self.has_uncommitted:
            self.offsets.pop()

    def write_commit(self, batch_id: int) -> None:
        self.commits.add(batch_id)


class OnceSink:
    """A sink that keeps the last write for each batch id, so a repeated batch is there once."""

    def __init__(self) -> None:
        self._batches: dict[int, Batch] = {}
        self.overwritten: list[tuple[Batch, Batch]] = []
        """For each repeated batch, the former batch and its replacement."""

    @property
    def batches(self) -> list[Batch]:
        """In order."""
        return [batch for _, batch in sorted(self._batches.items())]

    def write(self, batch: Batch) -> None:
        """Write a batch, all of it or nothing."""
        before = self._batches.get(batch.batch_id)
        if before is not None:
            self.overwritten.append((before, batch))
        self._batches[batch.batch_id] = batch


def as_text(offset: Any) -> str:
    """An offset as Spark's Python worker serialises it."""
    return json.dumps(offset)


def as_value(text: str) -> dict[str, Any]:
    """An offset as Spark's Python worker passes it to the source."""
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def rows_of(item: pa.RecordBatch | Row) -> Sequence[Row]:
    if not isinstance(item, pa.RecordBatch):
        return (item,)
    if item.num_columns == 0:
        return [()] * int(item.num_rows)
    return list(zip(*(column.to_pylist() for column in item.columns), strict=True))
