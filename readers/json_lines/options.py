"""The options of the json reader: documents, syntax beyond the JSON standard, inference.

The coordinator's process imports them. What must not live here: parsers, because their import takes time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flip27_source.options import Change, Option, Options, ReadingOption, boolean
from flip27_source.readers.files.text_options import WholeFilesOption

if TYPE_CHECKING:
    from flip27_source.readers.json_lines.strings import JsonDialect

MULTI_LINE = WholeFilesOption(
    name="multiLine",
    parse=boolean,
    doc="Read each file as one JSON document: an object is one row, an array has one row per object. The "
    "whole document is held in memory, and reading is many times slower than reading lines.",
)
_DIALECT: Mapping[str, Option[bool]] = {
    attribute: ReadingOption(name=name, parse=boolean, default=default, doc=doc)
    for attribute, name, default, doc in (
        ("comments", "allowComments", False, "Allow Java and C++ style comments."),
        ("unquoted_names", "allowUnquotedFieldNames", False, "Allow field names without quotes."),
        ("single_quotes", "allowSingleQuotes", True, "Allow single quotes for names and strings."),
        ("leading_zeros", "allowNumericLeadingZeros", False, "Allow leading zeros in numbers."),
        ("words", "allowNonNumericNumbers", True,
         "Allow NaN and Infinity as numbers, signed or unsigned, quoted or not."),
        ("any_escape", "allowBackslashEscapingAnyCharacter", False,
         "Allow a backslash before any character; the result is that character."),
        ("control_characters", "allowUnquotedControlChars", False,
         "Allow tabs and other control characters in strings."),
    )
}  # fmt: skip
"""The options of the dialect, by the attributes of ``JsonDialect``."""
JSON_DIALECT_OPTIONS: tuple[Option[Any], ...] = tuple(_DIALECT.values())


def _inference_option(name: str, doc: str) -> Option[bool]:
    return Option(
        name=name,
        parse=boolean,
        doc=f"Schema inference: {doc}",
        changes=Change.IGNORED,
        change_note="once the schema is recorded",
    )


PRIMITIVES_AS_STRING = _inference_option("primitivesAsString", "numbers and booleans become strings.")
PREFERS_DECIMAL = _inference_option(
    "prefersDecimal", "numbers with a fraction become decimals if a decimal can hold them."
)
INFER_TIMESTAMP = _inference_option("inferTimestamp", "strings that hold timestamps become timestamps.")
DROP_FIELD_IF_ALL_NULL = _inference_option(
    "dropFieldIfAllNull", "fields that are always null or empty get no column."
)
JSON_INFERENCE_OPTIONS: tuple[Option[Any], ...] = (
    PRIMITIVES_AS_STRING, PREFERS_DECIMAL, INFER_TIMESTAMP, DROP_FIELD_IF_ALL_NULL,
)  # fmt: skip


def json_dialect(options: Options) -> JsonDialect:
    from flip27_source.readers.json_lines.strings import JsonDialect

    return JsonDialect(**{attribute: options[option] for attribute, option in _DIALECT.items()})
