"""The csv reader: rows of delimited text files, as ``spark.read.schema(...).csv`` gives them.

Options and what happens to malformed lines are decided here. Cutting lines into fields is in
``delimited_columns``, texts to values in ``text_values``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.enumerators.file_split import FileSplit
from flip27_source.errors import OptionError, SchemaError, SplitReadError
from flip27_source.options import Option, Options, boolean, one_of, optional, text
from flip27_source.reader import ReadsRanges, ReadsTogether
from flip27_source.readers.csv_rescue import CsvRescue, Misfits, rows_of_interest
from flip27_source.readers.delimited_columns import nonblank_lines, text_columns
from flip27_source.readers.delimited_tokens import NONE, Dialect
from flip27_source.readers.file_input import is_splittable
from flip27_source.readers.file_reader import FILE_OPTIONS, FileReader
from flip27_source.readers.file_schema import InfersFileSchema
from flip27_source.readers.line_blocks import MAX_LINE_BYTES, LineBlock, as_array, first_lines, line_blocks
from flip27_source.readers.schema_csv import (
    CSV_INFERENCE_OPTIONS,
    FLOAT_WORD_OPTIONS,
    csv_schema,
    float_words,
)
from flip27_source.readers.schema_evolution import SchemaEvolution
from flip27_source.readers.schema_options import INFERENCE_OPTIONS, RESCUED_DATA_COLUMN
from flip27_source.readers.spark_options import SPARK_CSV
from flip27_source.readers.text_values import converter
from flip27_source.source_options import TIME_ZONE

_BATCH_ROWS = 1 << 18
_BLOCK_BYTES = 8 << 20
_SHOWN = 200
_BLANKS = bytes(range(0x21))
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


def _encoding(value: str) -> str:
    known = {"utf8": "utf-8", "utf-8": "utf-8", "iso-8859-1": "iso-8859-1", "us-ascii": "us-ascii"}
    if value.strip().lower() not in known:
        raise ValueError("UTF-8, ISO-8859-1 or US-ASCII is expected, in which lines end with a newline byte")
    return known[value.strip().lower()]


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
ENFORCE_SCHEMA = Option(
    name="enforceSchema",
    parse=boolean,
    default=True,
    doc="false: a header that does not name the columns of the schema, in their order, is an error. Columns "
    "go by position in any case.",
)
COMMENT = Option(
    name="comment",
    parse=_character,
    default=NONE,
    default_text="none",
    doc="Lines that begin with this character are left out.",
)
ENCODING: Option[str | None] = Option(
    name="encoding",
    parse=optional(_encoding),
    default=None,
    default_text="UTF-8",
    doc="Encoding of the files: UTF-8, ISO-8859-1 or US-ASCII.",
)
CHARSET: Option[str | None] = Option(
    name="charset",
    parse=optional(_encoding),
    default=None,
    default_text="UTF-8",
    doc="The same as encoding, which goes before it.",
)
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


class DelimitedReader(FileReader, InfersFileSchema, ReadsTogether[FileSplit], ReadsRanges):
    """Gives each line of a CSV file that is not blank as a row; columns go by position."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        HEADER, SEP, DELIMITER, QUOTE, ESCAPE, NULL_VALUE, EMPTY_VALUE, COMMENT, ENCODING, CHARSET,
        ENFORCE_SCHEMA, MODE, CORRUPT_RECORD, TIME_ZONE,
        MAX_LINE_BYTES, *FILE_OPTIONS, *INFERENCE_OPTIONS, *CSV_INFERENCE_OPTIONS, RESCUED_DATA_COLUMN,
        *FLOAT_WORD_OPTIONS, *SPARK_CSV,
    )  # fmt: skip

    @classmethod
    def schema_of_files(cls, splits: Sequence[FileSplit], options: Options) -> pa.Schema | None:
        """As Spark finds it in the first lines of each file."""
        samples = [(split.path, _lines_of_rows(first_lines(split, options), options)) for split in splits]
        return csv_schema(samples, _dialect(options), options, has_header=options[HEADER])

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
        corrupt = () if self._corrupt_at is None else (options[CORRUPT_RECORD],)
        elsewhere = (*self.constant_names, *corrupt)
        self._evolution = SchemaEvolution.of(context.schema, options, elsewhere).without(corrupt)
        self._rescue = CsvRescue(self._evolution, self._dialect) if self._evolution.is_strict else None
        self._headers: dict[str, list[str]] = {}
        self._fields = list(self._evolution.schema)
        if not self._fields:
            raise SchemaError(
                "the schema has no column that a CSV file could fill",
                remedy='give the columns of the files in their order, as in .schema("id long, name string")',
            )
        self._blocks: dict[str, Any] = {
            "block_bytes": _BLOCK_BYTES,
            "drop_header": options[HEADER],
            "comment": _comment(options),
        }
        zone = options[TIME_ZONE] or context.time_zone
        words = float_words(options)
        self._converters = [converter(field, zone, words) for field in self._fields]

    def rows_of(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of many splits; small files share batches."""
        options = self.context.options
        if options[HEADER] and (self._evolution.mode != "none" or not options[ENFORCE_SCHEMA]):
            for split in splits:
                self._check_header(split)
        for block in line_blocks(splits, options, **self._blocks):
            batch = self._rows(block)
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch[start : start + _BATCH_ROWS]

    def _rows(self, block: LineBlock) -> pa.RecordBatch:
        data = _lines_of_rows(block.data, self.context.options)
        texts = text_columns(data, self._dialect, len(self._fields))
        malformed = texts.wrong_count
        misfits: dict[str, tuple[pa.Array, pa.Array]] = {}
        rescues = self._evolution.rescued_at is not None
        arrays = []
        for field, convert, column in zip(self._fields, self._converters, texts.columns, strict=True):
            values, bad = convert(column)
            arrays.append(values)
            if bad is None:
                continue
            if rescues:
                misfits[field.name] = bad, column
                continue
            malformed = bad if malformed is None else pc.or_(malformed, bad)
            if self._mode == "FAILFAST":
                self._fail(block, data, bad, f"column {field.name} of type {field.type} cannot be", column)
        malformed, rescued = self._left_over(block, data, malformed, misfits)
        if malformed is not None and self._mode == "FAILFAST":
            self._fail(block, data, malformed, f"the line does not have {len(self._fields)} fields", None)
        added = {}
        if self._evolution.rescued_at is not None:
            added[self._evolution.rescued_at] = rescued
        if self._corrupt_at is not None:
            added[self._corrupt_at] = _malformed_lines(data, texts.rows, malformed)
        for at in sorted(added):
            arrays.insert(at, pa.nulls(texts.rows, pa.string()) if added[at] is None else added[at])
        if malformed is not None and self._mode == "DROPMALFORMED":
            arrays = [array.filter(pc.invert(malformed)) for array in arrays]
        return self._batch(arrays, block)

    def _left_over(
        self,
        block: LineBlock,
        data: bytes,
        malformed: pa.Array | None,
        misfits: dict[str, tuple[pa.Array, pa.Array]],
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Which rows are malformed, and the column of rescued data; None where there are none."""
        if malformed is not None and not malformed.true_count:
            malformed = None
        if self._rescue is None or (malformed is None and not misfits):
            return malformed, None
        lines = nonblank_lines(data)
        long_rows = self._rescue.long_rows(lines, malformed)
        if long_rows and not self.context.options[HEADER]:
            self._rescue.check(long_rows, block.place_of_line(self._row_lines(block)[min(long_rows)]))
        origin = self._origin(block, long_rows, misfits)
        if not origin or self._evolution.rescued_at is None:
            return malformed, None
        if malformed is not None and long_rows:
            is_long = pa.array([row in long_rows for row in range(len(lines))], pa.bool_())
            malformed = pc.and_not(malformed, is_long)
            malformed = malformed if malformed.true_count else None
        return malformed, self._rescue.rescued(len(lines), long_rows, misfits, origin)

    def _origin(
        self, block: LineBlock, long_rows: Mapping[int, Sequence[str]], misfits: Misfits
    ) -> dict[int, tuple[FileSplit, list[str]]]:
        """For each row of which something is left over: its file, and the names of its columns there."""
        rows = rows_of_interest(long_rows, misfits)
        if not rows:
            return {}
        numbers = self._row_lines(block)
        splits = {row: block.place_of_line(numbers[row]).split for row in rows}
        return {
            row: (split, self._header_of(split) if row in long_rows else []) for row, split in splits.items()
        }

    def _row_lines(self, block: LineBlock) -> list[int]:
        """The number of the line of each row: blank lines and comments are none."""
        comment = _comment(self.context.options)
        lines = enumerate(block.data.split(b"\n"))
        return [n for n, line in lines if line.strip(_BLANKS) and not (comment and line.startswith(comment))]

    def _header_of(self, split: FileSplit) -> list[str]:
        """The names that a file gives to its columns; none where it has no header."""
        options = self.context.options
        if options[HEADER] and split.path not in self._headers:
            found = self.schema_of_files([replace(split, start=0, end=None)], options)
            self._headers[split.path] = [] if found is None else found.names
        return self._headers.get(split.path, [])

    def _check_header(self, split: FileSplit) -> None:
        """Refuse names that are not those of the schema: its columns would be mixed up; then new columns."""
        options = self.context.options
        found = self.schema_of_files([split], options) if split.start == 0 else None
        if found is None:
            return
        count = len(self._fields)
        names, wanted = found.names, [field.name for field in self._fields]
        compared = min(count, len(names)) if options[ENFORCE_SCHEMA] else max(count, len(names))
        by_position = options[ENFORCE_SCHEMA] and options.is_set(ENFORCE_SCHEMA)
        if not by_position and _lowered(names[:compared]) != _lowered(wanted[:compared]):
            raise SchemaError(
                f"{split.path}: its columns are called {', '.join(names)}, and those of the schema "
                + ", ".join(wanted),
                remedy="give the schema that the file has, or set enforceSchema=true to go by position",
            )
        self._evolution.check(pa.schema(list(found)[count:]), split.path)

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
        place = block.place_of_line(self._row_lines(block)[row])
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


def _comment(options: Options) -> bytes:
    return b"" if options[COMMENT] == NONE else options[COMMENT].encode()


def _lines_of_rows(data: bytes, options: Options) -> bytes:
    """The lines of a block that are no comments, as UTF-8."""
    comment = _comment(options)
    if comment and comment in data:
        data = re.sub(rb"(?m)^" + re.escape(comment) + rb"[^\n]*\n", b"", data)
    encoding = options[ENCODING] or options[CHARSET] or "utf-8"
    if encoding != "utf-8" and not data.isascii():
        return data.decode(encoding, errors="replace").encode()
    return _as_utf8(data)


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


def _lowered(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _files(block: LineBlock) -> str:
    paths = list(dict.fromkeys(part.split.path for part in block.parts))
    return paths[0] if len(paths) == 1 else f"one of {len(paths)} files, {paths[0]} to {paths[-1]}"
