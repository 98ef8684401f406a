"""The options of the csv reader that say how files are written."""

from __future__ import annotations

from typing import Any

from flip27_source.errors import OptionError
from flip27_source.options import Option, Options, boolean, one_of, optional, text
from flip27_source.readers.delimited.dialect import NONE, Dialect


def _character(value: str) -> str:
    """A single ASCII character; empty for none."""
    if value == "":
        return NONE
    if len(value) != 1 or not value.isascii() or value in "\r\n":
        raise ValueError("a single ASCII character is expected")
    return value


def _separator(value: str) -> str:
    """A single ASCII character, or an escape such as ``\\t``."""
    known = {"\\t": "\t", "\\\\": "\\", "\\b": "\b", "\\f": "\f", '\\"': '"', "\\'": "'", "\\u0000": "\0"}
    value = known.get(value, value)
    if value == "":
        raise ValueError("a single ASCII character is expected, or \\t")
    return _character(value)


def _encoding(value: str) -> str:
    known = {"utf8": "utf-8", "utf-8": "utf-8", "iso-8859-1": "iso-8859-1", "us-ascii": "us-ascii"}
    if value.strip().lower() not in known:
        raise ValueError("UTF-8, ISO-8859-1 or US-ASCII is expected, in which lines end with a newline byte")
    return known[value.strip().lower()]


HEADER = Option(name="header", parse=boolean, default=False, doc="The first line of each file is left out.")
SEP: Option[str | None] = Option(
    name="sep",
    parse=optional(_separator),
    default=None,
    default_text=",",
    doc="Character between two fields.",
)
DELIMITER: Option[str | None] = Option(
    name="delimiter", parse=optional(_separator), default=None, default_text=",", doc="The same as sep."
)
QUOTE = Option(name="quote", parse=_character, default='"', doc="Character around a field; empty for none.")
ESCAPE = Option(
    name="escape", parse=_character, default="\\", doc="Character before a quote inside a quoted field."
)
NULL_VALUE = Option(name="nullValue", parse=text, default="", doc="Text that stands for null.")
EMPTY_VALUE = Option(name="emptyValue", parse=text, default="", doc="What an empty quoted field stands for.")
ENFORCE_SCHEMA = Option(
    name="enforceSchema",
    parse=boolean,
    default=True,
    doc="false: a header that does not name the columns of the schema, in their order, is an error. Columns "
    "go by position in any case.",
)
COMMENT = Option(
    name="comment",
    parse=_character,
    default=NONE,
    default_text="none",
    doc="Lines that begin with this character are left out.",
)
ENCODING: Option[str | None] = Option(
    name="encoding",
    parse=optional(_encoding),
    default=None,
    default_text="UTF-8",
    doc="Encoding of the files: UTF-8, ISO-8859-1 or US-ASCII.",
)
CHARSET: Option[str | None] = Option(
    name="charset",
    parse=optional(_encoding),
    default=None,
    default_text="UTF-8",
    doc="The same as encoding, which goes before it.",
)
MODE = Option(
    name="mode",
    parse=one_of("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    default="PERMISSIVE",
    doc="What happens to malformed lines: their bad values are null, they are left out, or the query fails.",
)
CORRUPT_RECORD = Option(
    name="columnNameOfCorruptRecord",
    parse=text,
    default="_corrupt_record",
    doc="Name of the string column that holds malformed lines, when the schema has it.",
)
MULTI_LINE = Option(
    name="multiLine",
    parse=boolean,
    default=False,
    doc="A record goes on after a line end in quotes. A file is read as a whole then, held in memory, and "
    "not cut.",
)
LEADING_WHITE_SPACE = Option(
    name="ignoreLeadingWhiteSpace",
    parse=boolean,
    default=False,
    doc="White space before a field counts for nothing.",
)
TRAILING_WHITE_SPACE = Option(
    name="ignoreTrailingWhiteSpace",
    parse=boolean,
    default=False,
    doc="White space after a field counts for nothing, unless it is in quotes.",
)
UNESCAPED_QUOTES = Option(
    name="unescapedQuoteHandling",
    parse=one_of("STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE"),
    default="STOP_AT_DELIMITER",
    doc="What a quote inside quotes that is not escaped does. STOP_AT_DELIMITER: what follows is text up to "
    "the next separator. STOP_AT_CLOSING_QUOTE: it is text, and the field goes on to a quote before a "
    "separator.",
)
ESCAPED_ESCAPE = Option(
    name="charToEscapeQuoteEscaping",
    parse=text,
    default="",
    default_text="the escape character, if it is not the quote",
    doc="Character before an escape character that is to be text.",
)
DIALECT_OPTIONS: tuple[Option[Any], ...] = (
    HEADER, SEP, DELIMITER, QUOTE, ESCAPE, NULL_VALUE, EMPTY_VALUE, COMMENT, ENCODING, CHARSET,
    ENFORCE_SCHEMA, MODE, CORRUPT_RECORD, MULTI_LINE, LEADING_WHITE_SPACE, TRAILING_WHITE_SPACE,
    UNESCAPED_QUOTES, ESCAPED_ESCAPE,
)  # fmt: skip


def dialect_of(options: Options) -> Dialect:
    """The characters and words with a meaning, as the options say.

    Raises:
        OptionError: one character has two meanings.
    """
    sep = options[SEP] or options[DELIMITER] or ","
    quote, escape = options[QUOTE], options[ESCAPE]
    if sep in (quote, escape):
        raise OptionError(
            f"option sep is {sep!r}, which is also the quote or the escape character",
            remedy="use three different characters, or the same for quote and escape",
        )
    if quote != NONE and options[COMMENT] == quote:
        raise OptionError(
            f"option comment is {quote!r}, which is also the quote character",
            remedy="use another character for comments, or another one as quote",
        )
    return Dialect(
        sep=sep,
        quote=quote,
        escape=escape,
        null_value=options[NULL_VALUE],
        empty_value=options[EMPTY_VALUE],
        skips_leading=options[LEADING_WHITE_SPACE],
        skips_trailing=options[TRAILING_WHITE_SPACE],
        stops_at_delimiter=options[UNESCAPED_QUOTES] == "STOP_AT_DELIMITER",
        escapes_escape=options[ESCAPED_ESCAPE],
    )


def comment_of(options: Options) -> bytes:
    """How lines begin that are comments; empty where none are."""
    return b"" if options[COMMENT] == NONE else options[COMMENT].encode()


def encoding_of(options: Options) -> str:
    """Python's name of the encoding of the files."""
    return options[ENCODING] or options[CHARSET] or "utf-8"
