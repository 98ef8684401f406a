"""Comments of columns, which say how the source of a DataFrame was loaded. Pure: no pyspark, no I/O.

A DataFrame does not show the options that it was loaded with. The comment of a column travels with it through
``select``, ``where`` and ``withWatermark``: so that a parser of lines can check that no header is left, and
``flip27_source.native`` can apply the policies of the source of ``reader=splits``.
"""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec
import pyarrow as pa

PATH_COLUMN: Final = "path"

_SPARKS_KEY = b"SPARK::metadata::json"
"""The key under which PySpark stores a column's metadata in an Arrow field."""
_START = "flip27 splits "
_HEADER = re.compile(r"header=true(?:, comment=(.))?")


class SourceOfSplits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of the rows of ``reader=splits``.

    Attributes:
        base_depth: number of directories of a path that are above its partition columns; None if the names of
            directories are not partition columns.
        base_names: the paths of the source, if there are several: a file's base path is the one that contains
            it.
        on_error, ignored_by, reports_loss, max_quarantined: the policies for files that cannot be read.
        state_location: where the source stores its state; None if it is not set.
        uid: the source's name in its state location.
        data: which data it reads, as in the owner of a recorded schema.
    """

    base_depth: int | None = None
    base_names: tuple[str, ...] = ()
    on_error: str = "fail"
    ignored_by: tuple[str, ...] = ()
    reports_loss: bool = False
    max_quarantined: int = 0
    state_location: str | None = None
    uid: str = "files"
    data: dict[str, list[str]] | None = None


def commented(field: pa.Field, comment: str) -> pa.Field:
    """The column with a comment, as PySpark stores it."""
    return field.with_metadata({_SPARKS_KEY: json.dumps({"comment": comment})})


def comment_of(field: pa.Field) -> str | None:
    comment = json.loads((field.metadata or {}).get(_SPARKS_KEY, b"{}")).get("comment")
    return comment if isinstance(comment, str) else None


def splits_comment(source: SourceOfSplits) -> str:
    return _START + msgspec.json.encode(source, order="sorted").decode()


def source_in(comment: str) -> SourceOfSplits | None:
    """The source in a ``splits_comment``; None if the text is something else."""
    if not comment.startswith(_START):
        return None
    try:
        return msgspec.json.decode(comment.removeprefix(_START), type=SourceOfSplits)
    except msgspec.MsgspecError:
        return None


def header_comment(comment: str = "") -> str:
    """The comment of a column that contains the lines of files without their headers.

    Args:
        comment: the character at the start of lines that do not count as a header; empty for none.
    """
    return f"header=true, comment={comment}" if comment else "header=true"


def header_in(text: str) -> str | None:
    """The ``comment`` of a ``header_comment``; None if the text is something else."""
    match = _HEADER.fullmatch(text)
    return None if match is None else match[1] or ""
