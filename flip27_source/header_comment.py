"""The comment of a text column, which records whether headers were left out of the lines.

A DataFrame does not show the options that it was loaded with. The comment of a column travels with it through
``select``, ``where`` and ``withWatermark``, so that a parser of lines can check that no header is left.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"header=true(?:, comment=(.))?")


def header_comment(comment: str = "") -> str:
    """The comment of a column that contains the lines of files without their headers.

    Args:
        comment: the character at the start of lines that do not count as a header; empty for none.
    """
    return f"header=true, comment={comment}" if comment else "header=true"


def header_in(text: str) -> str | None:
    """The ``comment`` of a ``header_comment``; None if the text is something else."""
    match = _COMMENT.fullmatch(text)
    return None if match is None else match[1] or ""
