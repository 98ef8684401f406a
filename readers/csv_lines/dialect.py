"""Characters and words with a meaning in a CSV file, and the lines that Arrow's parser reads as Spark does.

``quoted_fields`` splits all other lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

NONE = "\0"
"""The quote or escape character of a dialect without one."""
STOP_AT_DELIMITER: Final = "STOP_AT_DELIMITER"
STOP_AT_CLOSING_QUOTE: Final = "STOP_AT_CLOSING_QUOTE"
BACK_TO_DELIMITER: Final = "BACK_TO_DELIMITER"
SKIP_VALUE: Final = "SKIP_VALUE"
RAISE_ERROR: Final = "RAISE_ERROR"


def character(value: str) -> str:
    """The character that an option sets; empty means ``NONE``."""
    if value == "":
        return NONE
    if len(value) != 1 or not value.isascii() or value in "\r\n":
        raise ValueError("a single ASCII character is expected")
    return value


def comment_character(value: str) -> str:
    """The character that starts comments; empty for none."""
    return character(value).strip(NONE)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The characters and words with a meaning.

    Attributes:
        quote: around a field; ``NONE`` turns quoting off.
        escape: before a quote inside a quoted field.
        null_value: text that means null; an empty unquoted field also means null.
        empty_value: the value of an empty quoted field.
        skips_leading: ignore white space before a field, also before a quote.
        skips_trailing: ignore white space after an unquoted field.
        unescaped_quotes: how to read an unescaped quote inside quotes. STOP_AT_DELIMITER: the field ends at
            the next separator. STOP_AT_CLOSING_QUOTE: the field continues to a closing quote.
            BACK_TO_DELIMITER: each separator before the quote ends a field, and the last of these fields
            continues to a closing quote. SKIP_VALUE: the field is null. RAISE_ERROR: the record is refused.
        escapes_escape: before an escape that comes before a quote. Empty: the escape itself, or no such
            character if quotes are doubled.
        comment: starts a line that is not a record; empty if there are no such lines.
        encoding: Python's name for the encoding of the files.
    """

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null_value: str = ""
    empty_value: str = ""
    skips_leading: bool = False
    skips_trailing: bool = False
    unescaped_quotes: str = STOP_AT_DELIMITER
    escapes_escape: str = ""
    comment: str = ""
    encoding: str = "utf-8"

    @cached_property
    def escape_of_escape(self) -> str:
        """The character that makes a following escape plain text."""
        return self.escapes_escape or (NONE if self.escape == self.quote else self.escape)

    @cached_property
    def keeps_blanks(self) -> bool:
        """True if white space around a field is part of it."""
        return not (self.skips_leading or self.skips_trailing)

    @cached_property
    def stops_at_delimiter(self) -> bool:
        """True if text after a closing quote and white space ends at the next separator."""
        return self.unescaped_quotes in (STOP_AT_DELIMITER, BACK_TO_DELIMITER)

    @property
    def is_for_arrow(self) -> bool:
        """True if Arrow's parser can read the clean lines of this dialect."""
        return self.keeps_blanks and not self.escapes_escape

    @property
    def doubles_quotes(self) -> bool:
        """True if a quote inside a quoted field is doubled."""
        return self.quote == self.escape != NONE

    @property
    def nul_is_special(self) -> bool:
        """True if Spark may read a NUL as a quote, an escape character or the character before a quote."""
        return self.doubles_quotes or NONE in (self.quote, self.escape)

    @property
    def empty_quotes_are_clean(self) -> bool:
        """True if Arrow's parser reads an empty quoted field exactly as Spark does.

        Arrow treats it as an unquoted field, which is right only if both mean the same. Without an escape
        character, Spark reads it as a quote at the end of a line.
        """
        return self.null_value == self.empty_value and self.escape != NONE

    @cached_property
    def stops(self) -> re.Pattern[str]:
        """Pattern of the characters that end a run of ordinary characters inside quotes."""
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
        """Pattern of any number of lines of clean fields, each ending in a newline."""
        return rf"\A(?:{self.clean_field}[{_escaped(self.sep)}\n])*\z"

    def clean_line(self, fields: int) -> str:
        """Pattern of one line of ``fields`` clean fields."""
        more = rf"(?:{_escaped(self.sep)}{self.clean_field}){{{fields - 1}}}" if fields > 1 else ""
        return rf"\A{self.clean_field}{more}\z"


def _escaped(char: str) -> str:
    return rf"\x{ord(char):02x}"
