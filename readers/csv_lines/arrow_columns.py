"""Splits a block of CSV lines into columns of texts.

Arrow's CSV parser reads all lines for which its result provably equals Spark's, proved for the whole block
or line by line. A proof covers all bytes of a block in a fraction of the time that parsing takes; if it is
not certain, the lines are checked further. Other lines go through ``quoted_fields``. What must not live here:
the meaning of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from flip27_source.readers.csv_lines.dialect import NONE, Dialect
from flip27_source.readers.csv_lines.quoted_fields import records_of, split_line
from flip27_source.readers.files.line_blocks import BOM, as_array, lines_of
from flip27_source.readers.scalars.ordinary_texts import in_row_order, one_array
from flip27_source.readers.scalars.text_bytes import Bytes, Positions
from flip27_source.readers.scalars.texts import JAVA_BLANKS

_FIRST_TEXT = re.compile(rb"[^\x00-\x20][^\n]*")
_BLANK_LINE = r"(?:\A|\n)[\x00-\x09\x0b-\x20]+\n"
_NOT_BLANK = r"[^\x00-\x20]"
_MOST_FIELDS_IN_PATTERN = 300
_FIRST_RECORD_BYTES = 1 << 20
_NEWLINE = ord("\n")
SLICE_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class TextColumns:
    """The non-blank lines of a block as columns of texts.

    Attributes:
        columns: one array of strings per column of the schema, at least one; null if the field means null.
        wrong_count: true for lines with more or fewer fields; None if no line has.
    """

    columns: list[pa.Array]
    wrong_count: pa.Array | None

    @property
    def rows(self) -> int:
        """The number of non-blank lines."""
        return len(self.columns[0])

    @property
    def wrong_counts(self) -> pa.Array:
        """``wrong_count`` as an array, whatever the lines are."""
        return (
            pa.repeat(pa.scalar(False, pa.bool_()), self.rows)
            if self.wrong_count is None
            else self.wrong_count
        )


def text_columns(data: bytes, dialect: Dialect, width: int) -> TextColumns:
    """The first ``width`` fields of each line of ``data``, which is UTF-8 and ends in a newline."""
    first = _FIRST_TEXT.search(data)
    if first is None:
        return TextColumns([pa.array([], pa.string())] * width, None)
    start = data.rfind(b"\n", 0, first.start()) + 1
    fields = len(split_line(data[start : first.end()].decode(), dialect))
    columns = _parsed_whole(data, dialect, fields, width)
    if columns is not None:
        return _of_one_count(columns, fields, width)
    return _line_by_line(data, dialect, fields, width)


def document_columns(data: bytes, dialect: Dialect, width: int) -> TextColumns | None:
    """The first ``width`` fields of each record of a document, as Arrow reads them.

    None if Spark's result, which is computed character by character, may differ.

    Args:
        data: UTF-8 without comments; all line ends are of one kind, and the last line has one.
    """
    if not dialect.is_for_arrow or b"\r" in data:
        return None
    if dialect.quote.encode() in data and not quotes_pair_up(data, dialect):
        return None
    first = next(records_of(data[:_FIRST_RECORD_BYTES].decode(errors="replace"), dialect), None)
    if first is None or len(first.fields) == 1 or first.end == _FIRST_RECORD_BYTES:
        return None
    columns = _parsed(data, dialect, len(first.fields), width, newlines_in_values=True)
    return None if columns is None else _of_one_count(columns, len(first.fields), width)


def columns_of_rows(rows: Iterable[list[str]], dialect: Dialect, width: int) -> TextColumns:
    columns: list[list[str | None]] = [[] for _ in range(width)]
    wrong_count: list[bool] = []
    for fields in rows:
        wrong_count.append(len(fields) != width)
        for number, column in enumerate(columns):
            text = fields[number] if number < len(fields) else dialect.null_value
            column.append(None if text == dialect.null_value else text)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return TextColumns(arrays, pa.array(wrong_count, pa.bool_()))


def nonblank_lines(data: bytes) -> pa.Array:
    """The lines of a block that are rows, as binary values without newlines."""
    lines = lines_of(data)
    return lines.filter(pc.match_substring_regex(lines, _NOT_BLANK))


def _parsed_whole(data: bytes, dialect: Dialect, fields: int, width: int) -> list[pa.Array] | None:
    """The columns if Arrow and Spark split every line into the same ``fields`` fields, else None."""
    # Spark ignores lines of white space. With several fields, Arrow rejects them anyway.
    if (fields == 1 or dialect.sep <= " ") and _matches(data, _BLANK_LINE):
        return None
    if dialect.quote.encode() not in data:
        return _parsed(data, dialect, fields, width) if _may_trim(dialect) else None
    if not dialect.is_for_arrow:
        return None
    if quotes_pair_up(data, dialect):
        columns = _parsed(data, dialect, fields, width)
        # Otherwise some quoted field has a newline.
        return columns if columns is not None and is_line_count(len(columns[0]), data) else None
    return _parsed(data, dialect, fields, width) if _matches(data, dialect.clean_lines) else None


def _matches(data: bytes, pattern: str) -> bool:
    return bool(pc.match_substring_regex(as_array(data), pattern)[0].as_py())


def _may_trim(dialect: Dialect) -> bool:
    """True if texts may be trimmed after parsing: either way, a field of white space is null."""
    return dialect.keeps_blanks or dialect.null_value == dialect.empty_value


def _trimmed(texts: pa.Array, dialect: Dialect) -> pa.Array:
    if dialect.skips_leading:
        texts = pc.utf8_ltrim(texts, JAVA_BLANKS)
    if dialect.skips_trailing:
        texts = pc.utf8_rtrim(texts, JAVA_BLANKS)
    nulls = pc.is_in(texts, pa.array(["", dialect.null_value], pa.string()))
    return pc.if_else(nulls, pa.scalar(None, pa.string()), texts)


def _parsed(
    data: bytes | pa.Buffer, dialect: Dialect, fields: int, width: int, *, newlines_in_values: bool = False
) -> list[pa.Array] | None:
    """The columns as Arrow reads them; None if some line has another number of fields."""
    names = [str(number) for number in range(fields)]
    if bytes(data[:3]) == BOM:  # Not at the start of a file, so this is text, but Arrow would drop it.
        data = BOM + bytes(data)
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            pacsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            pacsv.ParseOptions(
                delimiter=dialect.sep,
                quote_char=False if dialect.quote == NONE else dialect.quote,
                double_quote=dialect.doubles_quotes,
                newlines_in_values=newlines_in_values,
            ),
            pacsv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.string()),
                null_values=sorted({dialect.null_value, ""}),
                strings_can_be_null=True,
                include_columns=names[:width],
            ),
        )
    except pa.ArrowInvalid:
        return None
    columns = [one_array(column) for column in table.columns]
    return columns if dialect.keeps_blanks else [_trimmed(column, dialect) for column in columns]


def _of_one_count(columns: list[pa.Array], fields: int, width: int) -> TextColumns:
    rows = len(columns[0])
    columns += [pa.nulls(rows, pa.string())] * (width - len(columns))
    return TextColumns(columns, None if fields == width else pa.repeat(pa.scalar(True, pa.bool_()), rows))


def _line_by_line(data: bytes, dialect: Dialect, fields: int, width: int) -> TextColumns:
    """Read clean lines with Arrow and other lines one by one, and restore the line order."""
    lines = nonblank_lines(data)
    clean = _clean_lines(lines, dialect, fields)
    clean_lines = lines.filter(clean)
    parts: list[tuple[pa.Array, TextColumns]] = []
    if len(clean_lines):
        columns = _parsed(_joined(clean_lines), dialect, fields, width)
        if columns is None or len(columns[0]) != len(clean_lines):
            # The proof was wrong, so read all lines the slow way.
            clean = pa.repeat(pa.scalar(False, pa.bool_()), len(lines))
        else:
            parts.append((pc.indices_nonzero(clean), _of_one_count(columns, fields, width)))
    odd = pc.invert(clean)
    odd_lines = (split_line(line.decode(), dialect) for line in lines.filter(odd).to_pylist())
    parts.append((pc.indices_nonzero(odd), columns_of_rows(odd_lines, dialect, width)))
    _, columns = in_row_order([(numbers, [*part.columns, part.wrong_counts]) for numbers, part in parts])
    return TextColumns(columns[:-1], columns[-1])


def _clean_lines(lines: pa.Array, dialect: Dialect, fields: int) -> pa.Array:
    """True for lines with ``fields`` fields that Arrow's parser reads as Spark does."""
    if not _may_trim(dialect):
        return pa.repeat(pa.scalar(False, pa.bool_()), len(lines))
    if fields <= _MOST_FIELDS_IN_PATTERN and dialect.is_for_arrow:
        return pc.match_substring_regex(lines, dialect.clean_line(fields))
    # Without a pattern, or with too many fields for one, lines with quotes do not count as clean.
    of_count = pc.equal(pc.count_substring(lines, dialect.sep), pa.scalar(fields - 1, pa.int32()))
    return pc.and_not(of_count, pc.match_substring(lines, dialect.quote))


