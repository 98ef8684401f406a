"""Splits CSV records into fields by Spark's rules, where Arrow's parser cannot be used.

Spark's tokenizer (univocity) hardly ever refuses a record, so its result for broken quotes is part of the
format. A line is a document of one record, also in a file that is cut into ranges: ranges end at line ends,
whatever the quotes (``ranges_and_quotes``). What must not live here: the meaning of the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from flip27_source.readers.csv_lines.dialect import BACK_TO_DELIMITER, NONE, RAISE_ERROR, SKIP_VALUE, Dialect
from flip27_source.readers.scalars.texts import JAVA_BLANKS

_END = "\n"
"""The tokenizer's representation of every line end."""
_NOT_BLANK = re.compile(r"[^\x00-\x20]")
_FIRST_LINE_END = re.compile("\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a document.

    Attributes:
        fields: a field equal to the dialect's ``null_value`` is null.
        start, end: the record's position in the text, including its line end.
    """

    fields: list[str]
    start: int
    end: int


class UnescapedQuoteError(ValueError):
    """A quoted field has an unescaped quote, which the dialect refuses.

    Attributes:
        start: the position in the text where the record starts.
    """

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def split_line(line: str, dialect: Dialect) -> list[str]:
    """The fields of one non-blank line. Fields equal to ``dialect.null_value`` are nulls.

    Raises:
        UnescapedQuoteError: only with RAISE_ERROR.
    """
    if dialect.keeps_blanks and dialect.quote not in line:
        return [field or dialect.null_value for field in line.split(dialect.sep)]
    return _Tokenizer(line, dialect, _END).record()


def records_of(text: str, dialect: Dialect) -> Iterator[Record]:
    """The records of a document, which may have line ends in quotes; empty lines are not records.

    The first line end, even one in quotes, defines the line end of the document.

    Raises:
        UnescapedQuoteError: only with RAISE_ERROR.
    """
    first = _FIRST_LINE_END.search(text)
    return _Tokenizer(text, dialect, first[0] if first else _END).records()


class _EndOfTextError(Exception):
    """The text ends within a field."""


class _Tokenizer:
    """Reads simple fields as a whole, and other fields character by character.

    The meaning of a character depends on the previous one (``before``): a quote may close the field, an
    escape may be plain text. ``NONE`` means that the previous character has no special meaning.
    """

    def __init__(self, text: str, dialect: Dialect, line_end: str) -> None:
        self._text = text
        self._dialect = dialect
        self._sep, self._quote, self._escape = dialect.sep, dialect.quote, dialect.escape
        self._line_end = line_end
        self._escape_of_escape = dialect.escape_of_escape
        self._escaped_escape = dialect.escape + dialect.escape_of_escape
        self._stops = dialect.stops
        self._is_simple = dialect.keeps_blanks
        self._no_simple = (dialect.quote,) if line_end == _END else (dialect.quote, _END)
        self._line_stop = -1
        self._next_at = 0
        self._char = self._before = NONE
        self._field: list[str] = []
        self._fields: list[str] = []
        self._ended: list[str] | None = None
        self._start = 0
        self._without_sep = 0
        self._trims = self._has_stray_quote = self._is_skipped = False

    def records(self) -> Iterator[Record]:
        comment = self._dialect.comment
        while self._next_at < len(self._text):
            start = self._next_at
            if comment and self._text.startswith(comment, start):
                self._next_at = min(self._line_stop_from(start) + len(self._line_end), len(self._text))
            elif fields := self.record():
                yield Record(fields, start, self._next_at)
        if self._fields:
            yield Record(self._fields, self._next_at, self._next_at)

    def record(self) -> list[str]:
        """The fields of the next record; empty if the line is empty.

        With BACK_TO_DELIMITER, a line end inside quotes can end a record. The fields after it then come
        before the fields of the next line, as in Spark.
        """
        self._start = self._next_at
        try:
            self._next()
            self._record()
        except _EndOfTextError:
            self._at_end_of_text()
        if self._ended is not None:
            fields, self._ended = self._ended, None
        else:
            fields, self._fields = self._fields, []
        return fields

    def _next(self) -> None:
        if self._next_at >= len(self._text):
            raise _EndOfTextError
        self._char = self._text[self._next_at]
        self._next_at += 1
        if self._char == self._line_end[0] and self._text.startswith(self._line_end, self._next_at - 1):
            self._next_at += len(self._line_end) - 1
            self._char = _END

    def _line_stop_from(self, at: int) -> int:
        """The end of the line that contains ``at``; cached, so each text is searched only once."""
        if self._line_stop < at:
            stop = self._text.find(self._line_end, at)
            self._line_stop = len(self._text) if stop < 0 else stop
        return self._line_stop

    def _is_at_end(self) -> bool:
        return self._char in (self._sep, _END)

    def _record(self) -> None:
        self._skip_leading()
        while self._char != _END:
            if self._is_simple:
                self._take_simple_fields()
                if self._char == _END:
                    return
            else:
                self._skip_leading()
            if self._is_at_end():
                self._fields.append(self._dialect.null_value)
            else:
                self._value()
            if self._char != _END:
                self._next()
                if self._char == _END:
                    self._fields.append(self._dialect.null_value)

    def _take_simple_fields(self) -> None:
        """Take fields without quotes, except the last of the record unless it is empty."""
        text, sep, at = self._text, self._sep, self._next_at - 1
        line_stop = self._line_stop_from(at)
        begun = at
        while not text.startswith(self._no_simple, at):
            end = text.find(sep, at, line_stop)
            if end < 0:
                break
            self._fields.append(text[at:end] or self._dialect.null_value)
            at = end + 1
        if at == begun:
            return
        self._char, self._before, self._next_at = sep, NONE, at
        self._next()
        if self._char == _END:
            self._fields.append(self._dialect.null_value)

    def _skip_leading(self) -> None:
        if self._dialect.skips_leading:
            while self._char <= " " and not self._is_at_end() and self._char != self._quote:
                self._next()

    def _value(self) -> None:
        """Read a value and the character after it."""
        self._has_stray_quote = self._is_skipped = False
        self._without_sep = 0
        self._before = NONE
        if self._char == self._quote:
            if not self._read_plain_quoted():
                self._trims = False
                while self._continues_inside_quotes():
                    pass
                self._close_field()
        elif not self._read_plain():
            self._trims = self._dialect.skips_trailing
            self._take_rest()
            self._close_field()

    def _read_plain(self) -> bool:
        """Take a field without quotes, unless it ends with the text; True if it was taken."""
        start = self._next_at - 1
        stop = self._line_stop_from(start)
        end = self._text.find(self._sep, start, stop)
        if end < 0:
            if stop + 1 >= len(self._text):
                return False
            end = stop
        value = self._text[start:end]
        if self._dialect.skips_trailing:
            value = value.rstrip(JAVA_BLANKS)
        self._fields.append(value or self._dialect.null_value)
        self._next_at = end
        self._next()
        return True

    def _read_plain_quoted(self) -> bool:
        """Take a simple quoted field that does not end the text; True if it was taken."""
        text, start, quote = self._text, self._next_at, self._quote
        close = text.find(quote, start)
        if close < 0 or text[close - 1] == self._escape:
            return False
        following = text[close + 1 : close + 2]
        if not following or following not in (self._sep, _END):
            return False
        value = text[start:close]
        if self._escaped_escape in value or self._line_end in value:
            return False
        self._fields.append(value or self._dialect.empty_value)
        self._next_at = close + 1
        self._next()
        return True

    def _close_field(self) -> None:
        if self._is_skipped:
            self._fields.append(self._dialect.null_value)
            self._field = []
            return
        value = "".join(self._field)
        if self._trims:
            value = value.rstrip(JAVA_BLANKS)
        self._fields.append(value or self._dialect.empty_value)
        self._field = []

    def _at_end_of_text(self) -> None:
        closed = self._char == self._quote == self._before
        if self._char == self._quote and not closed and not self._has_stray_quote:
            self._field.append(self._quote)
        has_value = closed or (self._before != NONE and not self._is_at_end())
        self._char = self._before = NONE
        if has_value or self._field:
            self._close_field()
        else:
            self._fields.append(self._dialect.null_value)

    def _take_rest(self) -> None:
        """Take everything up to the end of the field as text."""
        text, start = self._text, self._next_at - 1
        stop = self._line_stop_from(start)
        end = text.find(self._sep, start, stop)
        if end < 0:
            end = stop
        if self._line_end != _END and (newline := text.find(_END, start, end)) >= 0:
            end = newline
        if end == len(text):
            self._field.append(text[start:])
            self._next_at = len(text)
            raise _EndOfTextError
        self._field.append(text[start:end])
        self._next_at = end
        self._next()

    def _continues_inside_quotes(self) -> bool:
        """Read to a possible end of the field; True if the field continues within its quotes."""
        self._next()
        while not (self._before == self._quote and (self._char <= " " or self._is_at_end())):
            if self._char in (self._quote, self._escape):
                if self._is_escape_after_quote():
                    self._escape_after_quote()
                self._before = self._char
                self._next()
                if self._has_stray_quote and self._is_at_end():
                    return False
                continue
            if self._before == self._quote:
                return self._continues_after_unescaped_quote()
            if self._before == self._escape != NONE:
                self._field.append(self._escape)
            self._run()
            self._before = self._char
            self._next()
        return not self._is_at_end() and self._continues_after_closing_quote()

    def _continues_after_unescaped_quote(self) -> bool:
        self._has_stray_quote = True
        handling = self._dialect.unescaped_quotes
        if handling in (SKIP_VALUE, RAISE_ERROR):
            self._skip_value()
            return False
        if handling == BACK_TO_DELIMITER:
            self._end_fields_before()
            self._before = NONE
            return True
        self._field += (self._quote, self._char)
        return self._continues_after_stray_quote()

    def _skip_value(self) -> None:
        """Read to the end of a field that is null, or refuse the field if unescaped quotes are errors."""
        if self._dialect.unescaped_quotes == RAISE_ERROR:
            raise UnescapedQuoteError(self._start)
        self._is_skipped = True
        self._take_rest()

    def _end_fields_before(self) -> None:
        """End fields at separators and line ends in the text so far; the rest and the character stay."""
        new = "".join(self._field[self._without_sep :])
        sep = self._sep
        if sep in new or _END in new:
            new = "".join(self._field[: self._without_sep]) + new
            start = 0
            for at, char in enumerate(new):
                if char in (sep, _END):
                    self._fields.append(new[start:at])
                    start = at + 1
                    if char == _END and self._ended is None:
                        self._ended, self._fields = self._fields, []
            self._field = [new[start:]]
        self._field.append(self._char)
        self._without_sep = len(self._field)

    def _continues_after_closing_quote(self) -> bool:
        """Ignore white space after the closing quote, unless other text follows.

        True if the field continues within its quotes.
        """
        blanks: list[str] = []
        while self._char <= " " and not self._is_at_end():
            blanks.append(self._char)
            self._next()
        if not self._is_at_end():
            if self._dialect.unescaped_quotes == RAISE_ERROR:
                raise UnescapedQuoteError(self._start)
            self._field += (self._quote, *blanks)
            if self._dialect.stops_at_delimiter or self._char not in (self._quote, self._escape):
                self._field.append(self._char)
            return self._continues_after_stray_quote()
        return False

    def _continues_after_stray_quote(self) -> bool:
        """Handle a quote that does not close the field; True if the field continues within its quotes."""
        self._before = self._char
        if self._dialect.unescaped_quotes == SKIP_VALUE and self._before != NONE:
            self._skip_value()
            return False
        if self._dialect.stops_at_delimiter and self._before != NONE:
            self._field.insert(0, self._quote)
            self._next()
            self._trims = self._dialect.skips_trailing
            self._take_rest()
            return False
        return True

    def _run(self) -> None:
        """Take ordinary characters up to the next quote or escape."""
        start = self._next_at - 1
        if self._char == _END:  # normalized, not as in the text
            self._field.append(_END)
            start = self._next_at
        stop = self._stops.search(self._text, start)
        ordinary = self._text[start : stop.start() if stop else None]
        if self._line_end != _END:
            ordinary = ordinary.replace(self._line_end, _END)
        self._field.append(ordinary)
        if stop is None:
            self._next_at = len(self._text)
            raise _EndOfTextError
        self._next_at = stop.end()
        self._char = stop[0]

    def _is_escape_after_quote(self) -> bool:
        """Take a quote or an escape; its meaning depends on the character before or after it.

        True for an escape after a quote, which is not taken.
        """
        if self._char == self._escape and self._before == self._escape_of_escape != NONE:
            self._field.append(self._escape)
            self._char = NONE
        elif self._before == self._escape:
            if self._char == self._quote:
                self._field.append(self._quote)
                self._char = NONE
            else:
                self._field.append(self._before)
        elif self._char == self._quote == self._before:
            self._field.append(self._quote)
        else:
            return self._before == self._quote
        return False

    def _escape_after_quote(self) -> None:
        """After a quote and an escape, take the field up to the delimiter; escapes keep their meaning.

        Each further escape after a quote makes one more delimiter part of the text.
        """
        if self._dialect.unescaped_quotes in (SKIP_VALUE, RAISE_ERROR):
            self._skip_value()
            return
        self._field.append(self._quote)
        self._before = self._char
        delimiters = 1
        while True:
            if self._is_at_end():
                delimiters -= 1
                if not delimiters:
                    return
            elif self._char in (self._quote, self._escape):
                if self._is_escape_after_quote():
                    delimiters += 1
                    self._field.append(self._quote)
                    self._before = self._char
                    continue
            elif self._before == self._quote:
                self._field.append(self._quote)
                self._before = self._char
                continue
            else:
                self._field.append(self._char)
            self._before = self._char
            self._next()
