"""Headers of text files: finding them, and the comment in the schema that says they were skipped.

A header is the first line of a file that is neither blank nor a comment, as in Spark's CSV reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from flip27_source.errors import OptionError, SchemaError
from flip27_source.options import Options, ReadingOption, boolean
from flip27_source.readers.csv_lines.dialect import comment_character
from flip27_source.readers.files.line_blocks import BLANKS
from flip27_source.schemas.column_comments import comment_of, commented, header_comment, header_in

HEADER = ReadingOption(
    name="header",
    parse=boolean,
    doc="Skip the first non-blank line of each file and the blank lines before it. "
    "flip27_source.parsed(..., header=True) requires this option.",
)
COMMENT = ReadingOption(
    name="comment",
    parse=comment_character,
    default="",
    default_text="none",
    doc="With header: lines that start with this character are not the header; those before it are skipped.",
)


def header_options(wholetext: bool, options: Options) -> tuple[bool, bytes]:
    """Whether headers are skipped, and the prefix of lines that are not a header."""
    if options[HEADER] and wholetext:
        raise OptionError(
            "options header and wholetext are both true, but a file that is one row has no header line",
            remedy="remove one of the two options",
        )
    return options[HEADER], options[COMMENT].encode()


def with_header_comment(field: pa.Field, options: Options) -> pa.Field:
    """The text column, with a comment if headers are skipped."""
    return commented(field, header_comment(options[COMMENT])) if options[HEADER] else field


def check_comment(field: pa.Field, options: Options) -> None:
    """Check that the options agree with a column's comment about skipped headers."""
    declared = comment_of(field)
    if declared is None or header_in(declared) is None:
        return
    actual = comment_of(with_header_comment(field.remove_metadata(), options))
    if declared != actual:
        raise SchemaError(
            f"the comment of the column {field.name} in the schema is {declared!r}, but "
            + ("the option header is not set" if actual is None else f"the options require {actual!r}"),
            remedy="set the options header and comment of the stream to match the comment of the column",
        )


def without_header(texts: Iterable[pa.Array], comment: bytes) -> Iterator[pa.Array]:
    """The lines after the first line of a file that is neither blank nor a comment."""

    def is_passed(line: bytes) -> bool:
        return not line.strip(BLANKS) or (bool(comment) and line.startswith(comment))

    header_due = True
    for lines in texts:
        if header_due:
            at = next((at for at, line in enumerate(lines) if not is_passed(line.as_py())), None)
            if at is None:
                continue
            header_due = False
            lines = lines[at + 1 :]
        yield lines
