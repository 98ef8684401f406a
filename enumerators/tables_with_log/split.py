"""What the splits of such sources have in common. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from flip27_source.snapshot_then_log.tables import ColumnT, Key, TableProgress
from flip27_source.split import SplitSize

TableT = TypeVar("TableT", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange(Generic[TableT, ColumnT]):
    """The rows of a table whose keys are at least ``lower`` and below ``upper``.

    Attributes:
        key: the columns by which the table is cut.
        lower, upper: the values of these columns, as text; None for no bound.
    """

    table: TableT
    key: tuple[ColumnT, ...]
    lower: Key | None
    upper: Key | None

    @classmethod
    def of(cls, progress: TableProgress[TableT, ColumnT], number: int, **more: Any) -> Self:
        """A chunk of a table; ``more`` is what a source adds."""
        lower, upper = progress.range_of(number)
        return cls(table=progress.table, key=progress.key, lower=lower, upper=upper, **more)


class ChunkOrLog:
    """A chunk of a table, with the number of its rows when it was cut, or the log: with or without an end."""

    __slots__ = ()
    rows: int | None
    log: Any

    @property
    def size(self) -> SplitSize:
        log = self.log
        size = None if log is None or log.end is None else log.end - log.first
        return SplitSize(files=0, rows=self.rows, bytes=size)
