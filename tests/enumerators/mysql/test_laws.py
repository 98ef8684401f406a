"""The mysql source keeps the laws of sources, on a real server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.testing import check_enumerator, check_reader, check_source
from tests.mysql_server import MysqlServer

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
"""Omits the columns of the change, because positions in the log differ from run to run."""
CHANGES = pa.schema(
    [*SCHEMA, pa.field("_op", pa.string()), pa.field("_pos", pa.int64()), pa.field("_seq", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Orders:
    """A table of twelve rows, which a query reads in chunks of three."""

    control: Any
    options: dict[str, str]
    numbers: Iterator[int]

    def execute(self, *statements: str) -> None:
        with self.control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def grow(self) -> None:
        """Insert three more rows."""
        first = 100 + 3 * next(self.numbers)
        self.execute("INSERT INTO orders VALUES " + ", ".join(f"({first + i}, 'more')" for i in range(3)))

    def update(self) -> None:
        """Change the value of every row."""
        self.execute(f"UPDATE orders SET v = 'update {next(self.numbers)}'")

    def change(self) -> None:
        """Update other rows each time, insert one, delete one, and move one."""
        number = next(self.numbers)
        self.execute(
            f"UPDATE orders SET v = 'change {number}' WHERE id % 6 = {number % 6}",
            f"INSERT INTO orders VALUES ({100 + number}, 'new')",
            f"DELETE FROM orders WHERE id = {99 + number}",
            "UPDATE orders SET id = IF(id = 5, 50, 5) WHERE id IN (5, 50)",
        )


@pytest.fixture
def orders(mysql: MysqlServer) -> Iterator[Orders]:
    with mysql.database() as database, mysql.connect(database) as control:
        options = mysql.options(database, tables="orders", snapshotChunkRows="3")
        orders = Orders(control, options, itertools.count())
        orders.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40))")
        orders.execute("INSERT INTO orders VALUES " + ", ".join(f"({i}, 'row {i}')" for i in range(1, 13)))
        yield orders


def replay(rows: Sequence[tuple[Any, ...]]) -> Mapping[int, str]:
    """The newest value of each key that is not deleted, in the order of the log."""
    found: dict[int, str] = {}
    for key, value, op, *_ in sorted(rows, key=lambda row: (row[3], row[4], "rdcu".index(row[2]))):
        if op == "d":
            found.pop(key, None)
        else:
            found[key] = value
    return found


def test_the_enumerator_keeps_the_laws(orders: Orders) -> None:
    check_enumerator({**orders.options, "snapshot": "only"})


def test_the_reader_keeps_the_laws(orders: Orders) -> None:
    check_reader({**orders.options, "snapshot": "only"}, schema=SCHEMA)


def test_a_snapshot_keeps_the_laws_while_rows_change(orders: Orders) -> None:
    check_source({**orders.options, "snapshot": "only"}, schema=SCHEMA, update=orders.update, fast=True)


def test_snapshot_and_log_keep_the_laws_while_rows_are_added(orders: Orders, tmp_path: Path) -> None:
    options = {**orders.options, "stateLocation": str(tmp_path)}
    check_source(options, schema=SCHEMA, grow=orders.grow, fast=True)


def test_snapshot_and_log_keep_the_laws_while_rows_change(
    mysql: MysqlServer, orders: Orders, tmp_path: Path
) -> None:
    check_source(
        {**orders.options, "stateLocation": str(tmp_path)},
        schema=CHANGES,
        change=orders.change,
        replay=replay,
        lose=mysql.purge_log,
        each_once=True,
        fast=True,
    )
