"""Queries of the mysql source for tests, and copies of tables made from their changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.errors import Flip27Error
from flip27_source.testing import MicroBatchEngine
from tests.mysql_server import MysqlServer
from tests.replica import Replica

_OPS_IN_ORDER = "dcurt"


class Query:
    """A database and a query that reads its tables.

    Args:
        key: the column that identifies a row.
        schema: the columns that are read; None for all.
    """

    def __init__(
        self, server: MysqlServer, options: dict[str, str], *, key: str, schema: pa.Schema | None = None
    ) -> None:
        self.server = server
        self.options = options
        self._key = key
        self._schema = schema
        self._control = server.connect(options["database"])
        self._engine: MicroBatchEngine | None = None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.stop()
        self._control.close()

    @property
    def engine(self) -> MicroBatchEngine:
        """Made when it is needed first: the table has to exist by then."""
        if self._engine is None:
            self._engine = MicroBatchEngine(self.options, schema=self._schema)
        return self._engine

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run these statements; return the rows of the last one."""
        with self._control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if statements else []

    def reconnect(self) -> None:
        """Open the connection again, after the server was started again."""
        self._control = self.server.connect(self.options["database"])

    def move_to(self, server: MysqlServer) -> None:
        """Write to another server from now on, and start the query again with it."""
        self._control.close()
        self.server = server
        self.options |= {"port": str(server.port)}
        self.reconnect()
        self.engine.restart(options={"port": str(server.port)})

    def batches(self, most: int = 50) -> None:
        """Run batches until nothing is left."""
        for _ in range(most):
            if not self.engine.logs.has_uncommitted and not self.engine.trigger():
                return
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

    def write(self, *statements: str) -> list[dict[str, Any]]:
        """Run these statements, and return the changes that are read then."""
        seen = len(self.engine.rows)
        self.execute(*statements)
        self.catch_up()
        return self.changes_from(seen)

    def changes_from(self, number: int = 0) -> list[dict[str, Any]]:
        """The changes that were read, in the order of their commits."""
        names = self.engine.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in self.engine.rows[number:]]
        return sorted(rows, key=lambda row: (row["_pos"], row["_seq"], _OPS_IN_ORDER.index(row["_op"])))

    def copy(self, *, is_exact: bool = True) -> list[tuple[Any, ...]]:
        """The rows of a copy made from the changes, sorted; if it is exact, each change must fit."""
        replica = Replica(is_exact=is_exact)
        for change in self.changes_from():
            names = [name for name in change if not name.startswith("_")]
            replica.change(change["_op"], change[self._key], tuple(change[name] for name in names))
        return sorted(replica.rows.values(), key=repr)

    def check_copy(self, table: str = "orders", *, is_exact: bool = True) -> None:
        """Check that the copy equals the table."""
        rows = self.execute(f"SELECT * FROM {table}")
        assert self.copy(is_exact=is_exact) == sorted(rows, key=repr)


def values_of(changes: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(change[name] for name in names) for change in changes]


def fails(orders: Query, kind: type[Exception], text: str) -> None:
    with pytest.raises(Flip27Error, match=text) as caught:
        orders.catch_up()
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    assert error is not None, f"{caught.value!r} does not come from a {kind.__name__}"


@contextmanager
def query(
    server: MysqlServer,
    *statements: str,
    tables: str = "orders",
    key: str = "id",
    schema: pa.Schema | None = None,
    **options: str,
) -> Iterator[Query]:
    """Run these statements in a new database; yield a query of its tables in chunks of three rows."""
    with server.database() as name, tempfile.TemporaryDirectory() as location:
        given = server.options(
            name, tables=tables, **{"snapshotChunkRows": "3", "stateLocation": location, **options}
        )
        with closing(Query(server, given, key=key, schema=schema)) as found:
            found.execute(*statements)
            yield found
