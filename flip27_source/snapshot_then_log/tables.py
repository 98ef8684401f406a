"""Tables whose snapshot is still needed: their chunks, and the marks of those that were read. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

Key = tuple[str, ...]
"""The values of a key's columns, as text."""


class LoggedTable(Protocol):
    """The name of a table; equal values name the same table."""

    @property
    def table_id(self) -> int | str:
        """What the log knows the table by."""


TableT = TypeVar("TableT", bound=LoggedTable)
ColumnT = TypeVar("ColumnT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The next bounds of a table.

    Attributes:
        lower: the last bound when they were searched for; None if there was none.
        bounds: each with the number of rows in the chunk that it ends.
        is_end: whether no bound follows.
    """

    table_id: int | str
    lower: Key | None
    bounds: tuple[tuple[Key, int], ...]
    is_end: bool

    @classmethod
    def after(
        cls,
        table_id: int | str,
        lower: Key | None,
        *,
        rows: int,
        next_bound: Callable[[Key | None], Key | None],
        has_time: Callable[[], bool],
    ) -> Self | None:
        """The bounds after ``lower`` that are found while there is time; None if there was none.

        Args:
            rows: the number of rows in each chunk.
            next_bound: returns the bound after another one; None if there are not enough rows.
        """
        bounds, bound, is_end = list[Key](), lower, False
        while not is_end and has_time():
            bound = next_bound(bound)
            if bound is None:
                is_end = True
            else:
                bounds.append(bound)
        if not bounds and not is_end:
            return None
        found = tuple((each, rows) for each in bounds)
        return cls(table_id=table_id, lower=lower, bounds=found, is_end=is_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress(Generic[TableT, ColumnT]):
    """A table whose snapshot is still needed.

    Attributes:
        key: the columns by which the table is cut; empty if it is one chunk.
        generation: how many times chunks of the table had to be read again.
        bounds: the keys where a chunk ends and the next begins; one chunk more than there are bounds.
        rows: the number of rows of each chunk when it was cut.
        snapshots: for each chunk the mark of the snapshot in which it was first read; None if it is not read
            yet. A mark is a text from which the source knows which changes the snapshot has.
        again: the numbers of chunks that were read and must be read again.
        assigned: by split id, the barrier of each chunk that is assigned and not read.
        is_cut: whether all bounds are known; if not, the last chunk cannot be read yet.
    """

    sees_nothing: ClassVar[str] = "0"
    """The mark of a chunk of which every change is delivered."""

    table: TableT
    key: tuple[ColumnT, ...]
    generation: int = 0
    bounds: tuple[Key, ...] = ()
    rows: tuple[int | None, ...] = (None,)
    snapshots: tuple[str | None, ...] = (None,)
    again: tuple[int, ...] = ()
    assigned: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False

    @classmethod
    def of(cls, table: TableT, key: Sequence[ColumnT]) -> Self:
        """A table that was not read before; without a key it is one chunk."""
        return cls(table=table, key=tuple(key), is_cut=not key)

    @property
    def label(self) -> str:
        """The text with which the ids of the table's chunks begin."""
        return str(self.table)

    @property
    def last_bound(self) -> Key | None:
        """The bound after which the next one is searched for; None if there is none yet."""
        return self.bounds[-1] if self.bounds else None

    @property
    def is_read(self) -> bool:
        return self.is_cut and not any(map(self.is_missing, range(len(self.snapshots))))

    @property
    def is_begun(self) -> bool:
        """Whether any chunk was read or assigned, so that a sink may have its rows."""
        return bool(self.assigned or self.again or any(self.snapshots))

    def is_missing(self, number: int) -> bool:
        """Whether a chunk must still be read, for the first time or again."""
        return self.snapshots[number] is None or number in self.again

    @property
    def missing(self) -> list[int]:
        """The chunks that must still be read and whose bounds are known, assigned or not."""
        cut = len(self.snapshots) if self.is_cut else len(self.bounds)
        return [number for number in range(cut) if self.is_missing(number)]

    def split_id(self, number: int) -> str:
        """The id of a chunk, which differs from those of other tables and of earlier reads of the chunk."""
        generation = f".{self.generation}" if number in self.again else ""
        return f"{self.label}{generation}/{number}"

    def range_of(self, number: int) -> tuple[Key | None, Key | None]:
        """The bounds of a chunk: its first key, and the first key after it; None for no bound."""
        bounds = (None, *self.bounds, None)
        return bounds[number], bounds[number + 1]

    def ranges(self) -> tuple[tuple[Key, ...], tuple[str | None, ...]]:
        """The bounds and the marks of the chunks; neighbouring chunks with equal marks are one range."""
        bounds, marks = [], [self.snapshots[0]]
        for bound, mark in zip(self.bounds, self.snapshots[1:], strict=True):
            if mark != marks[-1]:
                bounds.append(bound)
                marks.append(mark)
        return tuple(bounds), tuple(marks)

    def after_cut(self, cut: Cut) -> Self:
        """The progress with the next bounds."""
        last = len(self.bounds)
        return replace(
            self,
            bounds=(*self.bounds, *(bound for bound, _ in cut.bounds)),
            rows=(*self.rows[:-1], *(count for _, count in cut.bounds), None),
            # The last chunk is unread, so those into which it is cut are as it was.
            snapshots=(*self.snapshots, *(self.snapshots[-1:] * len(cut.bounds))),
            again=(*self.again, *(range(last + 1, last + 1 + len(cut.bounds)) if last in self.again else ())),
            is_cut=cut.is_end,
        )

    def after_read(self, split_id: str, number: int, mark: str) -> Self:
        """The progress with a chunk that was read; if it was read before, its first mark counts."""
        is_current = split_id == self.split_id(number)
        marks = list(self.snapshots)
        marks[number] = marks[number] or mark
        return replace(
            self,
            snapshots=tuple(marks),
            again=tuple(n for n in self.again if not (is_current and n == number)),
            assigned={name: barrier for name, barrier in self.assigned.items() if name != split_id},
        )

    def to_read_again(self) -> Self:
        """The progress in which the chunks that were read must be read again."""
        read = tuple(number for number, mark in enumerate(self.snapshots) if mark is not None)
        return replace(self, again=read, generation=self.generation + 1)

    def without(self, split_ids: Collection[str]) -> Self:
        """The progress in which these chunks count as read and empty."""
        skipped = {number for number in self.missing if self.split_id(number) in split_ids}
        return replace(
            self,
            snapshots=tuple(
                mark or (self.sees_nothing if number in skipped else None)
                for number, mark in enumerate(self.snapshots)
            ),
            again=tuple(number for number in self.again if number not in skipped),
            assigned={name: barrier for name, barrier in self.assigned.items() if name not in split_ids},
        )


ProgressT = TypeVar("ProgressT", bound="TableProgress[Any, Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesState(Generic[TableT, ProgressT]):
    """What the assigner needs to continue after a restart.

    Attributes:
        known: the tables whose changes are delivered without a rule: their snapshot is no longer needed.
        tables: the tables whose snapshot is still needed.
        left: by the id of a table that was left out after chunks of it were assigned, the newest generation
            of its chunks.
    """

    known: tuple[TableT, ...] = ()
    tables: tuple[ProgressT, ...] = ()
    left: dict[str, int] = field(default_factory=dict)
