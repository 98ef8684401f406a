"""The reading half of the contract: what runs on the executors, once per split and batch.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias

import pyarrow as pa

from .events import Progress
from .options import Option, Options
from .split import SplitT

Output: TypeAlias = "Iterator[pa.RecordBatch | tuple[Any, ...] | Progress[Any]]"
"""What a reader yields: Arrow batches (fast), or tuples in schema order (not both)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReaderContext:
    """What a reader is told before it reads (FLIP-27 SourceReaderContext).

    Attributes:
        options: all options of the source.
        schema: the Arrow schema of the DataFrame, exactly as Spark expects it: names, order,
            types, nullability; ``timestamp`` is ``timestamp[us, UTC]``, ``timestamp_ntz`` is
            ``timestamp[us]``.
        time_zone: the session's time zone, an IANA name such as ``Europe/Berlin``.
        subtask_id: number of this subtask within its batch, from 0.
        checkpoint_id: id of the checkpoint whose plan is being read.
        attempt_number: 0 for the first attempt of the task, then 1, 2, ...
    """

    options: Options
    schema: pa.Schema
    time_zone: str = "UTC"
    subtask_id: int = 0
    checkpoint_id: int = 0
    attempt_number: int = 0


class SplitReader(ABC, Generic[SplitT]):
    """Reads splits (FLIP-27 SplitReader, as one generator instead of fetch loops).

    Made without arguments, once per task. ``open`` is called first, then ``read`` for each split
    of the task in the order of the plan, then ``close``. A task may be killed at any time without
    ``close``; the same splits may be read again by another attempt, which must yield the same
    rows. A reader never writes anything that outlives it.
    """

    options: ClassVar[tuple[Option[Any], ...]] = ()

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema | None:
        """The schema when the user gives none; None when the user has to give one.

        Runs in a planning process: no I/O.
        """
        return None

    def open(self, context: SourceReaderContext) -> None:
        """Called once, before the first ``read``. The default keeps ``context``."""
        self.context = context

    @abstractmethod
    def read(self, split: SplitT) -> Output:
        """Yield the rows of ``split``.

        Batches of 64k to 256k rows are fastest. Batches are cast to ``context.schema`` where
        they differ; it costs nothing where they do not. Raise SplitReadError (or anything) when
        the split cannot be read: the task fails, and with it the batch; no row is delivered.
        """

    def close(self) -> None:
        """Called after the last split, unless the task is killed."""


class ReadsTogether(ABC, Generic[SplitT]):
    """Optional power of a reader: many splits in one go, where that is faster than one by one."""

    @abstractmethod
    def read_together(self, splits: Sequence[SplitT]) -> Output:
        """Yield the rows of all ``splits`` of a task, in order; called instead of ``read``."""


class ReadsRanges(ABC):
    """Optional power of a reader of files: it can read a part of a file, given as byte range."""

    @classmethod
    @abstractmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Whether this file can be cut into ranges that are read by different tasks."""
