"""What a file of JSON may have that JSON has not, by the options of Spark's reader."""

from __future__ import annotations

from typing import Any

from flip27_source.options import Option, Options, boolean
from flip27_source.readers.json_lines.strings import JsonDialect

COMMENTS = Option(
    name="allowComments", parse=boolean, default=False, doc="Comments as in Java and C++ count for nothing."
)
UNQUOTED_NAMES = Option(
    name="allowUnquotedFieldNames", parse=boolean, default=False, doc="Names need no quotes."
)
SINGLE_QUOTES = Option(
    name="allowSingleQuotes", parse=boolean, default=True, doc="Names and strings may be in single quotes."
)
LEADING_ZEROS = Option(
    name="allowNumericLeadingZeros", parse=boolean, default=False, doc="Numbers may begin with zeros."
)
NON_NUMERIC_NUMBERS = Option(
    name="allowNonNumericNumbers",
    parse=boolean,
    default=True,
    doc="NaN and Infinity are numbers, with a sign too, and as strings.",
)
ANY_ESCAPE = Option(
    name="allowBackslashEscapingAnyCharacter",
    parse=boolean,
    default=False,
    doc="A backslash before any character stands for that character.",
)
CONTROL_CHARACTERS = Option(
    name="allowUnquotedControlChars",
    parse=boolean,
    default=False,
    doc="Strings may have tabs and other control characters in them.",
)
JSON_DIALECT_OPTIONS: tuple[Option[Any], ...] = (
    COMMENTS, UNQUOTED_NAMES, SINGLE_QUOTES, LEADING_ZEROS, NON_NUMERIC_NUMBERS, ANY_ESCAPE,
    CONTROL_CHARACTERS,
)  # fmt: skip


def json_dialect(options: Options) -> JsonDialect:
    """As the options say."""
    return JsonDialect(
        comments=options[COMMENTS],
        unquoted_names=options[UNQUOTED_NAMES],
        single_quotes=options[SINGLE_QUOTES],
        leading_zeros=options[LEADING_ZEROS],
        words=options[NON_NUMERIC_NUMBERS],
        any_escape=options[ANY_ESCAPE],
        control_characters=options[CONTROL_CHARACTERS],
    )
