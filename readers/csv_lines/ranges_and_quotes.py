"""The rows of CSV files, and what quotes mean for ranges of files.

Without ``multiLine``, every line is a row, whatever its quotes, so a file is cut into ranges at line ends.
With it, quotes may contain line ends, so a file is a document that is read as a whole. What must not live
here: the meaning of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SplitReadError, quotation
from flip27_source.readers.csv_lines.arrow_columns import (
    TextColumns,
    columns_of_rows,
    document_columns,
    nonblank_lines,
    text_columns,
)
from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.csv_lines.quoted_fields import Record, UnescapedQuoteError, records_of, split_line
from flip27_source.readers.files.line_blocks import BLANKS, BOM, LineBlock, Place, as_array

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class LineRows:
    """The lines of a block that are neither blank nor comments."""

    def __init__(self, block: LineBlock, dialect: Dialect) -> None:
        self._block, self._dialect = block, dialect
        self._comment = dialect.comment.encode()
        data = block.data
        if self._comment and self._comment in data:
            data = re.sub(rb"(?m)^" + re.escape(self._comment) + rb"[^\n]*\n", b"", data)
        self._data = in_utf8(data, dialect.encoding)

    def columns(self, width: int) -> TextColumns:
        """The first ``width`` fields of each row."""
        try:
            return text_columns(self._data, self._dialect, width)
        except UnescapedQuoteError:
            raise self._refusal() from None

    def fields(self, row: int) -> list[str]:
        """All fields of a row; a field equal to the dialect's ``null_value`` is null."""
        line = self._lines[row].as_py()
        try:
            return split_line(line, self._dialect)
        except UnescapedQuoteError:
            raise _refusal(self.place(row), line) from None

    def records(self) -> pa.Array:
        """The original text of the rows, as strings without line ends."""
        return self._lines

    def place(self, row: int) -> Place:
        return self._block.place_of_line(self._numbers[row])

    def splits(self, rows: Sequence[int]) -> list[FileSplit]:
        return self._block.splits_of_lines(self._numbers[row] for row in rows)

    def _refusal(self) -> SplitReadError:
        """The error for the first line that the dialect refuses."""
        try:
            for row in range(len(self._lines)):
                self.fields(row)
        except SplitReadError as error:
            return error
        raise AssertionError("no line is refused")

    @cached_property
    def _lines(self) -> pa.Array:
        return nonblank_lines(self._data).view(pa.string())

    @cached_property
    def _numbers(self) -> list[int]:
        """The line number of each row; blank lines and comments are not rows."""
        comment = self._comment
        lines = enumerate(self._block.data.split(b"\n"))
        return [n for n, line in lines if line.strip(BLANKS) and not (comment and line.startswith(comment))]


class DocumentRows:
    """The records of a file, with the methods of LineRows."""

    def __init__(self, split: FileSplit, data: bytes, dialect: Dialect, *, drop_header: bool) -> None:
        self._split, self._dialect = split, dialect
        self._first = int(drop_header)
        self._data = in_utf8(data.removeprefix(BOM), dialect.encoding)

    def columns(self, width: int) -> TextColumns:
        texts = self._columns_by_arrow(width)
        if texts is None:
            rows = (record.fields for record in self._records)
            return columns_of_rows(rows, self._dialect, width)
        columns = [column[self._first :] for column in texts.columns]
        wrong_count = None if texts.wrong_count is None else texts.wrong_count[self._first :]
        return TextColumns(columns, wrong_count)

    def fields(self, row: int) -> list[str]:
        return self._records[row].fields

    def records(self) -> pa.Array:
        """The records, including the line ends inside them; null for a record that has no text."""
        text = self._text
        records = [
            _without_line_end(text[record.start : record.end]) if record.start < record.end else None
            for record in self._records
        ]
        return pa.array(records, pa.string())

    def place(self, row: int) -> Place:
        """The place of a record; byte positions count UTF-8, whatever the file's encoding is."""
        start = self._records[row].start
        return Place(self._split, len(self._text[:start].encode()))

    def splits(self, rows: Sequence[int]) -> list[FileSplit]:
        return [self._split] * len(rows)

    @cached_property
    def _text(self) -> str:
        return self._data.decode()

    @cached_property
    def _records(self) -> list[Record]:
        try:
            return list(records_of(self._text, self._dialect))[self._first :]
        except UnescapedQuoteError as error:
            before, record = self._text[: error.start], self._text[error.start :]
            raise _refusal(Place(self._split, len(before.encode())), record.partition("\n")[0]) from None

    def _columns_by_arrow(self, width: int) -> TextColumns | None:
        data = self._data
        if self._dialect.comment and self._dialect.comment.encode() in data:
            return None
        if data.count(b"\r\n") == data.count(b"\r") == data.count(b"\n"):
            data = data.replace(b"\r\n", b"\n")
        return document_columns(data if data.endswith(b"\n") else data + b"\n", self._dialect, width)


CsvRows: TypeAlias = LineRows | DocumentRows
"""Some rows, as texts."""


def _refusal(place: Place, text: str) -> SplitReadError:
    return SplitReadError(
        f"{place}: a quoted field has an unescaped quote: {quotation(text)}",
        remedy='escape the quote in the file, or set .option("unescapedQuoteHandling", "STOP_AT_DELIMITER")',
    )


def in_utf8(data: bytes, encoding: str) -> bytes:
    """``data`` as UTF-8, with invalid bytes replaced as Java does when it decodes a string."""
    if data.isascii():
        return data
    if encoding != "utf-8":
        return data.decode(encoding, errors="replace").encode()
    try:
        as_array(data).view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        # A surrogate half in three bytes is one error to Java and three to Python.
        return _SURROGATE.sub(b"\xff", data).decode(errors="replace").encode()
    return data


def _without_line_end(record: str) -> str:
    end = next((end for end in ("\r\n", "\n", "\r") if record.endswith(end)), "")
    return record.removesuffix(end)
