"""A table and queries that read it, for tests of faults."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.database import TestedDatabase
from tests.postgres_server import PostgresServer
from tests.replica import Replica

Change = tuple[str, int | None, str | None]
"""The operation, id and name of a change."""

CREATE = "CREATE TABLE orders (id int PRIMARY KEY, name text)"
OTHER = "CREATE TABLE other (id int PRIMARY KEY, name text)"


class FaultyShop(TestedDatabase):
    """A database with a table ``orders``, and the options of a query that reads it."""

    def __init__(self, *, server: PostgresServer, name: str, options: dict[str, str]) -> None:
        super().__init__(server=server, name=name)
        self.options = options
        self.slot = slot_name_of(Source.resolve(options).options)

    def engine(
        self, schema: pa.Schema | None = None, *, after: MicroBatchEngine | None = None, **more: str
    ) -> MicroBatchEngine:
        """Return a query, which finds the columns of the table itself unless a schema is given.

        Args:
            after: the query before a restart with other options: its logs and its sink stay.
        """
        evolution = {"schemaEvolutionMode": "addNewColumns"} if schema is None else {}
        engine = MicroBatchEngine({**self.options, **evolution, **more}, schema=schema)
        if after is not None:
            engine.logs, engine.sink = after.logs, after.sink
            after.stop()
        return engine

    def read(self, schema: pa.Schema | None = None, **options: str) -> MicroBatchEngine:
        """Return a query that has read its snapshot of ten rows."""
        engine = caught_up(self.engine(schema, **options))
        assert len(engine.rows) == 10
        return engine

    def ops(self, engine: MicroBatchEngine) -> list[Change]:
        """Return all changes in the order of the log."""
        at = {name: engine.schema.names.index(name) for name in ("_op", "id", "name", "_lsn", "_seq")}
        rows = sorted(engine.rows, key=lambda row: (row[at["_lsn"]], row[at["_seq"]], row[at["_op"]] == "c"))
        return [(row[at["_op"]], row[at["id"]], row[at["name"]]) for row in rows]

    def changes(self, engine: MicroBatchEngine) -> list[Change]:
        """Return the changes after the snapshot."""
        return [change for change in self.ops(engine) if change[0] != "r"]

    def check_copy(self, engine: MicroBatchEngine, *, is_exact: bool = True) -> None:
        """Check that the result of the changes is the table; if it is exact, each fits those before it."""
        replica = Replica(is_exact=is_exact)
        for op, key, name in self.ops(engine):
            replica.change(op, key, (key, name))
        assert sorted(replica.rows.values()) == sorted(self.rows("SELECT id, name FROM orders"))


def caught_up(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Restart the query in a run that reads everything available and ends; return the query."""
    engine.restart(available_now=True)
    engine.process_all_available()
    return engine


def planned(engine: MicroBatchEngine, *, available_now: bool = True) -> MicroBatchEngine:
    """Restart the query and plan a batch; return the query."""
    engine.restart(available_now=available_now)
    while not engine.trigger():
        assert not available_now, "no batch was planned"
    return engine


def running(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Restart the query in a run without an end, up to its first poll; return the query."""
    engine.restart(available_now=False)
    engine.run_batch()
    return engine


def has_read(engine: MicroBatchEngine, rows: int = 1) -> MicroBatchEngine:
    """Run batches until the query has read this many rows; return the query."""
    while len(engine.rows) < rows:
        engine.run_batch()
    return engine


@contextmanager
def faulty_shop(server: PostgresServer, *, rows: int = 10, **options: Any) -> Iterator[FaultyShop]:
    """Make a shop with ``rows`` rows; its database and its state are removed at the end."""
    with server.database() as name, tempfile.TemporaryDirectory() as location:
        of_shop = {"tables": "public.orders", "snapshotChunkRows": "4", "slotTimeout": "1s"}
        given = server.options(name, stateLocation=location, **{**of_shop, **options})
        with closing(FaultyShop(server=server, name=name, options=given)) as shop:
            shop.execute(CREATE)
            shop.execute(f"INSERT INTO orders SELECT n, 'n' || n FROM generate_series(1, {rows}) n")
            yield shop
