"""The fast path of the JSON reader: reads many lines as columns.

:mod:`flip27_source.readers.json_lines.layout_columns` reads blocks of lines that share one layout.
pyarrow's parser reads other lines, and its result is used only where it is known to equal Spark's.
pyarrow rejects most of the input that Spark reads differently. This module finds the rest: lines without
exactly one object, invalid UTF-8, numbers and levels beyond Jackson's limits, infinities, minus zeros, and
texts that only Spark reads as a date. Those lines go to :mod:`flip27_source.readers.json_lines.values`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.json_lines.layout_columns import LayoutColumns
from flip27_source.readers.json_lines.scalars import NotProvedError
from flip27_source.readers.json_lines.strings import MAX_NAME_CHARS
from flip27_source.readers.json_lines.tokens import MAX_DEPTH, MAX_NUMBER_DIGITS
from flip27_source.readers.json_lines.values import JSON_FORMATS
from flip27_source.readers.scalars.ordinary_texts import one_array, unreadable
from flip27_source.readers.scalars.text_bytes import bytes_of
from flip27_source.readers.scalars.texts import may_lose_digits
from flip27_source.readers.schemas.merging import with_leaves
from flip27_source.schemas.new_columns import MOST_DIGITS

_ROW = re.compile(r" in row (\d+)")
_INFINITY = re.compile(rb"[:\[,][ \t]*-?(?:Inf(?!inity)|NaN)")
_WORD = re.compile(rb"NaN|Inf")
_MINUS_ZERO = re.compile(rb"-0[,}\] \t\n]")
_EXPONENT = re.compile(rb'[:\[,][ \t]*"?[-+]?[0-9.]+[eE](?:\+?[0-9]+|-[0-9]{3,})["\],} \t\n]')
_ESCAPED_NUMBER_CHAR = re.compile(rb"\\u00(?:3[0-9]|[46]5|2[bBdDeE])")
_PADDED_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?$"
_LONG_NAME = re.compile(rb'"(?:[^"\\]|\\.){%d,}"[ \t]*:' % MAX_NAME_CHARS)
_SAMPLE_STEP = 100
_IS_NUMBER_CHAR = bytes(1 if byte in b"-+.eE0123456789" else 0 for byte in range(256))
_IS_DIGIT = bytes(ord("1") if chr(byte) in "0123456789" else 0 for byte in range(256))
_LONG_LINE_BYTES = 2 * MAX_DEPTH
_MOST_BLOCKS_TO_SKIP = 32

LEAST_LAYOUT_BYTES = 1 << 17
"""Below this size, parsing the bytes takes no longer than learning their layout."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One row for each line.

    Attributes:
        doubtful: numbers of the rows that Spark may read differently; ignore their values.
    """

    columns: list[pa.Array]
    doubtful: set[int]


@dataclass(frozen=True, slots=True)
class Refused:
    """At least one line is unsuitable for the fast path.

    Attributes:
        line: the number of that line if pyarrow reports it. pyarrow counts objects: if a line has an
            object and more text, the number is that of a later line, which may not exist.
    """

    line: int | None


class JsonColumnsParser:
    """Parses lines to the columns of ``schema``; ``time_zone`` applies to timestamps without a zone.

    Args:
        strict: refuse lines that have fields without a column.
        exact: rows with a number that may have lost digits are doubtful.
        takes_words: accept NaN and infinities as numbers.
    """

    def __init__(
        self,
        schema: pa.Schema,
        time_zone: str,
        formats: DateTimeFormats = JSON_FORMATS,
        *,
        strict: bool = False,
        exact: bool = False,
        takes_words: bool = True,
        least_layout_bytes: int = LEAST_LAYOUT_BYTES,
    ) -> None:
        self._strict = strict
        self._exact = exact
        self._takes_words = takes_words
        self._schema = schema
        self._time_zone = time_zone
        self._formats = replace(formats, exact=exact)
        self._read_schema = pa.schema(
            [pa.field(field.name, with_leaves(field.type, _read_leaf)) for field in schema]
        )
        self._least_layout_bytes = least_layout_bytes
        self._by_layout = LayoutColumns(self._read_schema)
        self._blocks_to_skip = self._blocks_refused = 0
        self._all_fields_known = True
        scales = [scale for field in schema for scale in _scales(field.type)]
        self._whole_digits = MOST_DIGITS - max(scales) if scales else None
        self.usable = len(schema) > 0 and not any(_any_type(field.type, pt.is_map) for field in schema)
        """False if pyarrow cannot read the type of some column; then this parser is not usable."""

    def parse_layout(self, data: bytes) -> Parsed | None:
        """Parse a block of any lines; None unless they share one layout.

        Each block without a common layout doubles the number of following blocks that are skipped.
        """
        if len(data) < self._least_layout_bytes or not (self.usable and self._by_layout.usable):
            return None
        if self._blocks_to_skip:
            self._blocks_to_skip -= 1
            return None
        try:
            parsed = self._converted(self._by_layout.read(data), data)
        except NotProvedError:
            parsed = Refused(None)
        if isinstance(parsed, Parsed) and not (self._strict and self._by_layout.has_unknown):
            self._blocks_refused = 0
            return parsed
        self._blocks_refused += 1
        self._blocks_to_skip = min(2**self._blocks_refused, _MOST_BLOCKS_TO_SKIP)
        return None

    def parse(self, data: pa.Buffer, lines: int) -> Parsed | Refused:
        """Parse ``lines`` lines; each starts with ``{`` and ends with ``}`` and a newline."""
        if _has_long_number(data):
            return Refused(None)
        if self._whole_digits is not None and _defeats_decimals(data, self._whole_digits):
            return Refused(None)
        if not self._takes_words and _WORD.search(data):
            return Refused(None)
        table = self._read(data)
        if isinstance(table, Refused):
            return table
        # Each line starts and ends with a brace, and no object continues past a line that ends one.
        # So equal numbers of rows and lines mean one object on each line.
        if table.num_rows != lines:
            return Refused(None)
        return self._converted([one_array(table.column(field.name)) for field in self._schema], data)

    def _converted(self, read_columns: list[pa.Array], data: pa.Buffer | bytes) -> Parsed | Refused:
        columns: list[pa.Array] = []
        doubtful: set[int] = set()
        minus_zeros = None
        for field, read in zip(self._schema, read_columns, strict=True):
            try:
                converted = _Converted(self._time_zone, self._formats, doubtful, exact=self._exact)
                columns.append(converted.array(read, field.type))
            except pa.ArrowInvalid:  # not UTF-8, or a decimal with too many digits
                return Refused(None)
            if converted.minus_zeros:
                minus_zeros = (minus_zeros or set()) | converted.minus_zeros
        if minus_zeros and _MINUS_ZERO.search(data):
            doubtful |= minus_zeros  # Spark reads -0 as 0.0, but -0.0 as -0.0
        return Parsed(columns, doubtful)

    def _read(self, data: pa.Buffer) -> pa.Table | Refused:
        if self._all_fields_known:
            try:
                return self._read_json(data, "error")
            except pa.ArrowInvalid as error:
                if self._strict or "unexpected field" not in str(error):
                    return _refused(error)
                self._all_fields_known = False
        if _has_trap_in_unknown_fields(data):
            return Refused(None)
        try:
            return self._read_json(data, "ignore")
        except pa.ArrowInvalid as error:
            return _refused(error)

    def _read_json(self, data: pa.Buffer, unexpected: str) -> pa.Table:
        return pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=self._read_schema,
                newlines_in_values=False,
                unexpected_field_behavior=unexpected,
            ),
        )


def _refused(error: Exception) -> Refused:
    match = _ROW.search(str(error))
    return Refused(int(match[1]) if match else None)


def _read_leaf(kind: pa.DataType) -> pa.DataType:
    """The type that pyarrow reads: dates, times and base64 as text."""
    return pa.string() if pt.is_temporal(kind) or pt.is_binary(kind) else kind


def _any_type(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    return test(kind) or any(_any_type(kind.field(number).type, test) for number in range(kind.num_fields))


class _Converted:
    """Converts pyarrow's columns to those of the schema and records the doubtful rows."""

    def __init__(self, time_zone: str, formats: DateTimeFormats, doubtful: set[int], *, exact: bool) -> None:
        self._exact = exact
        self._time_zone = time_zone
        self._formats = formats
        self._doubtful = doubtful
        self.minus_zeros: set[int] = set()

    def array(self, read: pa.Array, kind: pa.DataType, rows: pa.Array | None = None) -> pa.Array:
        """``read`` as ``kind``; ``rows`` gives the row of each element if it differs from the index."""
        if pt.is_struct(kind):
            children = [self.array(read.field(number), field.type, rows) for number, field in enumerate(kind)]
            fields = list(kind)
            return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(read)) if fields else read
        if pt.is_list(kind):
            parents = pc.list_parent_indices(read)
            items = self.array(
                read.flatten(), kind.value_type, parents if rows is None else rows.take(parents)
            )
            return pa.ListArray.from_arrays(read.offsets, items, type=kind, mask=_nulls(read))
        return self._leaf(read, kind, rows)

    def _leaf(self, read: pa.Array, kind: pa.DataType, rows: pa.Array | None) -> pa.Array:
        if pt.is_decimal(kind) or (pt.is_string(read.type) and not bytes_of(read).lie_between("\0", "\x7f")):
            read.validate(full=True)
        if pt.is_floating(kind):
            self._check_floats(read, rows)
        elif pt.is_date(kind):
            return self._readable(self._formats.dates(read), read, rows)
        elif pt.is_timestamp(kind):
            times = self._formats.timestamps(read, self._time_zone if kind.tz else None)
            return self._readable(times, read, rows)
        elif pt.is_binary(kind):
            plain = pc.match_substring_regex(read, _PADDED_BASE64).fill_null(pa.scalar(True, pa.bool_()))
            self._doubtful |= _rows_where(pc.invert(plain), rows)
            good = pc.if_else(plain, read, pa.scalar("", read.type)).to_pylist()
            read = pa.array([None if text is None else base64.b64decode(text) for text in good], pa.binary())
        return read

    def _readable(self, values: pa.Array, texts: pa.Array, rows: pa.Array | None) -> pa.Array:
        """The values of texts; rows with a text that has no value are doubtful."""
        bad = unreadable(texts, values)
        if bad is not None:
            self._doubtful |= _rows_where(bad, rows)
        return values

    def _check_floats(self, read: pa.Array, rows: pa.Array | None) -> None:
        extremes = pc.min_max(read)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        if low is None:  # all null or NaN
            low, high = (0.0, 0.0) if read.null_count == len(read) else (float("nan"), float("nan"))
        if not (abs(low) < float("inf") and abs(high) < float("inf")) or pc.any(pc.is_nan(read)).as_py():
            self._doubtful |= _rows_where(pc.invert(pc.is_finite(read)), rows)
        if self._exact:
            self._doubtful |= _rows_where(may_lose_digits(read), rows)
        if low <= 0 <= high:
            minus = pc.and_(
                pc.equal(read, pa.scalar(0.0, read.type)),
                pc.equal(pc.divide(pa.scalar(1.0, read.type), read), pa.scalar(float("-inf"), read.type)),
            )
            self.minus_zeros |= _rows_where(minus, rows)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _rows_where(mask: pa.Array, rows: pa.Array | None) -> set[int]:
    positions = pc.indices_nonzero(mask)
    return set((positions if rows is None else rows.take(positions)).to_pylist())


