"""A pure model of PostgreSQL's transactions, snapshots and log, as exact as the assigner's rules require.

It contains what a simple model would omit:

- A commit is in the log before it is visible (for example, while it waits for a synchronous standby), and
  locks are held until it is visible.
- A snapshot's xmax follows the newest transaction that has ended, not the newest that has begun.
- Changes are in the log only if their table is published.
- A server that is killed forgets the end of the log that is not on disk, and assigns its ids again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flip27_source.enumerators.postgres.assigner import Horizon, Observation

FIRST_XID = (1 << 32) - 40
"""Chosen so that the epoch of transaction ids changes during a test."""

RECORD = 10
"""The size of a record in the log, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One change of a row, or of a whole table.

    Attributes:
        op: c, u, d or t; an update of a key is a d followed by a c.
        is_published: whether the log contains it.
    """

    table: int
    op: str
    key: int = 0
    value: int = 0
    is_published: bool = True


@dataclass(slots=True, kw_only=True)
class Transaction:
    xid: int
    writes: list[Write] = field(default_factory=list)
    commit: int | None = None
    """The position of the commit record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    xmin: int
    xmax: int
    in_progress: tuple[int, ...]

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.in_progress

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.in_progress))}"


class ModelServer:
    """A server with tables of integers by integer keys."""

    def __init__(self) -> None:
        self.end = 100
        self.running: list[Transaction] = []
        self.log: list[Transaction] = []
        """Transactions whose commit record is in the log, in the order of these records."""
        self.published: set[int] = set()
        self.durable = self.end
        """The end of the log on disk."""
        self._newest_logged = self._newest_durable = FIRST_XID - 1
        self.was_killed = False
        self._next_xid = FIRST_XID
        self._newest_ended = FIRST_XID - 1
        self._values = 0

    # Writers.

    def begin(self) -> None:
        self.running.append(Transaction(xid=self._new_xid()))

    def write(self, transaction: Transaction, table: int, key: int, kind: int) -> None:
        """Insert, update, delete or move a row; do nothing if another transaction holds a lock."""
        if transaction.commit is not None or self._is_locked(transaction, table, key):
            return
        rows = self._rows_for(transaction, table)
        self._values += 1
        if key not in rows:
            self._log(transaction, table, "c", key)
        elif kind == 0:
            self._log(transaction, table, "d", key)
        elif kind == 1:
            other = key + 7 if key < 10 else key - 7
            if other not in rows and not self._is_locked(transaction, table, other):
                self._log(transaction, table, "d", key)
                self._log(transaction, table, "c", other)
        else:
            self._log(transaction, table, "u", key)

    def truncate(self, transaction: Transaction, table: int) -> None:
        others = (other for other in self.running if other is not transaction)
        if transaction.commit is None and not any(w.table == table for o in others for w in o.writes):
            self._log(transaction, table, "t", 0)

    def write_commit(self, transaction: Transaction) -> None:
        """Write the commit record; the commit is not visible yet."""
        if transaction.commit is None:
            transaction.commit = self.end
            self._record(transaction.xid)
            self.flush()
            self.log.append(transaction)

    def end_of(self, transaction: Transaction) -> None:
        """Make a commit visible and release its locks; without a commit record, roll back."""
        self.running.remove(transaction)
        # A rollback writes a record, too; in this model, each transaction has an id from its beginning.
        self._newest_logged = max(self._newest_logged, transaction.xid)
        self._newest_ended = max(self._newest_ended, transaction.xid)

    def end_all(self) -> None:
        """Commit all transactions."""
        for transaction in list(self.running):
            self.write_commit(transaction)
            self.end_of(transaction)

    def kill(self) -> None:
        """Kill and restart the server: only transactions with a commit record on disk are committed."""
        self.was_killed = True
        self.running.clear()
        self.end = self.durable
        self._next_xid = self._newest_durable + 1
        self._newest_logged = self._newest_ended = self._newest_durable

    # Readers.

    def snapshot(self) -> Snapshot:
        xmax = self._newest_ended + 1
        running = tuple(sorted(t.xid for t in self.running if t.xid < xmax))
        return Snapshot(xmin=min((*running, xmax)), xmax=xmax, in_progress=running)

    def rows(self, table: int, snapshot: Snapshot) -> dict[int, int]:
        """Return the table in this snapshot. Locks put each row's changes in the order of their commits."""
        return _applied(w for t in self.log if snapshot.sees(t.xid) for w in t.writes if w.table == table)

    def observe(self, *, makes_horizon: bool) -> Observation:
        horizon = None
        if makes_horizon:
            horizon = Horizon(lsn=self.durable, xid=self._new_xid())
            self._newest_ended = horizon.xid
            self._newest_logged = max(self._newest_logged, horizon.xid)
        return Observation(end=self.durable, xmin=self.snapshot().xmin, lsn_after=self.end, horizon=horizon)

    def reach_id(self, xid: int) -> None:
        while self.snapshot().xmax <= xid:
            self._newest_ended = self._new_xid()
            self._record(self._newest_ended)
            self.flush()

    def window(self, first: int, end: int) -> list[Transaction]:
        """Return the transactions that commit in ``[first, end)``."""
        return [t for t in self.log if t.commit is not None and first <= t.commit < end]

    def _new_xid(self) -> int:
        self._next_xid += 1
        return self._next_xid - 1

    def _record(self, xid: int) -> None:
        self.end += RECORD
        self._newest_logged = max(self._newest_logged, xid)

    def flush(self) -> None:
        """Write the log to disk, as the server does by itself after some time."""
        self.durable, self._newest_durable = self.end, self._newest_logged

    def _rows_for(self, transaction: Transaction, table: int) -> dict[int, int]:
        """Return the rows that a statement of the transaction sees (READ COMMITTED)."""
        snapshot = self.snapshot()
        seen = [w for t in self.log if snapshot.sees(t.xid) for w in t.writes if w.table == table]
        return _applied([*seen, *(w for w in transaction.writes if w.table == table)])

    def _is_locked(self, transaction: Transaction, table: int, key: int) -> bool:
        return any(
            w.table == table and (w.op == "t" or w.key == key)
            for other in self.running
            if other is not transaction
            for w in other.writes
        )

    def _log(self, transaction: Transaction, table: int, op: str, key: int) -> None:
        self._record(transaction.xid)
        transaction.writes.append(
            Write(table=table, op=op, key=key, value=self._values, is_published=table in self.published)
        )


def _applied(writes: object) -> dict[int, int]:
    rows: dict[int, int] = {}
    for write in writes:  # type: ignore[attr-defined]
        if write.op == "t":
            rows.clear()
        elif write.op == "d":
            rows.pop(write.key, None)
        else:
            rows[write.key] = write.value
    return rows
