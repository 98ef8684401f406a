"""Queries of the postgres source for tests, and copies of tables made from their changes."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.database import TestedDatabase
from tests.postgres_server import PostgresServer
from tests.replica import UNCHANGED, Replica

META = [
    pa.field("_op", pa.string()),
    pa.field("_unchanged", pa.list_(pa.string())),
    pa.field("_lsn", pa.int64()),
    pa.field("_seq", pa.int64()),
    pa.field("_table", pa.string()),
]
_OPS_IN_ORDER = "dcurt"


class Query(TestedDatabase):
    """A database and a query that reads all columns of its tables as text.

    Args:
        statements: run before the query is made.
        columns: the columns of the table that are read.
        key: the columns that identify a row; empty if there are none.
    """

    def __init__(
        self,
        options: dict[str, str],
        *statements: str,
        server: PostgresServer,
        columns: Sequence[str],
        key: Sequence[str],
    ) -> None:
        super().__init__(server=server, name=options["database"])
        self.execute(*statements)
        self._tables, self._columns, self._key = options["tables"], tuple(columns), tuple(key)
        schema = pa.schema([*(pa.field(name, pa.string()) for name in columns), *META])
        self.engine = MicroBatchEngine(options, schema=schema)
        self.slot = slot_name_of(self.engine.source.options)

    def close(self) -> None:
        self.engine.stop()
        super().close()

    def batches(self, most: int = 50) -> int:
        """Run batches until nothing is left; return their number."""
        for number in range(most):
            if not self.engine.logs.has_uncommitted and not self.engine.trigger():
                return number
            self.engine.run_batch()
        raise AssertionError(f"{most} batches were not enough to read everything")

    def until_planned(self) -> None:
        """Plan a batch without running its tasks."""
        for _ in range(50):
            if self.engine.trigger():
                return
        raise AssertionError("no batch was planned")

    def catch_up(self) -> None:
        """Read everything that is available, in a run that ends."""
        self.engine.restart(available_now=True)
        self.engine.process_all_available()

    def write(self, *statements: str) -> None:
        """Run these statements, and read everything that is available."""
        self.execute(*statements)
        self.catch_up()

    def restart_without_end(self) -> None:
        self.engine.restart(available_now=False)

    def read_all(self) -> None:
        """Run batches until nothing is left, then a run that ends."""
        self.batches()
        self.catch_up()

    def until_rows(self, most: int = 1) -> None:
        """Run batches until there are ``most`` rows of the snapshot."""
        while sum(op == "r" for op, _ in self.ops()) < most:
            self.until_planned()
            self.engine.run_batch()

    def write_among_chunks(self, *statements: str, later: Sequence[str] = ()) -> None:
        """Write between the plan of the chunks and their reads, and later; then check the copy."""
        self.until_planned()
        self.execute(*statements)
        self.engine.run_batch()
        self.batches()
        self.write(*later)
        self.check_copy()

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The changes, in the order of their commits."""
        names = self.engine.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in self.engine.rows]
        return sorted(rows, key=lambda row: (row["_lsn"], row["_seq"], _OPS_IN_ORDER.index(row["_op"])))

    def ops(self, column: str = "") -> list[tuple[str, str | None]]:
        """Return the operation and one column of every change."""
        return [(row["_op"], row[column or self._columns[0]]) for row in self.changes]

    def copy(self, *, is_exact: bool = True) -> list[tuple[str | None, ...]]:
        """Return the rows of a copy made from the changes, sorted. If it is exact, each change must fit."""
        replica = Replica(is_exact=is_exact)
        for change in self.changes:
            unchanged = change["_unchanged"] or ()
            row = tuple(UNCHANGED if name in unchanged else change[name] for name in self._columns)
            replica.change(change["_op"], tuple(change[name] for name in self._key), row)
        return sorted(replica.rows.values(), key=repr)

    def check_copy(self, *tables: str, is_exact: bool = True) -> None:
        """Check that the copy equals the tables: those of the option unless others are given."""
        rows = [row for name in tables or [self._tables] for row in self.table(name)]
        assert self.copy(is_exact=is_exact) == sorted(rows, key=repr)

    def inserted(self) -> Counter[tuple[str | None, ...]]:
        """Return the rows of a table whose rows are only inserted."""
        assert {change["_op"] for change in self.changes} <= {"r", "c"}
        return Counter(tuple(change[name] for name in self._columns) for change in self.changes)

    def table(self, name: str) -> list[tuple[str | None, ...]]:
        """Return the present rows of the table, as text, sorted."""
        listed = ", ".join("format('%s', \"" + column.replace('"', '""') + '")' for column in self._columns)
        return sorted((tuple(row) for row in self.control.execute(f"SELECT {listed} FROM {name}")), key=repr)


@contextmanager
def query(
    server: PostgresServer,
    *statements: str,
    tables: str = "orders",
    columns: Sequence[str] = ("id", "v"),
    key: Sequence[str] = ("id",),
    **options: str,
) -> Iterator[Query]:
    """Run these statements in a new database; yield a query of its tables in chunks of three rows."""
    with server.database() as name, tempfile.TemporaryDirectory() as location:
        of_snapshot = {"snapshotChunkRows": "3", "maxLogLagDuringSnapshot": "1k", "stateLocation": location}
        given = server.options(name, tables=tables, **{**of_snapshot, **options})
        with closing(Query(given, *statements, server=server, columns=columns, key=key)) as found:
            yield found
