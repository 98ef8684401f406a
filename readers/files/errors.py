"""What is wrong with a file, as types: what a policy such as ``ignoreMissingFiles`` decides by.

All are SplitReadError, so whoever only wants to know that a split cannot be read need not tell them apart.
"""

from __future__ import annotations

from typing import ClassVar

from flip27_source.errors import DataLossError, SplitReadError
from flip27_source.options import Option, boolean

IGNORE_CORRUPT_FILES: Option[bool] = Option(
    name="ignoreCorruptFiles",
    parse=boolean,
    default=False,
    doc="A file that is cut off, damaged or of another format has no rows, is counted (ignoredSplits) and "
    "listed in the state; by default it stops the query.",
)


class FileMissingError(DataLossError):
    """The file was there when it was discovered and is not there any more."""

    ignored_by: ClassVar[str | None] = "ignoreMissingFiles"


class CorruptFileError(SplitReadError):
    """The content is not what the format asks for: cut off, damaged, or another format."""

    ignored_by: ClassVar[str | None] = IGNORE_CORRUPT_FILES.name


IGNORED_BY = ("ignoreMissingFiles", IGNORE_CORRUPT_FILES.name)
"""The options by which splits of files are left out; the first is the enumerator's."""
