"""The text reader: one row per line, like ``spark.read.text``.

``line_blocks`` finds the lines, or ``separated_text`` with the option lineSep. As in Spark, lines keep their
bytes and are not checked to be UTF-8. The header of a file is its first line that is neither blank nor a
comment, as in Spark's CSV reader; a comment in the schema says that headers were skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import OptionError, SchemaError
from flip27_source.options import Option, Options, ReadingOption, boolean, optional
from flip27_source.readers.csv_lines.dialect import comment_character
from flip27_source.readers.files.file_columns import with_metadata
from flip27_source.readers.files.line_blocks import BLANKS, as_array, line_blocks, lines_of
from flip27_source.readers.files.reader import FILE_OPTIONS, LinesReader
from flip27_source.readers.files.separated_text import separated_lines, whole_text
from flip27_source.readers.files.spark_options import SPARK_TEXT
from flip27_source.readers.files.text_options import MAX_LINE_BYTES, WholeFilesOption
from flip27_source.schemas.column_comments import comment_of, commented, header_comment, header_in

HEADER = ReadingOption(
    name="header",
    parse=boolean,
    doc="Skip the first non-blank line of each file and the blank lines before it. "
    "flip27_source.parsed(..., header=True) requires this option.",
)
COMMENT = ReadingOption(
    name="comment",
    parse=comment_character,
    default="",
    default_text="none",
    doc="With header: lines that start with this character are not the header; those before it are skipped.",
)


def header_options(wholetext: bool, options: Options) -> tuple[bool, bytes]:
    """Whether headers are skipped, and the prefix of lines that are not a header."""
    if options[HEADER] and wholetext:
        raise OptionError(
            "options header and wholetext are both true, but a file that is one row has no header line",
            remedy="remove one of the two options",
        )
    return options[HEADER], options[COMMENT].encode()


def with_header_comment(field: pa.Field, options: Options) -> pa.Field:
    """The text column, with a comment if headers are skipped."""
    return commented(field, header_comment(options[COMMENT])) if options[HEADER] else field


def check_comment(field: pa.Field, options: Options) -> None:
    """Check that the options agree with a column's comment about skipped headers."""
    declared = comment_of(field)
    if declared is None or header_in(declared) is None:
        return
    actual = comment_of(with_header_comment(field.remove_metadata(), options))
    if declared != actual:
        raise SchemaError(
            f"the comment of the column {field.name} in the schema is {declared!r}, but "
            + ("the option header is not set" if actual is None else f"the options require {actual!r}"),
            remedy="set the options header and comment of the stream to match the comment of the column",
        )


def without_header(texts: Iterable[pa.Array], comment: bytes) -> Iterator[pa.Array]:
    """The lines after the first line of a file that is neither blank nor a comment."""

    def is_passed(line: bytes) -> bool:
        return not line.strip(BLANKS) or (bool(comment) and line.startswith(comment))

    header_due = True
    for lines in texts:
        if header_due:
            at = next((at for at, line in enumerate(lines) if not is_passed(line.as_py())), None)
            if at is None:
                continue
            header_due = False
            lines = lines[at + 1 :]
        yield lines


def _separator(value: str) -> str:
    if not value:
        raise ValueError("at least one character is expected")
    return value


WHOLE_TEXT = WholeFilesOption(
    name="wholetext", parse=boolean, doc="Read each file as one row with its line ends."
)
LINE_SEP: Option[str | None] = WholeFilesOption(
    name="lineSep",
    parse=optional(_separator),
    default_text="`\\r`, `\\r\\n` and `\\n`",
    doc="The line separator; with this option files are not split into ranges.",
)


class TextReader(LinesReader):
    """Reads each line of a file as a row with one column; empty lines are rows too."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        WHOLE_TEXT, LINE_SEP, HEADER, COMMENT, MAX_LINE_BYTES, *FILE_OPTIONS, *SPARK_TEXT,
    )  # fmt: skip

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        """Spark's schema: ``value string``."""
        header_options(options[WHOLE_TEXT], options)
        return with_metadata(
            pa.schema([with_header_comment(pa.field("value", pa.string()), options)]), options
        )

    def prepare(self) -> None:
        """Check that there is one column, of type string."""
        schema = self.context.schema
        if schema.types != [pa.string()]:
            columns = ", ".join(f"{field.name} {field.type}" for field in schema)
            raise SchemaError(
                f"the text reader returns one column of type string, but the schema has: {columns}",
                remedy='remove the schema, or use .schema("value string")',
            )
        options = self.context.options
        self._header, self._comment = header_options(options[WHOLE_TEXT], options)
        check_comment(schema.field(0), options)

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        for texts in self._texts(splits):
            # A view keeps invalid UTF-8 unchanged; a cast would refuse it.
            yield pa.RecordBatch.from_arrays([texts.view(pa.string())], schema=self.context.schema)

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
