"""How one line of a CSV file is cut into fields: Spark's rules, for lines too odd for Arrow's parser.

Spark's tokenizer (univocity, stopping unescaped quotes at the delimiter) is forgiving: it never refuses a
line, so what it makes of broken quotes is part of the format here. ``Dialect`` also says which lines are
not odd at all. What the fields mean is not known here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

NONE = "\0"
"""Quote or escape character of a dialect that has none."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The characters and words with a meaning.

    Attributes:
        sep: between two fields.
        quote: around a field; ``NONE`` turns quoting off.
        escape: before a quote inside a quoted field.
        null_value: text that stands for null; an unquoted field without a character is null too.
        empty_value: what a quoted field without a character stands for.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null_value: str = ""
    empty_value: str = ""

    @property
    def doubles_quotes(self) -> bool:
        """True when a quote inside a quoted field is written twice."""
        return self.quote == self.escape != NONE

    @property
    def nul_is_special(self) -> bool:
        """True when Spark may take a NUL for a quote, an escape character or what was before a quote."""
        return self.doubles_quotes or NONE in (self.quote, self.escape)

    @property
    def empty_quotes_are_clean(self) -> bool:
        """True when Arrow's parser reads a quoted field without a character exactly as Spark does.

        It takes it for an unquoted one, which is only right when both mean the same; without an escape
        character Spark takes it for a quote at the end of a line.
        """
        return self.null_value == self.empty_value and self.escape != NONE

    @cached_property
    def stops(self) -> re.Pattern[str]:
        """What ends a run of ordinary characters inside quotes."""
        chars = {self.quote, self.escape, NONE if self.doubles_quotes else self.escape}
        return re.compile("[" + "".join(map(_escaped, sorted(chars))) + "]")

    @cached_property
    def clean_field(self) -> str:
        """Pattern (RE2, on bytes) of a field that Arrow's parser reads exactly as Spark does."""
        sep, quote, escape = (_escaped(char) for char in (self.sep, self.quote, self.escape))
        nul = r"\x00" if self.nul_is_special else ""
        bare = rf"(?:[^{sep}\n{quote}{nul}][^{sep}\n{nul}]*)?"
        if self.quote == NONE:
            return bare
        if self.doubles_quotes:
            inside = rf"(?:[^{quote}\n{nul}]|{quote}{quote})"
        elif self.escape == NONE:
            inside = rf"[^{quote}\n{nul}]"
        else:
            inside = rf"(?:[^{quote}\n{escape}{nul}]|{escape}[^{quote}\n{escape}{nul}])"
        count = "*" if self.empty_quotes_are_clean else "+"
        return f"(?:{bare}|{quote}{inside}{count}{quote})"

    @cached_property
    def clean_lines(self) -> str:
        """Pattern of any number of lines, each ended by a newline, of clean fields."""
        return rf"\A(?:{self.clean_field}[{_escaped(self.sep)}\n])*\z"

    def clean_line(self, fields: int) -> str:
        """Pattern of one line of ``fields`` clean fields."""
        more = rf"(?:{_escaped(self.sep)}{self.clean_field}){{{fields - 1}}}" if fields > 1 else ""
        return rf"\A{self.clean_field}{more}\z"


def _escaped(char: str) -> str:
    return rf"\x{ord(char):02x}"


def split_line(line: str, dialect: Dialect) -> list[str]:
    """The fields of one line that is not blank. Fields equal to ``dialect.null_value`` are nulls."""
    fields: list[str] = []
    position = 0
    while True:
        if line.startswith(dialect.quote, position):
            quoted = _QuotedField(line, position, dialect)
            fields.append(quoted.read())
            end = quoted.end
        else:
            end = line.find(dialect.sep, position)
            fields.append(line[position : None if end < 0 else end] or dialect.null_value)
        if end < 0:
            return fields
        position = end + 1


class _EndOfLineError(Exception):
    """The line is over in the middle of a field."""


