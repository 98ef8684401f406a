"""A table and a query that reads it, for tests of faults."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.postgres_server import PostgresServer

CREATE = "CREATE TABLE orders (id int PRIMARY KEY, name text)"


@dataclass
class FaultyShop:
    """A database with a table ``orders`` of ten rows, and the options of a query that reads it."""

    server: PostgresServer
    database: str
    options: dict[str, str]
    state: Path
    control: psycopg.Connection

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.control.execute(statement)

    def one(self, query: str, *values: Any) -> Any:
        ((value,),) = self.control.execute(query, values).fetchall()
        return value

    def reconnect(self) -> None:
        """Connect again after a restart of the server."""
        self.control.close()
        self.control = self.server.connect(self.database)

    def engine(self, schema: pa.Schema | None = None, **more: str) -> MicroBatchEngine:
        """Return a query, which finds the columns of the table itself unless a schema is given."""
        evolution = {"schemaEvolutionMode": "addNewColumns"} if schema is None else {}
        return MicroBatchEngine({**self.options, **evolution, **more}, schema=schema)

    @property
    def slot(self) -> str:
        return slot_name_of(Source.resolve(self.options).options)

    def ops(self, engine: MicroBatchEngine) -> list[tuple[str, int | None, str | None]]:
        """Return the operation, id and name of all changes, in the order of the log."""
        at = {name: engine.schema.names.index(name) for name in ("_op", "id", "name", "_lsn", "_seq")}
        rows = sorted(engine.rows, key=lambda row: (row[at["_lsn"]], row[at["_seq"]], row[at["_op"]] == "c"))
        return [(row[at["_op"]], row[at["id"]], row[at["name"]]) for row in rows]


def caught_up(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Restart the query in a run that reads everything available and ends; return the query."""
    engine.restart(available_now=True)
    engine.process_all_available()
    return engine


@contextmanager
def faulty_shop(server: PostgresServer, *, rows: int = 10, **options: str) -> Iterator[FaultyShop]:
    """Make a shop; its database and its state are removed at the end."""
    with ExitStack() as stack:
        database = stack.enter_context(server.database())
        control = server.connect(database)
        control.execute(CREATE)
        control.execute(f"INSERT INTO orders SELECT n, 'n' || n FROM generate_series(1, {rows}) n")
        location = stack.enter_context(tempfile.TemporaryDirectory())
        given = {
            "enumerator": "postgres", "host": "127.0.0.1", "port": str(server.port), "database": database,
            "user": "postgres", "tables": "public.orders", "snapshotChunkRows": "4",
            "stateLocation": location, "slotTimeout": "1s", **options,
        }  # fmt: skip
        shop = FaultyShop(
            server=server, database=database, options=given, state=Path(location), control=control
        )
        try:
            yield shop
        finally:
            shop.control.close()
