"""The options of the csv reader that describe the format of the files."""

from __future__ import annotations

from typing import Any

from flip27_source.errors import OptionError
from flip27_source.options import Option, Options, ReadingOption, boolean, one_of, optional
from flip27_source.readers.csv_lines.dialect import (
    BACK_TO_DELIMITER,
    RAISE_ERROR,
    SKIP_VALUE,
    STOP_AT_CLOSING_QUOTE,
    STOP_AT_DELIMITER,
    Dialect,
    character,
    comment_character,
)
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN, MODE, WholeFilesOption


def _separator(value: str) -> str:
    """A single ASCII character, or an escape such as ``\\t``."""
    known = {"\\t": "\t", "\\\\": "\\", "\\b": "\b", "\\f": "\f", '\\"': '"', "\\'": "'", "\\u0000": "\0"}
    value = known.get(value, value)
    if value == "":
        raise ValueError("a single ASCII character is expected, or \\t")
    return character(value)


def _encoding(value: str) -> str:
    known = {"utf8": "utf-8", "utf-8": "utf-8", "iso-8859-1": "iso-8859-1", "us-ascii": "us-ascii"}
    if value.strip().lower() not in known:
        raise ValueError("UTF-8, ISO-8859-1 or US-ASCII is expected; their lines end with a newline byte")
    return known[value.strip().lower()]


HEADER = ReadingOption(name="header", parse=boolean, doc="Skip the first line of each file.")
SEP: Option[str | None] = ReadingOption(
    name="sep", parse=optional(_separator), default_text=",", doc="Character that separates fields."
)
DELIMITER: Option[str | None] = ReadingOption(
    name="delimiter", parse=optional(_separator), default_text=",", doc="Alias of sep."
)
QUOTE = ReadingOption(
    name="quote", parse=character, default='"', doc="Quote character; empty for no quoting."
)
ESCAPE = ReadingOption(
    name="escape", parse=character, default="\\", doc="Character that escapes a quote in a quoted field."
)
NULL_VALUE = ReadingOption(name="nullValue", default="", doc="Text that means null.")
EMPTY_VALUE = ReadingOption(name="emptyValue", default="", doc="Value of an empty quoted field.")
ENFORCE_SCHEMA = ReadingOption(
    name="enforceSchema",
    parse=boolean,
    default=True,
    doc="false: fail if a header does not name the columns of the schema in the same order. Columns are "
    "always matched by position.",
)
COMMENT = ReadingOption(
    name="comment",
    parse=comment_character,
    default="",
    default_text="none",
    doc="Skip lines that start with this character.",
)
ENCODING: Option[str | None] = ReadingOption(
    name="encoding",
    parse=optional(_encoding),
    default_text="UTF-8",
    doc="Encoding of the files: UTF-8, ISO-8859-1 or US-ASCII.",
)
CHARSET: Option[str | None] = ReadingOption(
    name="charset",
    parse=optional(_encoding),
    default_text="UTF-8",
    doc="Alias of encoding; encoding takes precedence.",
)
MULTI_LINE = WholeFilesOption(
    name="multiLine",
    parse=boolean,
    doc="Allow line ends in quoted fields. Each file is then held in memory as a whole and not cut into "
    "ranges.",
)
LEADING_WHITE_SPACE = ReadingOption(
    name="ignoreLeadingWhiteSpace", parse=boolean, doc="Ignore white space before a field."
)
TRAILING_WHITE_SPACE = ReadingOption(
    name="ignoreTrailingWhiteSpace",
    parse=boolean,
    doc="Ignore white space after a field, except within quotes.",
)
UNESCAPED_QUOTES = ReadingOption(
    name="unescapedQuoteHandling",
    parse=one_of(STOP_AT_DELIMITER, STOP_AT_CLOSING_QUOTE, BACK_TO_DELIMITER, SKIP_VALUE, RAISE_ERROR),
    doc="How to read an unescaped quote inside quotes. STOP_AT_DELIMITER: the field ends at the next "
    "separator. STOP_AT_CLOSING_QUOTE: the quote is text, and the field ends at a quote before a separator. "
    "BACK_TO_DELIMITER: separators before the quote end fields, the quote is left out, and the last field "
    "ends at a quote before a separator. SKIP_VALUE: the field is null and ends at the next separator. "
    "RAISE_ERROR: the query fails. BACK_TO_DELIMITER and SKIP_VALUE lose text, as in Spark.",
)
ESCAPED_ESCAPE = ReadingOption(
    name="charToEscapeQuoteEscaping",
    default="",
    default_text="the escape character, if it is not the quote",
    doc="Character that makes a following escape character plain text.",
)
DIALECT_OPTIONS: tuple[Option[Any], ...] = (
    HEADER, SEP, DELIMITER, QUOTE, ESCAPE, NULL_VALUE, EMPTY_VALUE, COMMENT, ENCODING, CHARSET,
    ENFORCE_SCHEMA, MODE, CORRUPT_RECORD_COLUMN, MULTI_LINE, LEADING_WHITE_SPACE, TRAILING_WHITE_SPACE,
    UNESCAPED_QUOTES, ESCAPED_ESCAPE,
)  # fmt: skip


def dialect_of(options: Options) -> Dialect:
    sep = options[SEP] or options[DELIMITER] or ","
    quote, escape = options[QUOTE], options[ESCAPE]
    if sep in (quote, escape):
        raise OptionError(
            f"option sep is {sep!r}, which is also the quote or the escape character",
            remedy="use a separator that differs from quote and escape",
        )
    if options[COMMENT] == quote:
        raise OptionError(
            f"option comment is {quote!r}, which is also the quote character",
            remedy="set comment or quote to another character",
        )
    return Dialect(
        sep=sep,
        quote=quote,
        escape=escape,
        null_value=options[NULL_VALUE],
        empty_value=options[EMPTY_VALUE],
        skips_leading=options[LEADING_WHITE_SPACE],
        skips_trailing=options[TRAILING_WHITE_SPACE],
        unescaped_quotes=options[UNESCAPED_QUOTES],
        escapes_escape=options[ESCAPED_ESCAPE],
        comment=options[COMMENT],
        encoding=options[ENCODING] or options[CHARSET] or "utf-8",
    )