def _joined(lines: pa.Array) -> pa.Buffer:
    as_list = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(as_list, pa.scalar(b"\n", lines.type))[0].as_buffer()


def quotes_pair_up(data: bytes, dialect: Dialect) -> bool:
    """True if the quotes in ``data`` alternately open and close a quoted field.

    No quote is escaped or inside an unquoted field; a doubled quote counts as a close and an open. The
    proof is by induction over the quotes: an odd quote opens a field if the byte before it ends a field,
    and the next quote closes the field if the byte after it ends a field. A newline between the two
    quotes remains possible.

    Args:
        data: lines; the last one also ends in a newline.
    """
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    if dialect.nul_is_special and b"\0" in data:
        return False
    # An escape character has its meaning only before a quote or another escape character.
    if not dialect.doubles_quotes and escape in data and (escape * 2 in data or escape + quote in data):
        return False
    content = np.frombuffer(data, np.uint8)
    quotes = _positions(content, ord(quote))
    first, last = quotes[::2], quotes[1::2]
    if len(first) != len(last):
        return False
    if not dialect.empty_quotes_are_clean and (last - first == 1).any():
        return False
    # Index -1, before the first byte, wraps to the last byte, which is a newline and so ends a field.
    return _are_all_outside(content[first - 1], dialect) and _are_all_outside(content[last + 1], dialect)


