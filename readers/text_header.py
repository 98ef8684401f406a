"""Headers of text files: which line is one, and how the schema says that they were left out.

A header is the first line of a file that is neither blank nor a comment, as in Spark's CSV reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from flip27_source.errors import OptionError, SchemaError
from flip27_source.header_comment import header_comment, header_in
from flip27_source.options import Option, Options, boolean
from flip27_source.readers.delimited.dialect import NONE
from flip27_source.readers.delimited.options import COMMENT as CSV_COMMENT

HEADER = Option(
    name="header",
    parse=boolean,
    default=False,
    doc="The first line of each file that is not blank is left out, with the blank ones before it. "
    "flip27_source.parsed(..., header=True) needs it.",
)
COMMENT = Option(
    name="comment",
    parse=CSV_COMMENT.parse,
    default=NONE,
    default_text="none",
    doc="With header: lines that begin with this character are not the header; those before it are left out.",
)
_SPARKS_KEY = b"SPARK::metadata::json"
"""Where PySpark keeps the metadata of a column in an Arrow field."""


def header_options(wholetext: bool, options: Options) -> tuple[bool, bytes]:
    """Whether headers are left out, and how lines begin that are not taken for one.

    Raises:
        OptionError: files are read whole.
    """
    if options[HEADER] and wholetext:
        raise OptionError(
            "options header and wholetext are both true, and a file that is one row has no header line",
            remedy="leave one of them out",
        )
    comment = options[COMMENT]
    return options[HEADER], b"" if comment == NONE else comment.encode()


def commented(field: pa.Field, options: Options) -> pa.Field:
    """The text column, with a comment where headers are left out."""
    if not options[HEADER]:
        return field
    comment = header_comment("" if options[COMMENT] == NONE else options[COMMENT])
    return field.with_metadata({_SPARKS_KEY: json.dumps({"comment": comment})})


def check_comment(field: pa.Field, options: Options) -> None:
    """Check that a column whose comment says that headers are left out is read so.

    Raises:
        SchemaError: the options say something else.
    """
    told = _comment_of(field)
    if told is None or header_in(told) is None:
        return
    actual = _comment_of(commented(field.remove_metadata(), options))
    if told != actual:
        raise SchemaError(
            f"the comment of the column {field.name} in the schema is {told!r}, and the options of the text "
            + ("reader do not set header" if actual is None else f"reader say {actual!r}"),
            remedy="make the comment and the options header and comment of the stream agree",
        )


def _comment_of(field: pa.Field) -> str | None:
    metadata: Any = json.loads((field.metadata or {}).get(_SPARKS_KEY, b"{}"))
    comment = metadata.get("comment")
    return comment if isinstance(comment, str) else None


def without_header(texts: Iterable[pa.Array], comment: bytes) -> Iterator[pa.Array]:
    """The lines of a file without the first one that is neither blank nor a comment, and those before it."""
    is_passed = _passed(comment)
    header_due = True
    for lines in texts:
        if header_due:
            at = next((at for at, line in enumerate(lines) if not is_passed(line.as_py())), None)
            if at is None:
                continue
            header_due = False
            lines = lines[at + 1 :]
        yield lines


def _passed(comment: bytes) -> Callable[[bytes], bool]:
    blanks = bytes(range(0x21))  # as Java's String.trim sees them
    return lambda line: not line.strip(blanks) or (bool(comment) and line.startswith(comment))
