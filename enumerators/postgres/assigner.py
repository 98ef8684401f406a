"""Decides what the postgres source reads when, by the rules of :mod:`flip27_source.snapshot_then_log`.

Pure: facts in, decisions out; no I/O, no clock. What PostgreSQL adds:

- The barrier of a chunk is a *settled horizon*: a position in the log and a transaction id that was assigned
  after the position was read, and below which every transaction has ended. So the snapshot of the chunk sees
  every transaction that commits before the position.
- The mark of a chunk is the snapshot in which it was read: an event is delivered if and only if the snapshot
  does not see its transaction.
- A TRUNCATE that some chunks of a table see and others do not is delivered. It also removes the rows of the
  chunks that saw it, so the chunks that were read before are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from flip27_source.enumerators.postgres.chunk_transactions import SEES_NOTHING, RowRule, ended_below
from flip27_source.enumerators.postgres.split import (
    KeyColumn,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableChunk,
    TableKeys,
    TableName,
    TableRules,
)
from flip27_source.snapshot_then_log import tables
from flip27_source.snapshot_then_log.assigner import SnapshotThenLog
from flip27_source.snapshot_then_log.tables import Key, TablesState


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """A position in the log, and an id above those of all transactions that commit before the position."""

    lsn: int
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The server at one moment.

    Attributes:
        end: position up to which the log is durable.
        xmin: every transaction below this id has ended.
        lsn_after: position of the log, read after ``xmin``: these transactions commit before it.
        horizon: the horizon that was created, if :attr:`Assigner.wants_horizon` was true.
    """

    end: int
    xmin: int
    lsn_after: int
    horizon: Horizon | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress(tables.TableProgress[TableName, KeyColumn]):
    """A table whose snapshot is still needed; ``snapshots`` are those of PostgreSQL, as text."""

    sees_nothing: ClassVar[str] = SEES_NOTHING

    @property
    def label(self) -> str:
        return f"{self.table}/{self.table.oid}"

    def rules(self) -> TableRules:
        """The rules of the table; neighbouring chunks with equal rules are one range."""
        bounds, snapshots = self.ranges()
        rules = tuple(RowRule(snapshot=snapshot) for snapshot in snapshots)
        return TableRules(table=self.table, key=self.key, bounds=bounds, rules=rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerState(TablesState[TableName, TableProgress]):
    """Everything that the assigner needs to continue after a restart.

    Attributes:
        settled, pending: the newest settled horizon, and the one that is to settle next.
        keys: those that tables had while the log did not have them.
        renamed: the last listed names of tables that were renamed since they were found.
    """

    settled: Horizon | None = None
    pending: Horizon | None = None
    keys: tuple[TableKeys, ...] = ()
    renamed: tuple[TableName, ...] = ()


class Assigner(SnapshotThenLog[TableName, TableProgress]):
    """Chooses the chunks and the windows to be read.

    Args:
        start, most_chunks, most_lag_bytes: see :class:`SnapshotThenLog`.
        reads_tables: whether the rows of new tables are read before their changes.

    Attributes:
        pending: the horizon that is to settle.
    """

    def __init__(
        self,
        state: AssignerState,
        *,
        start: int,
        most_chunks: int,
        most_lag_bytes: int,
        reads_tables: bool = True,
    ) -> None:
        super().__init__(state, start=start, most_chunks=most_chunks, most_lag_bytes=most_lag_bytes)
        self._settled, self.pending = state.settled, state.pending
        self._keys = {table.oid: table.keys for table in state.keys}
        self._renamed = {table.oid: table for table in state.renamed}
        self._reads_tables = reads_tables

    # Facts.

    def observe(self, seen: Observation) -> None:
        self.log_ends_at(seen.end)
        if seen.horizon is not None and self.pending is None:
            self.pending = seen.horizon
        if self.pending is not None and seen.xmin > self.pending.xid:
            self._settled, self.pending = self.pending, None
        self.note_past(
            lambda progress: seen.lsn_after if ended_below(progress.snapshots, seen.xmin) else None
        )

    def name(self, listed: Iterable[TableName]) -> None:
        """Record the present names of tables, by which an option may name them."""
        known = {table.oid: self.named(table) for table in self.known}
        self._renamed |= {table.oid: table for table in listed if table != known.get(table.oid, table)}

    def add_key(self, oid: int, key: Key) -> None:
        """Record the present key of a table whose log does not have it: the log is read later."""
        self._keys[oid] = tuple(dict.fromkeys((key, *self._keys.get(oid, ()))))

    def keep(self, is_wanted: Callable[[TableName], bool]) -> None:
        """Forget the tables that are not wanted: if they are wanted again, their rows are read again."""
        super().keep(lambda table: is_wanted(self.named(table)))
        wanted = {table.oid for table in self.known}
        self._keys = {oid: keys for oid, keys in self._keys.items() if oid in wanted}
        self._renamed = {oid: table for oid, table in self._renamed.items() if oid in wanted}

    def renew_horizon(self) -> None:
        """Assign no chunk with a horizon from before this call.

        This is needed after a table was added to the publication: the log lacks what open transactions wrote
        to it before, so the snapshots of the table's chunks must see these transactions.
        """
        self._settled = self.pending = None

    def log_read(self, event: LogRead) -> None:
        """Record that a window was read, and which tables were truncated between their chunks."""
        for oid in event.truncated:
            self.read_again(oid)
        self.reads_up_to(event.end)

    # Decisions.

    @property
    def barrier(self) -> int | None:
        return None if self._settled is None else self._settled.lsn

    @property
    def is_stopped(self) -> bool:
        """Whether chunks must be read, and neither they nor the log can be until a horizon has settled."""
        return self.reads_chunks and not self.has_barrier

    @property
    def wants_horizon(self) -> bool:
        """Whether the next observation is to create a horizon."""
        return self.pending is None and (self.is_stopped or (self.reads_chunks and self.is_behind))

    @property
    def renamed(self) -> tuple[TableName, ...]:
        """The last listed names of tables that were renamed since they were found."""
        return tuple(self._renamed.values())

    def named(self, table: TableName) -> TableName:
        """A table with its last listed name."""
        return self._renamed.get(table.oid, table)

    def next_chunk(self) -> PostgresSplit | None:
        """The next chunk, which counts as assigned from now on; None if there is none now."""
        found = self.assign_next()
        if found is None or self._settled is None:
            return None
        progress, number, _ = found
        return chunk_split(progress, number, self._settled)

    def window(self, first: int, most_bytes: int | None) -> LogWindow | None:
        """The next window of the log from ``first`` on; None if there is none now."""
        end = self.window_end(first, most_bytes)
        if end is None:
            return None
        return LogWindow(
            first=first,
            end=end,
            rules=tuple(progress.rules() for progress in self._tables.values()),
            known=tuple(table.oid for table in self._known),
            also_by_name=None if self._reads_tables else True,
            keys=self._table_keys or None,
        )

    def stored(self) -> AssignerState:
        return AssignerState(
            known=tuple(self._known),
            tables=self.tables,
            settled=self._settled,
            pending=self.pending,
            keys=self._table_keys,
            left=dict(self._left),
            renamed=self.renamed,
        )

    @property
    def _table_keys(self) -> tuple[TableKeys, ...]:
        return tuple(TableKeys(oid=oid, keys=keys) for oid, keys in self._keys.items())


def chunk_split(progress: TableProgress, number: int, settled: Horizon) -> PostgresSplit:
    """The split of a chunk, to be read in a snapshot that sees everything before the horizon."""
    chunk = TableChunk.of(progress, number, lsn=settled.lsn, horizon=settled.xid)
    return PostgresSplit(split_id=progress.split_id(number), chunk=chunk, rows=progress.rows[number])
