"""The options of Spark's JSON reader that allow syntax beyond the JSON standard."""

from __future__ import annotations

from typing import Any

from flip27_source.options import Option, Options, boolean
from flip27_source.readers.json_lines.strings import JsonDialect

COMMENTS = Option(
    name="allowComments", parse=boolean, default=False, doc="Allow Java and C++ style comments."
)
UNQUOTED_NAMES = Option(
    name="allowUnquotedFieldNames", parse=boolean, default=False, doc="Allow field names without quotes."
)
SINGLE_QUOTES = Option(
    name="allowSingleQuotes", parse=boolean, default=True, doc="Allow single quotes for names and strings."
)
LEADING_ZEROS = Option(
    name="allowNumericLeadingZeros", parse=boolean, default=False, doc="Allow leading zeros in numbers."
)
NON_NUMERIC_NUMBERS = Option(
    name="allowNonNumericNumbers",
    parse=boolean,
    default=True,
    doc="Allow NaN and Infinity as numbers, signed or unsigned, quoted or not.",
)
ANY_ESCAPE = Option(
    name="allowBackslashEscapingAnyCharacter",
    parse=boolean,
    default=False,
    doc="Allow a backslash before any character; the result is that character.",
)
CONTROL_CHARACTERS = Option(
    name="allowUnquotedControlChars",
    parse=boolean,
    default=False,
    doc="Allow tabs and other control characters in strings.",
)
JSON_DIALECT_OPTIONS: tuple[Option[Any], ...] = (
    COMMENTS, UNQUOTED_NAMES, SINGLE_QUOTES, LEADING_ZEROS, NON_NUMERIC_NUMBERS, ANY_ESCAPE,
    CONTROL_CHARACTERS,
)  # fmt: skip


def json_dialect(options: Options) -> JsonDialect:
    """The dialect that the options define."""
    return JsonDialect(
        comments=options[COMMENTS],
        unquoted_names=options[UNQUOTED_NAMES],
        single_quotes=options[SINGLE_QUOTES],
        leading_zeros=options[LEADING_ZEROS],
        words=options[NON_NUMERIC_NUMBERS],
        any_escape=options[ANY_ESCAPE],
        control_characters=options[CONTROL_CHARACTERS],
    )
