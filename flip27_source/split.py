"""Splits: the unit of work that an enumerator finds and a reader reads.

Pure: no pyspark, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSize:
    """The size of a split, as known before reading.

    Attributes:
        files: number of files; counts against ``maxFilesPerTrigger``.
        rows: number of rows, None if unknown; counts against ``maxRowsPerTrigger``.
        bytes: number of bytes, None if unknown; counts against ``maxBytesPerTrigger``, and
            planning balances it.
    """

    files: int = 1
    rows: int | None = None
    bytes: int | None = None

    @property
    def has_counts(self) -> bool:
        """Whether all known numbers are whole and at least 0."""
        files, rows, size = self.files, self.rows, self.bytes
        return (
            type(files) is int
            and files >= 0
            and (rows is None or (type(rows) is int and rows >= 0))
            and (size is None or (type(size) is int and size >= 0))
        )


@runtime_checkable
class SourceSplit(Protocol):
    """FLIP-27's SourceSplit: any frozen dataclass or msgspec struct with a ``split_id``.

    ``split_id`` identifies the split within its source for ever: two splits with the same id are
    the same split. A split may also have a ``size`` (a :class:`SplitSize`, attribute or property).
    Splits are stored as JSON by their field types (msgspec), so every field needs a type that JSON can
    represent: str, int, float, bool, bytes, datetime, list, tuple, dict, dataclass, union with None. A source
    may have several kinds of split, each a struct with a ``tag``: ``SplitEnumerator[Chunk | Log]``.
    """

    @property
    def split_id(self) -> str: ...


SplitT = TypeVar("SplitT", bound=SourceSplit)

_UNKNOWN_SIZE = SplitSize()


def size_of(split: SourceSplit) -> SplitSize:
    """The split's ``size``; if it has none, the size of one file with unknown rows and bytes."""
    size = getattr(split, "size", None)
    return size if isinstance(size, SplitSize) else _UNKNOWN_SIZE
