"""The errors of a file as types, which policies such as ``ignoreMissingFiles`` check.

Both are a SplitReadError, for callers that do not distinguish them.
"""

from __future__ import annotations

from typing import ClassVar

from flip27_source.errors import DataLossError, SplitReadError
from flip27_source.options import Option, ReadingOption, boolean

IGNORE_CORRUPT_FILES: Option[bool] = ReadingOption(
    name="ignoreCorruptFiles",
    parse=boolean,
    default=False,
    doc="A file that is truncated, damaged or has another format returns no rows, is counted "
    "(ignoredSplits) and listed in the state. By default it stops the query.",
)


class FileMissingError(DataLossError):
    """The file existed when it was discovered, but no longer exists."""

    ignored_by: ClassVar[str | None] = "ignoreMissingFiles"


class CorruptFileError(SplitReadError):
    """The content is invalid for the format: truncated, damaged, or in another format."""

    ignored_by: ClassVar[str | None] = IGNORE_CORRUPT_FILES.name


IGNORED_BY = ("ignoreMissingFiles", IGNORE_CORRUPT_FILES.name)
"""The options that ignore splits of files; the first belongs to the enumerator."""
