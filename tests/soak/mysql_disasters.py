"""Kills processes while a query copies MariaDB tables, and the server, while the tables are written."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from tests.mysql_server import HOST, SUPERUSER, MysqlServer, mysql_server
from tests.replica import Replica

from .server_disasters import PROCESSES, ServerDisasters
from .shapes import Count, Shape
from .table_copies import IN_SMALL_PARTS, LEAD_STATEMENTS, LONGEST_PAUSE_S, STATEMENTS_PER_BATCH, Written

SERVER = "server"
ROWS = 3_000
KEYS = 3_200
MOST_STATEMENTS = 30


class MysqlCopy(Shape):
    """Copies all tables of a database to Parquet: rows first, then changes."""

    name = "mysql-copy"
    feeds = ()

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        options = {
            **json.loads(self.given["mysql"]),
            "tables": "*",
            **self.places.state_options("copy"),
            **IN_SMALL_PARTS,
        }
        return self._to_lake(spark.readStream.format("flip27").options(**options, **self.run_options).load())

    def count(self, arrived: int) -> Count:
        """Compare each table with its copy; no change may have arrived twice."""
        given = json.loads(self.given["mysql"])
        by_table: dict[str, list[dict[str, Any]]] = {}
        for row in self._lake_rows():
            by_table.setdefault(row["_table"].rpartition(".")[2], []).append(row)
        rows: Counter[Any] = Counter()
        expected: Counter[Any] = Counter()
        told = []
        with (
            pymysql.connect(
                host=HOST, port=int(given["port"]), user=SUPERUSER, database=given["database"]
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW TABLES")
            for (table,) in cursor.fetchall():
                changes = by_table.get(table, [])
                seen = Counter((row["_pos"], row["_seq"], row["_op"], row["id"]) for row in changes)
                told += [f"{table}: {each} came {n} times" for each, n in seen.items() if n > 1 and each[1]]
                rows.update((table, *row) for row in _copy_of(changes).rows.values())
                cursor.execute(f"SELECT id, name, note FROM {table}")
                expected.update((table, *row) for row in cursor.fetchall())
        count = Count.of(rows, expected.elements(), "; ".join(told[:20]))
        return replace(count, rows=sum(map(len, by_table.values())))


def _copy_of(changes: list[dict[str, Any]]) -> Replica:
    replica = Replica(is_exact=False)
    for row in sorted(changes, key=lambda row: (row["_pos"], row["_seq"], "rdcut".index(row["_op"]))):
        replica.change(row["_op"], row["id"], (row["id"], row["name"], row["note"]))
    return replica


class WrittenDatabase(Written):
    away = (pymysql.err.OperationalError, pymysql.err.InterfaceError)

    def add(self) -> None:
        name = f"orders_{len(self._tables)}"
        with self._server.connect(self._database) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, name VARCHAR(40), note TEXT)")
            cursor.execute(f"INSERT INTO {name} SELECT seq, CONCAT('n', seq), 'note' FROM seq_1_to_{ROWS}")
        self._tables.append(name)

    def _write_while_connected(self, stop: threading.Event, batches: Callable[[], int]) -> None:
        with self._server.connect(self._database) as connection, connection.cursor() as cursor:
            while not stop.wait(self._chance.uniform(0.0, LONGEST_PAUSE_S)):
                if self.statements > LEAD_STATEMENTS + STATEMENTS_PER_BATCH * batches():
                    continue
                table = self._chance.choice(self._tables)
                if self._empties_one:
                    self._empties_one = False
                    cursor.execute(f"TRUNCATE {table}")
                cursor.execute("START TRANSACTION")
                for _ in range(self._chance.randint(1, MOST_STATEMENTS)):
                    cursor.execute(self._statement(table))
                    self.statements += 1
                cursor.execute(self._chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
                if self._chance.random() < 0.02:
                    cursor.execute("FLUSH BINARY LOGS")

    def _statement(self, table: str) -> str:
        key, other = self._chance.randint(1, KEYS), self._chance.randint(1, KEYS)
        name = f"{self.statements}:{key}"
        return self._chance.choice(
            [
                f"REPLACE INTO {table} VALUES ({key}, '{name}', REPEAT('x', {key}))",
                f"UPDATE {table} SET name = '{name}' WHERE id BETWEEN {key} AND {key + 3}",
                f"DELETE FROM {table} WHERE id = {key}",
                f"UPDATE IGNORE {table} SET id = {other} WHERE id = {key}",
            ]
        )


class MysqlDisasters(ServerDisasters):
    """A given number of kills while tables are copied; no other faults."""

    shape = MysqlCopy
    victims: ClassVar[Mapping[str, int]] = {SERVER: 30, **PROCESSES}
    server = SERVER
    away = re.compile(r"Lost connection|Can't connect|closed the connection|has gone away|refused|reset")

    def __init__(self, root: Path, server: MysqlServer, database: str, *, seed: int, **more: Any) -> None:
        self.tables = WrittenDatabase(server, database, seed)
        super().__init__(root, {"mysql": json.dumps(server.options(database))}, seed=seed, **more)

    @property
    def _written(self) -> WrittenDatabase:
        return self.tables


@contextmanager
def mysql_disasters(root: Path, **more: Any) -> Iterator[MysqlDisasters]:
    """The disasters with a new server, which is stopped at the end."""
    with mysql_server() as server, server.database() as database:
        yield MysqlDisasters(root, server, database, **more)
