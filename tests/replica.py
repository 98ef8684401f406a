"""A copy of a table that is kept up to date by its changes, and sessions that write to the table.

Nothing here depends on Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

Change = tuple[Any, ...]
"""A row of the table below with ``changeFormat=typed``: id, name, note, then the columns of the change."""

TABLE = """
CREATE TABLE {name} (id {key} PRIMARY KEY, name text, note text);
ALTER TABLE {name} ALTER note SET STORAGE EXTERNAL;
"""
"""A long ``note`` is stored out of line, so that an update that does not change it does not log it."""

UNCHANGED = object()
"""Stands for a value that an update did not change and that the log does not contain."""

_OPS_IN_ORDER = "dcurt"


@dataclass(frozen=True, slots=True)
class Row:
    """A change with named columns."""

    id: Any
    name: str | None
    note: str | None
    op: str
    before: dict[str, Any] | None
    unchanged: list[str] | None
    lsn: int
    seq: int
    xid: int | None
    committed_at: Any
    table: str

    @property
    def order(self) -> tuple[int, int, int]:
        """A sort key for changes. An update of the key is a delete and an insert at the same position."""
        return self.lsn, self.seq, _OPS_IN_ORDER.index(self.op)


def ordered(rows: Iterable[Change]) -> list[Row]:
    """The changes in the order in which they were committed."""
    return sorted((Row(*row) for row in rows), key=lambda row: row.order)


class Replica:
    """Applies changes one after another.

    Args:
        is_exact: whether each change must fit the rows: an insert only where there is no row, an update or
            delete only where there is one. False if chunks were read again, as their rows may be newer.
    """

    def __init__(self, *, is_exact: bool = True) -> None:
        self.rows: dict[Any, tuple[Any, ...]] = {}
        self._is_exact = is_exact
        self._seen: set[tuple[Any, ...]] = set()

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the changes in the order of their commits.

        Raises:
            AssertionError: a change came twice, or does not fit.
        """
        for row in ordered(changes):
            identity = (row.lsn, row.seq, row.op, row.id)
            assert identity not in self._seen, f"this change was read twice: {row}"
            self._seen.add(identity)
            assert row.unchanged in (None, [], ["note"])
            self.change(row.op, row.id, (row.id, row.name, UNCHANGED if row.unchanged else row.note))

    def change(self, op: str, key: Any, row: tuple[Any, ...] = ()) -> None:
        """Apply one change, whose row may contain ``UNCHANGED``.

        Raises:
            AssertionError: the change does not fit.
        """
        before = self.rows.get(key)
        fits = op == "t" or (before is not None) == (op in "ud")
        assert fits or not self._is_exact, f"{op} of {key} does not fit: before it, there is {before}"
        if op == "t":
            self.rows.clear()
        elif op == "d":
            self.rows.pop(key, None)
        else:
            former = before or (None,) * len(row)
            self.rows[key] = tuple(old if v is UNCHANGED else v for old, v in zip(former, row, strict=True))


class Writers:
    """Sessions with open transactions, whose statements alternate; each session writes its own keys."""

    def __init__(self, connections: list[psycopg.Connection], table: str, *, seed: int) -> None:
        keys = [range(number, 60 * len(connections), len(connections)) for number in range(len(connections))]
        self._sessions = [_Session(*each, table) for each in zip(connections, keys, strict=True)]
        self._random = random.Random(seed)

    def act(self, times: int) -> None:
        """Let sessions chosen at random act ``times`` times in total."""
        for _ in range(times):
            self._random.choice(self._sessions).act(self._random)

    def finish(self) -> None:
        """End all transactions."""
        for session in self._sessions:
            session.end(self._random)

    def truncate(self) -> None:
        """Empty the table, once all transactions have ended."""
        self.finish()
        self._sessions[0].truncate()


class _Session:
    def __init__(self, connection: psycopg.Connection, keys: range, table: str) -> None:
        self._connection = connection
        self._table = table
        self._keys = keys
        self._is_open = False
        self._made = 0

    def act(self, rng: random.Random) -> None:
        if not self._is_open:
            self._connection.execute("BEGIN")
            self._is_open = True
        elif rng.random() < 0.3:
            self.end(rng)
            return
        if rng.random() < 0.15:
            self._connection.execute("SAVEPOINT s")
            for _ in range(rng.randrange(3)):
                self._write(rng)
            self._connection.execute("ROLLBACK TO s" if rng.random() < 0.5 else "RELEASE s")
        self._write(rng)

    def end(self, rng: random.Random) -> None:
        if self._is_open:
            self._connection.execute("ROLLBACK" if rng.random() < 0.2 else "COMMIT")
            self._is_open = False

    def truncate(self) -> None:
        self._connection.execute(f"TRUNCATE {self._table}")

    def _write(self, rng: random.Random) -> None:
        self._made += 1
        key, other = rng.choice(self._keys), rng.choice(self._keys)
        name = f"{self._made}:{key}"
        note = rng.choice(["", "short", "x" * 5000 + name, None])
        what = rng.random()
        if what < 0.4:
            self._connection.execute(
                f"INSERT INTO {self._table} VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET name = "
                "excluded.name",
                [key, name, note],
            )
        elif what < 0.6:
            self._connection.execute(f"UPDATE {self._table} SET name = %s WHERE id = %s", [name, key])
        elif what < 0.7:
            self._connection.execute(f"UPDATE {self._table} SET note = %s WHERE id = %s", [note, key])
        elif what < 0.85:
            self._connection.execute(f"DELETE FROM {self._table} WHERE id = %s", [key])
        elif self._connection.execute(f"SELECT FROM {self._table} WHERE id = %s", [other]).fetchone() is None:
            self._connection.execute(f"UPDATE {self._table} SET id = %s WHERE id = %s", [other, key])


def copy_of(changes: Iterable[Change], *, is_exact: bool = True) -> dict[Any, tuple[Any, ...]]:
    """The rows of a replica to which the changes were applied."""
    replica = Replica(is_exact=is_exact)
    replica.apply(changes)
    return replica.rows


def rows_of(connection: psycopg.Connection, table: str) -> dict[Any, tuple[Any, ...]]:
    """The rows of the table now, by key."""
    return {row[0]: row for row in connection.execute(f"SELECT id, name, note FROM {table}")}