def _are_all_outside(neighbours: Bytes, dialect: Dialect) -> bool:
    """True if each byte next to a quote ends a field."""
    outside = (neighbours == ord(dialect.sep)) | (neighbours == _NEWLINE)
    if dialect.doubles_quotes:
        # A quote next to a quote is a doubled quote inside the field.
        outside |= neighbours == ord(dialect.quote)
    return bool(outside.all())


def _positions(content: Bytes, byte: int) -> Positions:
    """The positions of ``byte``. Listing is slow, so groups of eight bytes are filtered first."""
    mask = np.empty(SLICE_BYTES, np.bool_)
    positions = []
    for start in range(0, len(content), SLICE_BYTES):
        part = content[start : start + SLICE_BYTES]
        mask[len(part) :] = False
        np.equal(part, byte, out=mask[: len(part)])
        words = mask.view(np.uint64)
        used = np.flatnonzero(words != 0)
        within = np.flatnonzero(words[used].view(np.bool_))
        positions.append(used[within >> 3] * 8 + (within & 7) + start)
    return np.concatenate(positions)


def is_line_count(rows: int, data: bytes) -> bool:
    """True if ``data`` has ``rows`` non-empty lines.

    If a parser that skips empty lines finds the same number of rows, no quoted field has a newline. Each
    row has one newline outside quotes, so a newline inside quotes would make more lines than rows.
    """
    content = np.frombuffer(data, np.uint8)
    parts = (content[start : start + SLICE_BYTES] for start in range(0, len(content), SLICE_BYTES))
    lines = sum(int(np.count_nonzero(part == _NEWLINE)) for part in parts)
    if lines != rows:
        ends = content == _NEWLINE
        lines -= int(np.count_nonzero(ends[1:] & ends[:-1])) + int(ends[0])
    return lines == rows
