"""The sequence reader: the numbers of a split, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from flip27_source.enumerators.sequence import SequenceSplit
from flip27_source.options import Options
from flip27_source.reader import SplitReader

_ROWS_PER_ARROW_BATCH = 65_536


class SequenceReader(SplitReader[SequenceSplit]):
    """Yields the numbers of a split in one column, ``id``."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """``id long``, never null."""
        return pa.schema([pa.field("id", pa.int64(), nullable=False)])

    def read(self, split: SequenceSplit) -> Iterator[pa.RecordBatch]:
        numbers = range(split.next, split.end if split.end is not None else split.next, split.step)
        for first in range(0, len(numbers), _ROWS_PER_ARROW_BATCH):
            part = pa.array(numbers[first : first + _ROWS_PER_ARROW_BATCH], pa.int64())
            yield pa.RecordBatch.from_arrays([part], names=["id"])
