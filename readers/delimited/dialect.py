"""The characters and words of a CSV file that have a meaning, and which lines Arrow's parser reads as Spark.

What the others are is in ``delimited_records``.
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
        skips_leading: white space before a field counts for nothing, before quotes too.
        skips_trailing: white space after a field that is not quoted counts for nothing.
        stops_at_delimiter: after a quote in the middle of quotes the rest of the field is text; False:
            it goes on to a quote that closes.
        escapes_escape: before an escape that is before a quote; empty: the escape itself, or none where
            quotes are doubled.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null_value: str = ""
    empty_value: str = ""
    skips_leading: bool = False
    skips_trailing: bool = False
    stops_at_delimiter: bool = True
    escapes_escape: str = ""

    @cached_property
    def escape_of_escape(self) -> str:
        """The character before an escape that takes its effect away."""
        return self.escapes_escape or (NONE if self.escape == self.quote else self.escape)

    @cached_property
    def escaped_escape(self) -> str:
        """An escape and what takes its effect away."""
        return self.escape + self.escape_of_escape

    @cached_property
    def keeps_blanks(self) -> bool:
        """True when white space around a field is part of it."""
        return not (self.skips_leading or self.skips_trailing)

    @property
    def is_for_arrow(self) -> bool:
        """True when Arrow's parser can read lines of it, if they are clean."""
        return self.keeps_blanks and not self.escapes_escape

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
        chars = {self.quote, self.escape, self.escape_of_escape}
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
