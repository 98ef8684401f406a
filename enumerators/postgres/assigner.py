"""Decides what the postgres source reads when: chunks of tables together with the log, then the log alone.

Pure: facts in, decisions out; no I/O, no clock. Three rules make it exact:

1. A chunk is assigned with a *settled horizon*: a position in the log and a transaction id that was assigned
   after the position was read, and below which every transaction has ended. So the snapshot of the chunk
   sees every transaction that commits before the position.
2. While a chunk is unread, no window of the log extends beyond the horizon of that chunk, nor beyond the
   newest settled horizon. So the snapshot of an unread chunk will see every event of its rows in these
   windows, and the events are dropped.
3. An event of a chunk that was read is delivered if and only if the snapshot of the chunk does not see it.

A TRUNCATE that some chunks of a table see and others do not is delivered. It also removes the rows of the
chunks that saw it, so the chunks that were read before are read again; rule 3 still uses their first
snapshots, so that changes in the meantime are delivered too.

A table that was left out for a while is read anew. The sink may have rows of it, so from then on every
change is delivered, as if chunks that see nothing had been read before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from flip27_source.enumerators.postgres.chunk_transactions import SEES_NOTHING, RowRule, ended_below
from flip27_source.enumerators.postgres.split import (
    ChunkRead,
    KeyColumn,
    LogRead,
    LogWindow,
    PostgresSplit,
    TableChunk,
    TableKeys,
    TableName,
    TableRules,
)
from flip27_source.errors import ProtocolError

Key = tuple[str, ...]


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
class Cut:
    """The next bounds of a table.

    Attributes:
        lower: the last bound when they were searched for; None if there was none.
        bounds: each with the number of rows in the chunk that it ends.
        is_end: whether no bound follows.
    """

    oid: int
    lower: Key | None
    bounds: tuple[tuple[Key, int], ...]
    is_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress:
    """A table whose snapshot is still needed.

    Attributes:
        generation: how many times chunks of the table had to be read again.
        bounds: the keys where a chunk ends and the next begins; one chunk more than there are bounds.
        rows: the number of rows of each chunk when it was cut.
        snapshots: for each chunk the snapshot in which it was first read; None if it is not read yet.
        again: the numbers of chunks that were read and must be read again.
        assigned: by split id, the position of the horizon of each chunk that is assigned and not read.
        is_cut: whether all bounds are known; if not, the last chunk cannot be read yet.
    """

    table: TableName
    key: tuple[KeyColumn, ...]
    generation: int = 0
    bounds: tuple[Key, ...] = ()
    rows: tuple[int | None, ...] = (None,)
    snapshots: tuple[str | None, ...] = (None,)
    again: tuple[int, ...] = ()
    assigned: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False

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

    def without(self, split_ids: Collection[str]) -> TableProgress:
        """The progress in which these chunks count as read and empty."""
        skipped = {number for number in self.missing if self.split_id(number) in split_ids}
        return replace(
            self,
            snapshots=tuple(
                snapshot or (SEES_NOTHING if number in skipped else None)
                for number, snapshot in enumerate(self.snapshots)
            ),
            again=tuple(number for number in self.again if number not in skipped),
            assigned={name: lsn for name, lsn in self.assigned.items() if name not in split_ids},
        )

    def split_id(self, number: int) -> str:
        """The id of a chunk, which differs from those of other tables and of earlier reads of the chunk."""
        generation = f".{self.generation}" if number in self.again else ""
        return f"{self.table}/{self.table.oid}{generation}/{number}"

    def rules(self) -> TableRules:
        """The rules of the table; neighbouring chunks with equal rules are one range."""
        rules = [RowRule(snapshot=self.snapshots[0])]
        bounds = []
        for bound, snapshot in zip(self.bounds, self.snapshots[1:], strict=True):
            rule = RowRule(snapshot=snapshot)
            if rule != rules[-1]:
                bounds.append(bound)
                rules.append(rule)
        return TableRules(table=self.table, key=self.key, bounds=tuple(bounds), rules=tuple(rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerState:
    """Everything that the assigner needs to continue after a restart.

    Attributes:
        known: the tables whose events are delivered without a rule: their snapshot is no longer needed.
        tables: the tables whose snapshot is still needed.
        settled, pending: the newest settled horizon, and the one that is to settle next.
        keys: those that tables had while the log did not have them.
        left: by the oid of a table that was left out after chunks of it were assigned, the newest generation
            of its chunks.
        renamed: the last listed names of tables that were renamed since they were found.
    """

    known: tuple[TableName, ...] = ()
    tables: tuple[TableProgress, ...] = ()
    settled: Horizon | None = None
    pending: Horizon | None = None
    keys: tuple[TableKeys, ...] = ()
    left: dict[str, int] = field(default_factory=dict)
    renamed: tuple[TableName, ...] = ()


class Assigner:
    """Chooses the chunks and the windows to be read.

    Args:
        start: position at which the log begins.
        most_chunks: the most chunks that may be assigned and not read.
        most_lag_bytes: how much of the log may be unread before it is read together with the chunks.
        reads_tables: whether the rows of new tables are read before their changes.

    Attributes:
        position: the position at or after which the next window begins.
        end: the position up to which the log is known.
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
        self._known = dict.fromkeys(state.known)
        self._tables = {progress.table.oid: progress for progress in state.tables}
        self._settled, self.pending = state.settled, state.pending
        self._keys = {table.oid: table.keys for table in state.keys}
        self._left = dict(state.left)
        self._renamed = {table.oid: table for table in state.renamed}
        self._most_chunks = most_chunks
        self._most_lag_bytes = most_lag_bytes
        self._reads_tables = reads_tables
        self.end = start
        self._most_end: int | None = None
        self.position = start
        self._past_at: dict[int, int] = {}

    # Facts.

    def observe(self, seen: Observation) -> None:
        end = seen.end if self._most_end is None else min(seen.end, self._most_end)
        self.end = max(self.end, end)
        if seen.horizon is not None and self.pending is None:
            self.pending = seen.horizon
        if self.pending is not None and seen.xmin > self.pending.xid:
            self._settled, self.pending = self.pending, None
        for oid, progress in self._tables.items():
            rules = [RowRule(snapshot=snapshot) for snapshot in progress.snapshots]
            if progress.is_read and oid not in self._past_at and ended_below(rules, seen.xmin):
                self._past_at[oid] = seen.lsn_after

    def end_at(self, lsn: int) -> None:
        """Read the log up to this position and no further; of several positions, the first one counts."""
        self._most_end = lsn if self._most_end is None else self._most_end

    def reads_up_to(self, position: int) -> None:
        """Record that the next window begins here or later, and drop rules that are no longer needed."""
        self.position = max(self.position, position)
        for oid, past_at in list(self._past_at.items()):
            if self.position >= past_at:
                del self._past_at[oid]
                self._known[self._tables.pop(oid).table] = None

    def add_table(self, table: TableName, key: Sequence[KeyColumn]) -> bool:
        """Add a table whose rows are read, and return whether it is new; without a key it is one chunk."""
        is_new = table.oid not in {known.oid for known in self.known}
        if is_new:
            progress = TableProgress(table=table, key=tuple(key), is_cut=not key)
            if (generation := self._left.get(str(table.oid))) is not None:
                generation = self._left[str(table.oid)] = generation + 1
                # Without a key, a change from before the chunk is read would be a second row.
                snapshots = (SEES_NOTHING if key else None,)
                progress = replace(progress, generation=generation, snapshots=snapshots, again=(0,))
            self._tables[table.oid] = progress
        return is_new

    def add_known(self, table: TableName) -> None:
        """Add a table of which only the changes are read."""
        if table.oid not in {known.oid for known in self.known}:
            self._known[table] = None

    def name(self, listed: Iterable[TableName]) -> None:
        """Record the present names of tables, by which an option may name them."""
        known = {table.oid: self.named(table) for table in self.known}
        self._renamed |= {table.oid: table for table in listed if table != known.get(table.oid, table)}

    def add_key(self, oid: int, key: Key) -> None:
        """Record the present key of a table whose log does not have it: the log is read later."""
        self._keys[oid] = tuple(dict.fromkeys((key, *self._keys.get(oid, ()))))

    def keep(self, is_wanted: Callable[[TableName], bool]) -> None:
        """Forget the tables that are not wanted: if they are wanted again, their rows are read again."""
        wanted = {table.oid for table in self.known if is_wanted(self.named(table))}
        for table in self._known:
            if table.oid not in wanted:
                self._left.setdefault(str(table.oid), 0)
        for oid, progress in self._tables.items():
            if oid not in wanted and progress.is_begun:
                self._left[str(oid)] = progress.generation
        self._known = {table: None for table in self._known if table.oid in wanted}
        self._tables = {oid: progress for oid, progress in self._tables.items() if oid in wanted}
        self._past_at = {oid: lsn for oid, lsn in self._past_at.items() if oid in wanted}
        self._keys = {oid: keys for oid, keys in self._keys.items() if oid in wanted}
        self._renamed = {oid: table for oid, table in self._renamed.items() if oid in wanted}

    def renew_horizon(self) -> None:
        """Assign no chunk with a horizon from before this call.

        This is needed after a table was added to the publication: the log lacks what open transactions wrote
        to it before, so the snapshots of the table's chunks must see these transactions.
        """
        self._settled = self.pending = None

    def log_read(self, event: LogRead) -> None:
        """Record that a window was read.

        If some chunks of a table saw a TRUNCATE and others did not, the chunks that were read are read again.
        """
        for oid in event.truncated:
            progress = self._tables.get(oid)
            if progress is not None:
                self._past_at.pop(oid, None)
                read = [number for number, snapshot in enumerate(progress.snapshots) if snapshot is not None]
                self._tables[oid] = replace(progress, again=tuple(read), generation=progress.generation + 1)
        # Only now, because the rules of a table that was truncated are still needed.
        self.reads_up_to(event.end)

    def cut(self, cut: Cut) -> None:
        """Add the next bounds of a table, unless they do not follow its present last bound.

        The server is polled several times while a batch runs: these polls start at the same bound, and only
        the first result counts. The table may also be forgotten meanwhile.
        """
        progress = self._tables.get(cut.oid)
        if progress is None or progress.is_cut or cut.lower != progress.last_bound:
            return
        last = len(progress.bounds)
        self._tables[cut.oid] = replace(
            progress,
            bounds=(*progress.bounds, *(bound for bound, _ in cut.bounds)),
            rows=(*progress.rows[:-1], *(count for _, count in cut.bounds), None),
            # The last chunk is unread, so those into which it is cut are as it was.
            snapshots=(*progress.snapshots, *(progress.snapshots[-1:] * len(cut.bounds))),
            again=(
                *progress.again,
                *(range(last + 1, last + 1 + len(cut.bounds)) if last in progress.again else ()),
            ),
            is_cut=cut.is_end,
        )

    def chunk_read(self, event: ChunkRead) -> bool:
        """Record that a chunk was read, and return whether it was assigned.

        If it was read before, its first snapshot counts.
        """
        for oid, progress in self._tables.items():
            if event.split_id in progress.assigned:
                number = _number(event.split_id)
                is_current = event.split_id == progress.split_id(number)
                snapshots = list(progress.snapshots)
                snapshots[number] = snapshots[number] or event.snapshot
                left = {
                    split_id: lsn for split_id, lsn in progress.assigned.items() if split_id != event.split_id
                }
                self._tables[oid] = replace(
                    progress,
                    snapshots=tuple(snapshots),
                    again=tuple(n for n in progress.again if not (is_current and n == number)),
                    assigned=left,
                )
                return True
        return False

    def chunks_given_up(self, split_ids: Collection[str]) -> None:
        """Do not wait for these chunks: every change of their rows is delivered from now on."""
        self._tables = {oid: progress.without(split_ids) for oid, progress in self._tables.items()}

    # Decisions.

    @property
    def reads_chunks(self) -> bool:
        """Whether any chunk must still be read."""
        return any(not progress.is_read for progress in self._tables.values())

    @property
    def is_stopped(self) -> bool:
        """Whether chunks must be read, and neither they nor the log can be until a horizon has settled."""
        return self.reads_chunks and not self._has_settled

    @property
    def wants_horizon(self) -> bool:
        """Whether the next observation is to create a horizon."""
        return self.pending is None and (self.is_stopped or (self.reads_chunks and self._is_behind))

    @property
    def uncut(self) -> tuple[TableProgress, ...]:
        """The tables of which bounds are missing."""
        return tuple(progress for progress in self._tables.values() if not progress.is_cut)

    @property
    def known(self) -> tuple[TableName, ...]:
        return (*self._known, *(progress.table for progress in self._tables.values()))

    @property
    def renamed(self) -> tuple[TableName, ...]:
        """The last listed names of tables that were renamed since they were found."""
        return tuple(self._renamed.values())

    def named(self, table: TableName) -> TableName:
        """A table with its last listed name."""
        return self._renamed.get(table.oid, table)

    @property
    def tables(self) -> tuple[TableProgress, ...]:
        return tuple(self._tables.values())

    def next_chunk(self) -> PostgresSplit | None:
        """The next chunk, which counts as assigned from now on; None if there is none now."""
        settled = self._settled
        in_flight = sum(len(progress.assigned) for progress in self._tables.values())
        if settled is None or not self._has_settled or in_flight >= self._most_chunks:
            return None
        # Chunks delay the log: if it is far behind, it is read up to the horizon before more chunks are.
        if self._is_behind and self.position < settled.lsn:
            return None
        for oid, progress in self._tables.items():
            number = _next_number(progress)
            if number is not None:
                split_id = progress.split_id(number)
                self._tables[oid] = replace(progress, assigned={**progress.assigned, split_id: settled.lsn})
                return chunk_split(progress, number, settled)
        return None

    def window(self, first: int, most_bytes: int | None) -> LogWindow | None:
        """The next window of the log from ``first`` on; None if there is none now."""
        end = self.end
        if self.reads_chunks:
            if self._settled is None or not self.end - first > self._most_lag_bytes:
                return None
            held = [lsn for progress in self._tables.values() for lsn in progress.assigned.values()]
            end = min([end, self._settled.lsn, *held])
        if most_bytes is not None:
            end = min(end, first + max(1, most_bytes))
        if end <= first:
            return None
        return LogWindow(
            first=first,
            end=end,
            rules=tuple(progress.rules() for progress in self._tables.values()),
            known=tuple(table.oid for table in self._known),
            also_by_name=None if self._reads_tables else True,
            keys=self._table_keys or None,
        )

    def state(self) -> AssignerState:
        return AssignerState(
            known=tuple(self._known),
            tables=tuple(self._tables.values()),
            settled=self._settled,
            pending=self.pending,
            keys=self._table_keys,
            left=dict(self._left),
            renamed=self.renamed,
        )

    @property
    def _table_keys(self) -> tuple[TableKeys, ...]:
        return tuple(TableKeys(oid=oid, keys=keys) for oid, keys in self._keys.items())

    @property
    def _has_settled(self) -> bool:
        """Whether the settled horizon is at the position of the log or after it.

        While there are unread chunks, windows end at the settled horizon, so no planned window ends after it.
        """
        return self._settled is not None and self._settled.lsn >= self.position

    @property
    def _is_behind(self) -> bool:
        return self.end - self.position > self._most_lag_bytes


def chunk_split(progress: TableProgress, number: int, settled: Horizon) -> PostgresSplit:
    """The split of a chunk, to be read in a snapshot that sees everything before the horizon."""
    bounds = (None, *progress.bounds, None)
    return PostgresSplit(
        split_id=progress.split_id(number),
        chunk=TableChunk(
            table=progress.table,
            key=progress.key,
            lower=bounds[number],
            upper=bounds[number + 1],
            lsn=settled.lsn,
            horizon=settled.xid,
        ),
        rows=progress.rows[number],
    )


def _next_number(progress: TableProgress) -> int | None:
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
