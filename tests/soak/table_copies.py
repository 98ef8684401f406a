"""PostgreSQL tables that are written while queries copy them, and are compared with the copies at the end."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from tests.postgres_server import PostgresServer
from tests.replica import Replica, Writers, rows_of
from tests.table_audit import AUDIT, audited_table, complaints

from .shapes import Count, Shape

ROWS = 3_000
SESSIONS = 3
LONGEST_PAUSE_S = 0.1
KILLS_PER_TABLE = 5
"""The number of kills after which a table is added."""
TRUNCATES = 0.3
"""The probability that a table is emptied after a kill."""
MOST_STATEMENTS = 30
LEAD_STATEMENTS = 3_000
STATEMENTS_PER_BATCH = 300
"""Sessions may run LEAD_STATEMENTS, plus STATEMENTS_PER_BATCH for each batch that the query has committed."""


IN_SMALL_PARTS = {
    "parallelism": "2",
    "snapshotChunkRows": "200",
    "maxRowsPerTrigger": "1000",
    "maxBytesPerTrigger": "64k",
    "maxLogLagDuringSnapshot": "16k",
    "discoveryInterval": "50ms",
}


class TableCopy(Shape):
    """Copies all tables of the schema ``public`` to Parquet: rows first, then changes."""

    name = "table-copy"
    feeds = ()

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        options = {
            **json.loads(self.given["postgres"]),
            "tables": "public.*",
            **self.places.state_options("copy"),
            **IN_SMALL_PARTS,
            "heartbeatBytes": "64k",
        }
        return self._to_lake(spark.readStream.format("flip27").options(**options, **self.run_options).load())

    def letters(self) -> Counter[str]:
        """The number of rows in the sink by ``_op``."""
        return Counter(row["_op"] for row in self._lake_rows())

    def count(self, arrived: int) -> Count:
        """Compare each table with its copy, and each change with what the triggers have recorded."""
        given = json.loads(self.given["postgres"])
        by_table: dict[str, list[tuple[Any, ...]]] = {}
        for row in self._lake_rows():
            by_table.setdefault(row["_table"], []).append(tuple(row.values()))
        rows: Counter[Any] = Counter()
        expected: Counter[Any] = Counter()
        told = []
        with psycopg.connect(
            host=given["host"], port=given["port"], dbname=given["database"], user=given["user"]
        ) as connection:
            tables = connection.execute(
                "SELECT 'public.' || tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            for (table,) in tables:
                changes = by_table.get(table, [])
                replica = Replica(is_exact=False)
                try:
                    replica.apply(changes)
                except AssertionError as error:
                    told.append(f"{table}: {error}")
                told += complaints(connection, table, changes)
                rows.update((table, *row) for row in replica.rows.values())
                expected.update((table, *row) for row in rows_of(connection, table).values())
        count = Count.of(rows, expected.elements(), "; ".join(told[:20]))
        return replace(count, rows=sum(map(len, by_table.values())))


class Written(ABC):
    """Tables in a database, and sessions that write to them whenever the server is up.

    Attributes:
        statements: the number of statements that were run.
        away: the errors of a session whose server is away.
    """

    away: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, server: Any, database: str, seed: int) -> None:
        self._server = server
        self._database = database
        self._chance = random.Random(seed)
        self._tables: list[str] = []
        self._kills = 0
        self._empties_one = False
        self.statements = 0
        self.add()

    @abstractmethod
    def add(self) -> None:
        """Add a table with rows."""

    def grow(self) -> None:
        """Now and then add a table, or have one emptied among other statements; called after each kill."""
        self._kills += 1
        if self._kills % KILLS_PER_TABLE == 0:
            self.add()
        self._empties_one |= self._chance.random() < TRUNCATES

    @contextmanager
    def server_is_away(self) -> Iterator[None]:
        """Kill the server; start it again at the end."""
        self._server.kill()
        yield
        self._server.start()

    def write(self, stop: threading.Event, batches: Callable[[], int]) -> None:
        """Write until ``stop`` is set, with new sessions after each kill of the server.

        Args:
            batches: returns the number of batches that the query has committed.
        """
        while not stop.is_set():
            with contextlib.suppress(*self.away):
                self._write_while_connected(stop, batches)
            stop.wait(0.05)

    @abstractmethod
    def _write_while_connected(self, stop: threading.Event, batches: Callable[[], int]) -> None:
        """Write until ``stop`` is set or the server is killed."""


class WrittenTables(Written):
    away = (psycopg.OperationalError, psycopg.InterfaceError)

    def __init__(self, server: PostgresServer, database: str, seed: int) -> None:
        with server.connect(database) as connection:
            connection.execute(AUDIT)
        super().__init__(server, database, seed)

    def add(self) -> None:
        name = f"public.orders_{len(self._tables)}"
        with self._server.connect(self._database) as connection:
            connection.execute(audited_table(name, ROWS))
        self._tables.append(name)

    def _write_while_connected(self, stop: threading.Event, batches: Callable[[], int]) -> None:
        with contextlib.ExitStack() as stack:
            sessions = [
                stack.enter_context(contextlib.closing(self._server.connect(self._database)))
                for _ in range(SESSIONS)
            ]
            writers: dict[str, Writers] = {}
            while not stop.wait(self._chance.uniform(0.0, LONGEST_PAUSE_S)):
                if self.statements > LEAD_STATEMENTS + STATEMENTS_PER_BATCH * batches():
                    # The query waits for open transactions, and so must not wait for them in turn.
                    for found in writers.values():
                        found.finish()
                    continue
                table = self._chance.choice(self._tables)
                if table not in writers:
                    for other in writers.values():
                        other.finish()
                    writers = {table: Writers(sessions, table, seed=self._chance.randrange(1 << 32))}
                times = self._chance.randint(1, MOST_STATEMENTS)
                writers[table].act(times)
                self.statements += times
                if self._empties_one:
                    self._empties_one = False
                    writers[table].truncate()
            for found in writers.values():
                found.finish()
