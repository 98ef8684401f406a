"""The csv reader: rows of delimited text files, as ``spark.read.schema(...).csv`` gives them.

Options and what happens to malformed lines are decided here. Cutting lines into fields is in
``delimited_columns``, texts to values in ``text_values``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.enumerators.file_split import FileSplit
from flip27_source.errors import OptionError, SchemaError, SplitReadError
from flip27_source.options import Option, Options, boolean, one_of, optional, text
from flip27_source.reader import ReadsRanges, ReadsTogether
from flip27_source.readers.delimited_columns import nonblank_lines, text_columns
from flip27_source.readers.delimited_tokens import NONE, Dialect
from flip27_source.readers.file_input import is_splittable
from flip27_source.readers.file_reader import FILE_OPTIONS, FileReader
from flip27_source.readers.line_blocks import MAX_LINE_BYTES, LineBlock, as_array, line_blocks
from flip27_source.readers.spark_options import SPARK_CSV
from flip27_source.readers.text_values import converter
from flip27_source.source_options import TIME_ZONE

_BATCH_ROWS = 1 << 18
_BLOCK_BYTES = 8 << 20
_SHOWN = 200
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _character(value: str) -> str:
    """A single ASCII character; empty for none."""
    if value == "":
        return NONE
    if len(value) != 1 or not value.isascii() or value in "\r\n":
        raise ValueError("a single ASCII character is expected")
    return value


def _separator(value: str) -> str:
    """A single ASCII character, or an escape such as ``\\t``."""
    known = {"\\t": "\t", "\\\\": "\\", "\\b": "\b", "\\f": "\f", '\\"': '"', "\\'": "'", "\\u0000": "\0"}
    value = known.get(value, value)
    if value == "":
        raise ValueError("a single ASCII character is expected, or \\t")
    return _character(value)


HEADER = Option(name="header", parse=boolean, default=False, doc="The first line of each file is left out.")
SEP: Option[str | None] = Option(
    name="sep",
    parse=optional(_separator),
    default=None,
    default_text=",",
    doc="Character between two fields.",
)
DELIMITER: Option[str | None] = Option(
    name="delimiter", parse=optional(_separator), default=None, default_text=",", doc="The same as sep."
)
QUOTE = Option(name="quote", parse=_character, default='"', doc="Character around a field; empty for none.")
ESCAPE = Option(
    name="escape", parse=_character, default="\\", doc="Character before a quote inside a quoted field."
)
NULL_VALUE = Option(name="nullValue", parse=text, default="", doc="Text that stands for null.")
EMPTY_VALUE = Option(name="emptyValue", parse=text, default="", doc="What an empty quoted field stands for.")
MODE = Option(
    name="mode",
    parse=one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    default="PERMISSIVE",
    doc="What happens to malformed lines: their bad values are null, they are left out, or the query fails.",
)
CORRUPT_RECORD = Option(
    name="columnNameOfCorruptRecord",
    parse=text,
    default="_corrupt_record",
    doc="Name of the string column that holds malformed lines, when the schema has it.",
)


class DelimitedReader(FileReader, ReadsTogether[FileSplit], ReadsRanges):
    """Gives each line of a CSV file that is not blank as a row; columns go by position."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        HEADER, SEP, DELIMITER, QUOTE, ESCAPE, NULL_VALUE, EMPTY_VALUE, MODE, CORRUPT_RECORD, TIME_ZONE,
        MAX_LINE_BYTES, *FILE_OPTIONS, *SPARK_CSV,
    )  # fmt: skip

    @classmethod
    def can_read_ranges(cls, path: str, options: Options) -> bool:
        """Unless it is compressed: a range is found by its bytes."""
        return is_splittable(path)

    def prepare(self) -> None:
        """Check options and schema, and choose how each column is converted."""
        context = self.context
        options = context.options
        self._dialect = _dialect(options)
        self._mode = options[MODE]
        self._corrupt_at = _corrupt_record_column(context.schema, options)
        self._fields = [field for at, field in enumerate(context.schema) if at != self._corrupt_at]
        if not self._fields:
            raise SchemaError(
                "the schema has no column that a CSV file could fill",
                remedy='give the columns of the files in their order, as in .schema("id long, name string")',
            )
        zone = options[TIME_ZONE] or context.time_zone
        self._converters = [converter(field, zone) for field in self._fields]

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of many splits; small files share batches."""
        options = self.context.options
        for block in line_blocks(splits, options, block_bytes=_BLOCK_BYTES, drop_header=options[HEADER]):
            batch = self._rows(block)
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch[start : start + _BATCH_ROWS]

    def _rows(self, block: LineBlock) -> pa.RecordBatch:
        data = _as_utf8(block.data)
        texts = text_columns(data, self._dialect, len(self._fields))
        malformed = texts.wrong_count
        arrays = []
        for field, convert, column in zip(self._fields, self._converters, texts.columns, strict=True):
            values, bad = convert(column)
            if bad is not None:
                malformed = bad if malformed is None else pc.or_(malformed, bad)
            arrays.append(values)
            if bad is not None and self._mode == "FAILFAST":
                self._fail(block, data, bad, f"column {field.name} of type {field.type} cannot be", column)
        if malformed is not None and not malformed.true_count:
            malformed = None
        if malformed is not None and self._mode == "FAILFAST":
            self._fail(block, data, malformed, f"the line does not have {len(self._fields)} fields", None)
        if self._corrupt_at is not None:
            arrays.insert(self._corrupt_at, _malformed_lines(data, texts.rows, malformed))
        if malformed is not None and self._mode == "DROPMALFORMED":
            arrays = [array.filter(pc.invert(malformed)) for array in arrays]
        return self._batch(arrays, block)

    def _batch(self, arrays: list[pa.Array], block: LineBlock) -> pa.RecordBatch:
        schema = self.context.schema
        for field, array in zip(schema, arrays, strict=True):
            if not field.nullable and array.null_count:
                raise SchemaError(
                    f"column {field.name} holds a null in {_files(block)}, and the schema says NOT NULL",
                    remedy="leave NOT NULL out of the schema",
                )
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _fail(self, block: LineBlock, data: bytes, bad: pa.Array, what: str, column: pa.Array | None) -> None:
        row = bad.index(True).as_py()
        line = nonblank_lines(data)[row].as_py()
        place = block.place_of_line(_line_number(data, row))
        value = "" if column is None else f" {column[row].as_py()[:_SHOWN]!r}"
        shown = line[:_SHOWN].decode(errors="replace")
        raise SplitReadError(
            f"{place}: {what}{value}: {shown!r}",
            remedy='mend the file, or use .option("mode", "PERMISSIVE") or "DROPMALFORMED"',
        )


def _dialect(options: Options) -> Dialect:
    sep = options[SEP] or options[DELIMITER] or ","
    quote, escape = options[QUOTE], options[ESCAPE]
    if sep in (quote, escape):
        raise OptionError(
            f"option sep is {sep!r}, which is also the quote or the escape character",
            remedy="use three different characters, or the same for quote and escape",
        )
    return Dialect(
        sep=sep, quote=quote, escape=escape, null_value=options[NULL_VALUE], empty_value=options[EMPTY_VALUE]
    )


def _corrupt_record_column(schema: pa.Schema, options: Options) -> int | None:
    name = options[CORRUPT_RECORD]
    at = int(schema.get_field_index(name))
    if at < 0:
        return None
    if not types.is_string(schema.field(at).type) or not schema.field(at).nullable:
        raise SchemaError(
            f"column {name} is for malformed lines and has the type {schema.field(at).type}",
            remedy=f"declare it as {name} string, or set columnNameOfCorruptRecord to another name",
        )
    return at


def _as_utf8(data: bytes) -> bytes:
    """``data`` with what is not UTF-8 replaced, as Java does when it makes a string."""
    if data.isascii():
        return data
    try:
        as_array(data).view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        # Half a surrogate pair in three bytes is one mistake to Java and three to Python.
        return _SURROGATE.sub(b"\xff", data).decode(errors="replace").encode()
    return data


def _malformed_lines(data: bytes, rows: int, malformed: pa.Array | None) -> pa.Array:
    if malformed is None:
        return pa.nulls(rows, pa.string())
    lines = nonblank_lines(data).view(pa.string())
    return pc.if_else(malformed, lines, pa.scalar(None, pa.string()))


def _line_number(data: bytes, row: int) -> int:
    """Number of the line that is row ``row``, blank lines counted."""
    lines = [bool(line.strip(bytes(range(0x21)))) for line in data.split(b"\n")]
    numbers = (number for number, is_row in enumerate(lines) if is_row)
    return next(number for at, number in enumerate(numbers) if at == row)


def _files(block: LineBlock) -> str:
    paths = list(dict.fromkeys(part.split.path for part in block.parts))
    return paths[0] if len(paths) == 1 else f"one of {len(paths)} files, {paths[0]} to {paths[-1]}"