class _QuotedField:
    """A field that starts with a quote, read character by character.

    What a character does depends on the one before it (``before``): a quote may be the closing one, an
    escape may be just itself. ``NONE`` as ``before`` means that nothing special came before.

    Attributes:
        end: position of the delimiter after the field, or -1 when the line ends with it.
    """

    def __init__(self, line: str, position: int, dialect: Dialect) -> None:
        self._line = line
        self._sep, self._quote, self._escape = dialect.sep, dialect.quote, dialect.escape
        self._dialect = dialect
        # An escape is escaped by itself, unless it is the quote: then two of them are a quote.
        self._escape_of_escape = NONE if self._escape == self._quote else self._escape
        self._stops = dialect.stops
        self._at = position
        self._char = self._quote
        self._before = NONE
        self._text: list[str] = []
        self._quotes_are_text = False
        self.end = -1

    def read(self) -> str:
        """The text of the field; sets ``end``."""
        text = self._plain()
        if text is None:
            try:
                self._inside_quotes()
            except _EndOfLineError:
                return self._at_end_of_line()
            self.end = self._at
            text = "".join(self._text)
        return text or self._dialect.empty_value

    def _plain(self) -> str | None:
        """The text when nothing in it needs a closer look and a delimiter follows."""
        start = self._at + 1
        close = self._line.find(self._quote, start)
        if (
            close < 0
            or not self._line.startswith(self._sep, close + 1)
            or self._line[close - 1] == self._escape
        ):
            return None
        text = self._line[start:close]
        if self._escape != self._quote and self._escape * 2 in text:
            return None
        self.end = close + 1
        return text

    def _at_end_of_line(self) -> str:
        closed = self._char == self._quote == self._before
        if self._char == self._quote and not closed and not self._quotes_are_text:
            self._text.append(self._quote)
        has_value = closed or (self._before != NONE and self._char != self._sep)
        empty = self._dialect.empty_value if has_value else self._dialect.null_value
        return "".join(self._text) or empty

    def _next(self) -> None:
        if self._at + 1 >= len(self._line):
            raise _EndOfLineError
        self._at += 1
        self._char = self._line[self._at]

    def _inside_quotes(self) -> None:
        self._next()
        while not (self._before == self._quote and (self._char <= " " or self._char == self._sep)):
            if self._char in (self._quote, self._escape):
                self._special()
            elif self._before == self._quote:
                self._quotes_are_text = True
                self._text += (self._quote, self._char)
                self._to_delimiter()
                return
            else:
                if self._before == self._escape != NONE:
                    self._text.append(self._escape)
                self._run()
            self._before = self._char
            self._next()
        if self._char != self._sep:
            self._after_closing_quote()

    def _after_closing_quote(self) -> None:
        """White space after the closing quote counts for nothing, unless more than it follows."""
        blanks: list[str] = []
        while self._char <= " " and self._char != self._sep:
            blanks.append(self._char)
            self._next()
        if self._char != self._sep:
            self._text += (self._quote, *blanks, self._char)
            self._to_delimiter()

    def _to_delimiter(self) -> None:
        """The quote that opened the field was text after all, and so is everything up to the delimiter."""
        self._text.insert(0, self._quote)
        self._before = self._char
        self._next()
        end = self._line.find(self._sep, self._at)
        self._text.append(self._line[self._at : None if end < 0 else end])
        if end < 0:
            raise _EndOfLineError
        self._at = end
        self._char = self._sep

    def _run(self) -> None:
        """Ordinary characters, up to the next that may not be."""
        stop = self._stops.search(self._line, self._at)
        self._text.append(self._line[self._at : stop.start() if stop else None])
        if stop is None:
            raise _EndOfLineError
        self._at = stop.start()
        self._char = stop[0]

    def _special(self) -> None:
        """A quote or an escape; it takes effect with the character before it or the one after."""
        if self._char == self._escape and self._before == self._escape_of_escape != NONE:
            self._text.append(self._escape)
            self._char = NONE
        elif self._before == self._escape:
            if self._char == self._quote:
                self._text.append(self._quote)
                self._char = NONE
            else:
                self._text.append(self._before)
        elif self._char == self._quote == self._before:
            self._text.append(self._quote)
        elif self._before == self._quote:
            self._escape_after_quote()

    def _escape_after_quote(self) -> None:
        """After a quote and an escape the field goes on to the delimiter, escapes still in force."""
        self._text.append(self._quote)
        self._before = self._char
        while self._char != self._sep:
            if self._char in (self._quote, self._escape):
                self._special()
            elif self._before == self._quote:
                self._escape_after_quote()
                return
            else:
                self._text.append(self._char)
            self._before = self._char
            self._next()
