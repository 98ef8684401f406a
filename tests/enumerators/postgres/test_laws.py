"""The postgres source keeps the laws of sources, on a real server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from flip27_source.enumerators.postgres import server
from flip27_source.readers.postgres import reader
from flip27_source.testing import check_enumerator, check_reader, check_source
from tests.postgres_server import PostgresServer

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})
"""Omits the columns of the change, because positions in the log differ from run to run."""
CHANGES = SCHEMA.append(pa.field("_op", pa.string()))


@dataclass(frozen=True, slots=True)
class Orders:
    """A table of nine rows, which a query reads in chunks of three."""

    control: psycopg.Connection
    options: dict[str, str]
    numbers: Iterator[int]

    def grow(self) -> None:
        """Insert three more rows."""
        self.control.execute(
            "INSERT INTO orders SELECT %s * 3 + i, 'more' FROM generate_series(1, 3) i",
            [100 + next(self.numbers)],
        )

    def update(self) -> None:
        """Change the value of every row."""
        self.control.execute("UPDATE orders SET v = 'update ' || %s::text", [next(self.numbers)])

    def change(self) -> None:
        """Update other rows each time, insert one, delete one, and move one."""
        number = next(self.numbers)
        self.control.execute(f"UPDATE orders SET v = 'change {number}' WHERE id % 6 = {number % 6}")
        self.control.execute(f"INSERT INTO orders VALUES ({100 + number}, 'new')")
        self.control.execute(f"DELETE FROM orders WHERE id = {99 + number}")
        self.control.execute("UPDATE orders SET id = CASE id WHEN 5 THEN 50 ELSE 5 END WHERE id IN (5, 50)")

    def lose(self) -> None:
        """Move the slot to the end of the log, as another reader of it would."""
        self.control.execute(
            "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_flush_lsn()) "
            "FROM pg_replication_slots WHERE database = current_database()"
        )


@pytest.fixture
def orders(postgres: PostgresServer) -> Iterator[Orders]:
    with postgres.database() as database, postgres.connect(database) as control:
        control.execute("CREATE TABLE orders (id bigint PRIMARY KEY, v text)")
        control.execute("INSERT INTO orders SELECT i, 'row ' || i FROM generate_series(1, 9) i")
        options = postgres.options(database, tables="orders", snapshotChunkRows="3", slotName=database)
        yield Orders(control, options, itertools.count())


def replay(rows: Sequence[tuple[Any, ...]]) -> Mapping[int, str]:
    """The newest value of each key that is not deleted."""
    found: dict[int, str] = {}
    for key, value, op in rows:
        if op == "d":
            found.pop(key, None)
        else:
            found[key] = value
    return found


def test_the_enumerator_keeps_the_laws(orders: Orders) -> None:
    check_enumerator({**orders.options, "snapshot": "only"})


def test_the_reader_keeps_the_laws(
    postgres: PostgresServer, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The event of a chunk has the position where the log ended, which a record of the server's own moves, as
    # does the reader's message to a server that does not write its log to disk in time.
    monkeypatch.setattr(reader, "await_durable", lambda *_: None)
    with postgres.only_sessions_write():
        check_reader({**orders.options, "snapshot": "only"}, schema=SCHEMA)


def test_a_snapshot_keeps_the_laws_while_rows_change(orders: Orders) -> None:
    check_source({**orders.options, "snapshot": "only"}, schema=SCHEMA, update=orders.update, fast=True)


@pytest.fixture
def followed(
    postgres: PostgresServer, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The options of a query that reads the snapshot and the log, and many times with one slot."""
    # The checks also go back to earlier states, so the slot must keep the log of complete batches.
    for module in (server, reader):
        monkeypatch.setattr(module, "advance_if_unused", lambda *_: None)
    # The state location identifies the query.
    # The checks regard a source as idle as soon as it has no batch: with heartbeatBytes, any new byte of the
    # log makes a batch.
    # With this option, even a record that the server writes by itself counts as new.
    with postgres.only_sessions_write():
        yield {**orders.options, "stateLocation": str(tmp_path), "heartbeatBytes": "1"}


def test_snapshot_and_log_keep_the_laws_while_rows_are_added(
    orders: Orders, followed: dict[str, str]
) -> None:
    check_source(followed, schema=SCHEMA, grow=orders.grow, fast=True)


def test_snapshot_and_log_keep_the_laws_while_rows_change(orders: Orders, followed: dict[str, str]) -> None:
    check_source(
        followed,
        schema=CHANGES,
        change=orders.change,
        replay=replay,
        lose=orders.lose,
        each_once=True,
        fast=True,
    )
