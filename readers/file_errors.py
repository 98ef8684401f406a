"""What is wrong with a file, as types: what a policy such as ``ignoreMissingFiles`` decides by.

All are SplitReadError, so whoever only wants to know that a split cannot be read need not tell them apart.
"""

from __future__ import annotations

from typing import ClassVar

from flip27_source.errors import SplitReadError


class FileMissingError(SplitReadError):
    """The file was there when it was discovered and is not there any more."""

    ignored_by: ClassVar[str] = "ignoreMissingFiles"


class CorruptFileError(SplitReadError):
    """The content is not what the format asks for: cut off, damaged, or another format."""

    ignored_by: ClassVar[str] = "ignoreCorruptFiles"
