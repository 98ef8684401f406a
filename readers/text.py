"""The text reader: one row per line, as ``spark.read.text`` gives it.

What a line is, is decided in ``line_blocks``. Lines keep their bytes: they are not checked to be UTF-8,
which is what Spark does too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from flip27_source.enumerators.file_split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.reader import ReadsRanges, ReadsTogether, SourceReaderContext, SplitReader
from flip27_source.readers.file_input import is_splittable
from flip27_source.readers.line_blocks import line_blocks, lines_of

_BATCH_ROWS = 1 << 18


class TextReader(SplitReader[FileSplit], ReadsTogether[FileSplit], ReadsRanges):
    """Gives each line of a file as the only column of a row; empty lines are rows too."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Spark's: ``value string``."""
        return pa.schema([pa.field("value", pa.string())])

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Unless it is compressed: a range is found by its bytes."""
        return is_splittable(path)

    def open(self, context: SourceReaderContext) -> None:
        """Check that there is one column, of type string."""
        super().open(context)
        if context.schema.types != [pa.string()]:
            columns = ", ".join(f"{field.name} {field.type}" for field in context.schema)
            raise SchemaError(
                f"the text reader gives one column of type string; the schema has: {columns}",
                remedy='leave the schema out, or use .schema("value string")',
            )

    def read(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the lines of one split."""
        return self.read_together([split])

    def read_together(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the lines of many splits; small files share batches."""
        for block in line_blocks(splits, self.context.options):
            # Bytes that are not UTF-8 stay as they are: a cast would refuse them.
            lines = lines_of(block.data).view(pa.string())
            for start in range(0, len(lines), _BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [lines[start : start + _BATCH_ROWS]], schema=self.context.schema
                )
