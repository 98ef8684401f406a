"""What a split is: the unit of work that an enumerator finds and a reader reads.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSize:
    """How much a split holds, as far as it is known before reading.

    Attributes:
        files: number of files; counts against ``maxFilesPerTrigger``.
        rows: number of rows, or None when unknown; counts against ``maxRowsPerTrigger``.
        bytes: number of bytes, or None when unknown; counts against ``maxBytesPerTrigger``
            and is what planning balances.
    """

    files: int = 1
    rows: int | None = None
    bytes: int | None = None

    @property
    def has_counts(self) -> bool:
        """Whether all that is known are whole numbers, 0 or more."""
        files, rows, size = self.files, self.rows, self.bytes
        return (
            type(files) is int
            and files >= 0
            and (rows is None or (type(rows) is int and rows >= 0))
            and (size is None or (type(size) is int and size >= 0))
        )


@runtime_checkable
class SourceSplit(Protocol):
    """FLIP-27's SourceSplit: any frozen dataclass with a ``split_id``.

    ``split_id`` identifies the split within its source for ever: two splits with one id are the
    same split. A split may also have a ``size`` (a :class:`SplitSize`, attribute or property).
    Splits are stored as JSON through their field types (msgspec), so every field has a type that
    JSON can carry: str, int, float, bool, bytes, datetime, list, tuple, dict, dataclass, union
    with None.
    """

    @property
    def split_id(self) -> str: ...


SplitT = TypeVar("SplitT", bound=SourceSplit)

_UNKNOWN_SIZE = SplitSize()


def size_of(split: SourceSplit) -> SplitSize:
    """The split's ``size``, or one file of unknown rows and bytes when it has none."""
    size = getattr(split, "size", None)
    return size if isinstance(size, SplitSize) else _UNKNOWN_SIZE
