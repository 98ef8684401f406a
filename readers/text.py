"""The text reader: one row per line, as ``spark.read.text`` gives it.

What a line is, is decided in ``line_blocks``, or by the option lineSep (``separated_text``); what a header
is, in ``text_header``. Lines keep their bytes: they are not checked to be UTF-8, which is what Spark does
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError
from flip27_source.options import Option, Options, boolean, optional
from flip27_source.reader import ReadsRanges
from flip27_source.readers.files.file_columns import with_metadata
from flip27_source.readers.files.input import is_splittable
from flip27_source.readers.files.line_blocks import MAX_LINE_BYTES, as_array, line_blocks, lines_of
from flip27_source.readers.files.reader import FILE_OPTIONS, FileReader
from flip27_source.readers.files.separated_text import separated_lines, whole_text
from flip27_source.readers.files.spark_options import SPARK_TEXT
from flip27_source.readers.text_header import (
    COMMENT,
    HEADER,
    check_comment,
    commented,
    header_options,
    without_header,
)

_BATCH_ROWS = 1 << 18


def _separator(value: str) -> str:
    if not value:
        raise ValueError("one character or more is expected")
    return value


WHOLE_TEXT = Option(
    name="wholetext", parse=boolean, default=False, doc="Each file is one row, with its line ends."
)
LINE_SEP: Option[str | None] = Option(
    name="lineSep",
    parse=optional(_separator),
    default=None,
    default_text="`\\r`, `\\r\\n` and `\\n`",
    doc="What ends a line; files are not cut into ranges then.",
)


class TextReader(FileReader, ReadsRanges):
    """Gives each line of a file as the only column of a row; empty lines are rows too."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        WHOLE_TEXT, LINE_SEP, HEADER, COMMENT, MAX_LINE_BYTES, *FILE_OPTIONS, *SPARK_TEXT,
    )  # fmt: skip

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Spark's: ``value string``."""
        header_options(options[WHOLE_TEXT], options)
        return with_metadata(pa.schema([commented(pa.field("value", pa.string()), options)]), options)

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Unless it is compressed: a range is found by its bytes, and by ordinary line ends."""
        return is_splittable(path) and not options[WHOLE_TEXT] and options[LINE_SEP] is None

    def prepare(self) -> None:
        """Check that there is one column, of type string."""
        schema = self.context.schema
        if schema.types != [pa.string()]:
            columns = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise SchemaError(
                f"the text reader gives one column of type string; the schema has: {columns}",
                remedy='leave the schema out, or use .schema("value string")',
            )
        options = self.context.options
        self._header, self._comment = header_options(options[WHOLE_TEXT], options)
        check_comment(schema.field(0), options)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the lines of many splits; small files share batches."""
        for texts in self._texts(splits):
            # Bytes that are not UTF-8 stay as they are: a cast would refuse them.
            lines = texts.view(pa.string())
            for start in range(0, len(lines), _BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [lines[start : start + _BATCH_ROWS]], schema=self.context.schema
                )

    def _texts(self, splits: Sequence[FileSplit]) -> Iterator[pa.Array]:
        options = self.context.options
        separator = options[LINE_SEP]
        if options[WHOLE_TEXT]:
            return (as_array(whole_text(split, options)) for split in splits if split.length)
        if separator is None:
            blocks = line_blocks(splits, options, drop_header=self._header, comment=self._comment)
            return (lines_of(block.data) for block in blocks)
        if not self._header:
            return separated_lines(splits, separator.encode(), options)
        files = (separated_lines([split], separator.encode(), options) for split in splits)
        return (lines for file in files for lines in without_header(file, self._comment))
