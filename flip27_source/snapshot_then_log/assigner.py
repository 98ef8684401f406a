"""Decides what is read when: chunks of tables together with the log of their changes, then the log alone.

Pure: facts in, decisions out; no I/O, no clock. Three rules make it exact:

1. A chunk is assigned with a *barrier*: a position in the log such that every snapshot that is taken from
   then on has every change before the position.
2. While a chunk is unread, no window of the log extends beyond the barrier of that chunk, nor beyond the
   newest barrier. So the snapshot of an unread chunk will have every change of its rows in these windows, and
   the changes are dropped.
3. A change of a chunk that was read is delivered if and only if the mark of the chunk does not contain it.

When the log is read past everything that the marks of a table contain, its rules are dropped.

Chunks that must be read again, such as after a TRUNCATE that only some of them saw, keep their first marks
for rule 3, so that changes in the meantime are delivered too. A table that was left out for a while is read
anew. The sink may have rows of it, so from then on every change is delivered, as if chunks that see nothing
had been read before.

A position is a number. What a mark is, and how a barrier comes to be, is a matter of the source:
:class:`SnapshotThenLog` leaves both to a subclass, and :class:`PositionAssigner` is for logs in which the
mark of a snapshot is a position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ..errors import ProtocolError
from .tables import Cut, LoggedTable, ProgressT, TableProgress, TablesState, TableT


class SnapshotThenLog(Generic[TableT, ProgressT]):
    """Chooses the chunks and the windows to be read.

    Args:
        start: position at which the log begins.
        most_chunks: the most chunks that may be assigned and not read.
        most_lag_bytes: how much of the log may be unread before it is read together with the chunks.

    Attributes:
        position: the position at or after which the next window begins.
        end: the position up to which the log is known.
    """

    def __init__(
        self, state: TablesState[TableT, ProgressT], *, start: int, most_chunks: int, most_lag_bytes: int
    ) -> None:
        self._known = dict.fromkeys(state.known)
        self._tables = {progress.table.table_id: progress for progress in state.tables}
        self._left = dict(state.left)
        self._most_chunks = most_chunks
        self._most_lag_bytes = most_lag_bytes
        self.end = start
        self.position = start
        self._most_end: int | None = None
        self._past_at: dict[int | str, int] = {}

    # What the source knows.

    @property
    def barrier(self) -> int | None:
        """The barrier with which a chunk may be assigned now; None if there is none."""
        raise NotImplementedError

    def note_past(self, past_at: Callable[[ProgressT], int | None]) -> None:
        """Note from which position on no rule of a table is needed; ``past_at`` returns None if not known.

        It is called for tables whose chunks are all read.
        """
        for table_id, progress in self._tables.items():
            if progress.is_read and table_id not in self._past_at:
                position = past_at(progress)
                if position is not None:
                    self._past_at[table_id] = position

    # Facts.

    def log_ends_at(self, end: int) -> None:
        """Record that the log is known up to this position."""
        self.end = max(self.end, end if self._most_end is None else min(end, self._most_end))

    def end_at(self, position: int) -> None:
        """Read the log up to this position and no further; of several positions, the first one counts."""
        self._most_end = position if self._most_end is None else self._most_end

    def reads_up_to(self, position: int) -> None:
        """Record that the next window begins here or later, and drop rules that are no longer needed."""
        self.position = max(self.position, position)
        for table_id, past_at in list(self._past_at.items()):
            if self.position >= past_at:
                del self._past_at[table_id]
                self._known[self._tables.pop(table_id).table] = None

    def add(self, progress: ProgressT) -> bool:
        """Add a table whose rows are read, and return whether it is new.

        If it is cut already, it has no key, and is one chunk.
        """
        table_id = progress.table.table_id
        if self._has(table_id):
            return False
        generation = self._left.get(str(table_id))
        if generation is not None:
            generation = self._left[str(table_id)] = generation + 1
            # Without a key, a change from before the chunk is read would be a second row.
            marks = (None if progress.is_cut else progress.sees_nothing,)
            progress = replace(progress, generation=generation, snapshots=marks, again=(0,))
        self._tables[table_id] = progress
        return True

    def add_known(self, table: TableT) -> None:
        """Add a table of which only the changes are read."""
        if not self._has(table.table_id):
            self._known[table] = None

    def keep(self, is_wanted: Callable[[TableT], bool]) -> None:
        """Forget the tables that are not wanted: if they are wanted again, their rows are read again."""
        wanted = {table.table_id for table in self.known if is_wanted(table)}
        for table in self._known:
            if table.table_id not in wanted:
                self._left.setdefault(str(table.table_id), 0)
        for table_id, progress in self._tables.items():
            if table_id not in wanted and progress.is_begun:
                self._left[str(table_id)] = progress.generation
        self._known = {table: None for table in self._known if table.table_id in wanted}
        self._tables = {name: progress for name, progress in self._tables.items() if name in wanted}
        self._past_at = {name: position for name, position in self._past_at.items() if name in wanted}

    def read_again(self, table_id: int | str) -> None:
        """Read again the chunks of a table that were read, if its snapshot is still needed.

        The window that shows the need was read with the rules as they were, so record that it was read only
        after this: otherwise rules may be dropped that are still needed.
        """
        progress = self._tables.get(table_id)
        if progress is not None:
            self._past_at.pop(table_id, None)
            self._tables[table_id] = progress.to_read_again()

    def cut(self, cut: Cut) -> None:
        """Add the next bounds of a table, unless they do not follow its present last bound.

        The server is polled several times while a batch runs: these polls start at the same bound, and only
        the first result counts. The table may also be forgotten meanwhile.
        """
        progress = self._tables.get(cut.table_id)
        if progress is not None and not progress.is_cut and cut.lower == progress.last_bound:
            self._tables[cut.table_id] = progress.after_cut(cut)

    def mark(self, split_id: str, mark: str) -> bool:
        """Record that a chunk was read in the snapshot with this mark, and return whether it was assigned.

        If it was read before, its first mark counts.
        """
        for table_id, progress in self._tables.items():
            if split_id in progress.assigned:
                self._tables[table_id] = progress.after_read(split_id, _number(split_id), mark)
                return True
        return False

    def chunks_given_up(self, split_ids: Collection[str]) -> None:
        """Do not wait for these chunks: every change of their rows is delivered from now on."""
        self._tables = {name: progress.without(split_ids) for name, progress in self._tables.items()}

    # Decisions.

    @property
    def reads_chunks(self) -> bool:
        """Whether any chunk must still be read."""
        return any(not progress.is_read for progress in self._tables.values())

    @property
    def uncut(self) -> tuple[ProgressT, ...]:
        """The tables of which bounds are missing."""
        return tuple(progress for progress in self._tables.values() if not progress.is_cut)

    @property
    def known(self) -> tuple[TableT, ...]:
        return (*self._known, *(progress.table for progress in self._tables.values()))

    @property
    def tables(self) -> tuple[ProgressT, ...]:
        return tuple(self._tables.values())

    def stored(self) -> TablesState[TableT, ProgressT]:
        """What is needed to continue after a restart."""
        return TablesState(known=tuple(self._known), tables=self.tables, left=dict(self._left))

    def assign_next(self) -> tuple[ProgressT, int, int] | None:
        """The next chunk, which counts as assigned from now on: its table, number and barrier; None if there
        is none now.
        """
        barrier = self.barrier
        in_flight = sum(len(progress.assigned) for progress in self._tables.values())
        if barrier is None or not self.has_barrier or in_flight >= self._most_chunks:
            return None
        # Chunks delay the log: if it is far behind, it is read up to the barrier before more chunks are.
        if self.is_behind and self.position < barrier:
            return None
        for table_id, progress in self._tables.items():
            number = _next_number(progress)
            if number is not None:
                assigned = {**progress.assigned, progress.split_id(number): barrier}
                self._tables[table_id] = replace(progress, assigned=assigned)
                return progress, number, barrier
        return None

    def window_end(self, first: int, most_bytes: int | None) -> int | None:
        """The end of the next window of the log from ``first`` on; None if there is none now."""
        end = self.end
        if self.reads_chunks:
            barrier = self.barrier
            if barrier is None or not self.end - first > self._most_lag_bytes:
                return None
            held = [at for progress in self._tables.values() for at in progress.assigned.values()]
            end = min([end, barrier, *held])
        if most_bytes is not None:
            end = min(end, first + max(1, most_bytes))
        return end if end > first else None

    @property
    def has_barrier(self) -> bool:
        """Whether the barrier is at the position of the log or after it.

        While there are unread chunks, windows end at the barrier, so no planned window ends after it. The
        snapshot of a chunk with an older barrier could lack what these windows have dropped.
        """
        return self.barrier is not None and self.barrier >= self.position

    @property
    def is_behind(self) -> bool:
        """Whether more of the log is unread than may be unread while chunks are read."""
        return self.end - self.position > self._most_lag_bytes

    def _has(self, table_id: int | str) -> bool:
        return any(table.table_id == table_id for table in self.known)


PositionedT = TypeVar("PositionedT", bound=LoggedTable)


class PositionAssigner(SnapshotThenLog[PositionedT, "TableProgress[PositionedT, Any]"]):
    """The assigner for a log in which the mark of a snapshot is a position, as text: it has what is before.

    The end of the log must be known to all snapshots: each that is taken later must have what is before it.
    """

    @property
    def barrier(self) -> int | None:
        return self.end

    def reads_up_to(self, position: int) -> None:
        self.note_past(lambda progress: max(int(mark) for mark in progress.snapshots if mark is not None))
        super().reads_up_to(position)


def _next_number(progress: TableProgress[Any, Any]) -> int | None:
    """The first chunk that is neither read nor assigned, and whose upper bound is known."""
    for number in range(len(progress.snapshots)):
        is_last = number == len(progress.bounds)
        if progress.is_missing(number) and progress.split_id(number) not in progress.assigned:
            return None if is_last and not progress.is_cut else number
    return None


def _number(split_id: str) -> int:
    number = split_id.rpartition("/")[2]
    if not number.isdecimal():
        raise ProtocolError(f"{split_id!r} is not the id of a chunk")
    return int(number)