def _has_long_number(data: pa.Buffer) -> bool:
    """True if some run of bytes may be a number with more digits than Jackson accepts.

    Such a number covers several consecutive samples of every hundredth byte, and all bytes between them.
    """
    view = memoryview(data)
    sample = view[::_SAMPLE_STEP].tobytes().translate(_IS_NUMBER_CHAR)
    run = b"\x01" * (MAX_NUMBER_DIGITS // _SAMPLE_STEP - 1)
    at = sample.find(run)
    while at >= 0:
        start = at * _SAMPLE_STEP
        if 0 not in view[start : start + _SAMPLE_STEP].tobytes().translate(_IS_NUMBER_CHAR):
            return True
        at = sample.find(run, at + 1)
    return False


def _scales(kind: pa.DataType) -> Iterator[int]:
    if pt.is_decimal(kind):
        yield kind.scale
    for number in range(kind.num_fields):
        yield from _scales(kind.field(number).type)


def _defeats_decimals(data: pa.Buffer, whole_digits: int) -> bool:
    """True if some decimal may have an exponent, or more than ``whole_digits`` consecutive digits.

    pyarrow 26 silently changes a number that has too many digits before the decimal point, and 1e-2147483647
    crashes the process with a segmentation fault.
    """
    if data.to_pybytes().translate(_IS_DIGIT).find(b"1" * (whole_digits + 1)) >= 0:
        return True
    return bool(_EXPONENT.search(data) or _ESCAPED_NUMBER_CHAR.search(data))


def _has_trap_in_unknown_fields(data: pa.Buffer) -> bool:
    """True if a field outside the schema may hold a value that Jackson rejects and pyarrow accepts."""
    content = data.to_pybytes()
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError:
            return True
    if (b"Inf" in content or b"-NaN" in content) and _INFINITY.search(content):
        return True
    return any(
        line.count(b"{") + line.count(b"[") > MAX_DEPTH
        or (len(line) > MAX_NAME_CHARS and _LONG_NAME.search(line))
        for line in _long_lines(content)
    )


def _long_lines(content: bytes) -> list[bytes]:
    """The lines of at least 2000 bytes, lines in steps of that size."""
    lines: list[bytes] = []
    start = 0
    while start + _LONG_LINE_BYTES < len(content):
        newline = content.rfind(b"\n", start, start + _LONG_LINE_BYTES)
        if newline < 0:
            newline = content.find(b"\n", start)
            lines.append(content[start:newline])
        start = newline + 1
    return lines
