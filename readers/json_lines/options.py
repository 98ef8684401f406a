"""The options of the json reader: malformed lines, documents, syntax beyond the JSON standard, inference.

The coordinator's process imports them. What must not live here: parsers, because their import takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flip27_source.options import Change, Option, Options, ReadingOption, boolean, one_of, text

if TYPE_CHECKING:
    from flip27_source.readers.json_lines.strings import JsonDialect

MODE = ReadingOption(
    name="mode",
    parse=one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    default="PERMISSIVE",
    doc="How to handle malformed lines: PERMISSIVE keeps the values that can be read, DROPMALFORMED "
    "drops the lines, FAILFAST stops the query.",
)
CORRUPT_RECORD_COLUMN = ReadingOption(
    name="columnNameOfCorruptRecord",
    parse=text,
    default="_corrupt_record",
    doc="String column for malformed lines in PERMISSIVE mode; filled only if the schema has the column.",
)
MULTI_LINE = ReadingOption(
    name="multiLine",
    parse=boolean,
    default=False,
    doc="Read each file as one JSON document: an object is one row, an array has one row per object. The "
    "whole document is held in memory, and reading is many times slower than reading lines.",
)
COMMENTS = ReadingOption(
    name="allowComments", parse=boolean, default=False, doc="Allow Java and C++ style comments."
)
UNQUOTED_NAMES = ReadingOption(
    name="allowUnquotedFieldNames", parse=boolean, default=False, doc="Allow field names without quotes."
)
SINGLE_QUOTES = ReadingOption(
    name="allowSingleQuotes", parse=boolean, default=True, doc="Allow single quotes for names and strings."
)
LEADING_ZEROS = ReadingOption(
    name="allowNumericLeadingZeros", parse=boolean, default=False, doc="Allow leading zeros in numbers."
)
NON_NUMERIC_NUMBERS = ReadingOption(
    name="allowNonNumericNumbers",
    parse=boolean,
    default=True,
    doc="Allow NaN and Infinity as numbers, signed or unsigned, quoted or not.",
)
ANY_ESCAPE = ReadingOption(
    name="allowBackslashEscapingAnyCharacter",
    parse=boolean,
    default=False,
    doc="Allow a backslash before any character; the result is that character.",
)
CONTROL_CHARACTERS = ReadingOption(
    name="allowUnquotedControlChars",
    parse=boolean,
    default=False,
    doc="Allow tabs and other control characters in strings.",
)
JSON_DIALECT_OPTIONS: tuple[Option[Any], ...] = (
    COMMENTS, UNQUOTED_NAMES, SINGLE_QUOTES, LEADING_ZEROS, NON_NUMERIC_NUMBERS, ANY_ESCAPE,
    CONTROL_CHARACTERS,
)  # fmt: skip

PRIMITIVES_AS_STRING = Option(
    name="primitivesAsString", parse=boolean, default=False,
    doc="Schema inference: numbers and booleans become strings.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)  # fmt: skip
PREFERS_DECIMAL = Option(
    name="prefersDecimal", parse=boolean, default=False,
    doc="Schema inference: numbers with a fraction become decimals if a decimal can hold them.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)  # fmt: skip
INFER_TIMESTAMP = Option(
    name="inferTimestamp", parse=boolean, default=False,
    doc="Schema inference: strings that hold timestamps become timestamps.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)  # fmt: skip
DROP_FIELD_IF_ALL_NULL = Option(
    name="dropFieldIfAllNull", parse=boolean, default=False,
    doc="Schema inference: fields that are always null or empty get no column.",
    changes=Change.IGNORED,
    change_note="once the schema is recorded",
)  # fmt: skip
JSON_INFERENCE_OPTIONS: tuple[Option[Any], ...] = (
    PRIMITIVES_AS_STRING, PREFERS_DECIMAL, INFER_TIMESTAMP, DROP_FIELD_IF_ALL_NULL,
)  # fmt: skip


def json_dialect(options: Options) -> JsonDialect:
    """The dialect that the options define."""
    from flip27_source.readers.json_lines.strings import JsonDialect

    return JsonDialect(
        comments=options[COMMENTS],
        unquoted_names=options[UNQUOTED_NAMES],
        single_quotes=options[SINGLE_QUOTES],
        leading_zeros=options[LEADING_ZEROS],
        words=options[NON_NUMERIC_NUMBERS],
        any_escape=options[ANY_ESCAPE],
        control_characters=options[CONTROL_CHARACTERS],
    )
