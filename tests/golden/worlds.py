"""What stories read: files, models of servers without faults, and a database; always the same.

On the PostgreSQL server, transactions commit while a story is played. Their positions and ids do not depend
on what the query itself has written to the log: a query that is restarted finds them where it has read them.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import fsspec
import psycopg
import pytest

from flip27_source.enumerators.kafka.client_properties import ClientProperties, client_properties
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.options import Options
from flip27_source.readers.http_api import connections
from flip27_source.readers.kafka import reader as kafka_reader
from flip27_source.readers.kafka.consumers import close_idle_consumers
from tests.driver.test_reports import SERVER
from tests.enumerators.postgres.model_server import FIRST_XID
from tests.http_api import HttpApi
from tests.simulator.postgres_server import PostgresServer, Slot
from tests.simulator.postgres_sessions import Session, connect_to_model
from tests.simulator.process import Process
from tests.simulator.topics import Log, LogEnumerator, Record, SimulatedCluster, SimulatedMessage
from tests.timed_lines import line_of

LANDING = "memory://golden/landing"
AT = datetime(2026, 11, 20, tzinfo=UTC)
"""The time of everything that the clock of the query does not time."""


def _land(contents: Mapping[str, str]) -> None:
    files = fsspec.filesystem("memory")
    if files.exists("/golden"):
        files.rm("/golden", recursive=True)
    for name, content in contents.items():
        files.pipe(f"/golden/landing/{name}", content.encode())
        files.store[f"/golden/landing/{name}"].created = AT


@contextmanager
def landing() -> Iterator[None]:
    """Five files in memory, each with its name as its only line."""
    _land({name: f"{name}\n" for name in ("1", "2", "3", "4", "5")})
    yield


@contextmanager
def timed_landing() -> Iterator[None]:
    """Two files of several hours, and one of an hour."""
    _land(
        {
            "0-2_a": line_of("a0", 0) + line_of("a2", 2) + line_of("a", None),
            "1-3_b": line_of("b1", 1) + line_of("b3", 3) + line_of("b9", 9),
            "2-2_c": line_of("c2", 2),
        }
    )
    yield


@contextmanager
def pages() -> Iterator[None]:
    """The server of the toy source of pages."""
    SERVER.clear()
    SERVER.update(orders=list("abcdef"), refunds=["x", "END"])
    yield


def _say_nothing(_: str) -> None:
    pass


class Shop(PostgresServer):
    """A PostgreSQL server on which only the query and the transactions of a story do something.

    Attributes:
        present: the server on which sessions are opened.
        refuses: the purpose of sessions that it refuses.
    """

    present: ClassVar[Shop]
    TRANSACTIONS: ClassVar = (
        [*(("t0", "c", str(key)) for key in range(1, 11)), ("t1", "c", "1")],
        [("t0", "u", "1"), ("t0", "u", "10"), ("t1", "u", "1")],
        [("t0", "d", "1"), ("t0", "u", "10")],
        [("t0", "u", "2"), ("t0", "u", "10")],
        [("t0", "c", "11"), ("t1", "d", "1")],
    )
    """The changes of each transaction: table, operation and key."""

    def __init__(self) -> None:
        super().__init__(random.Random(27), _say_nothing)
        self.refuses: str | None = None
        self.version = 180_000
        self.calm()
        self.create_publication("tables", self.tables.values())
        self.slot = Slot(self.durable, self.durable)

    @classmethod
    def opened(cls, transactions: int) -> None:
        """Open a new server after so many transactions."""
        cls.present = cls()
        for _ in range(transactions):
            cls.present.commit_next()

    def commit_next(self) -> None:
        """Commit the next transaction."""
        number = len(self.log)
        self.reach_id(FIRST_XID + 100 * (number + 1))
        position = 100_000 * (number + 1)
        assert self.end < position
        self.end = position
        self.begin()
        for name, op, key in self.TRANSACTIONS[number]:
            table = self.table_named("public", name)
            assert table is not None
            before = self.rows_of(table.oid, self.snapshot(), self.running[-1]).get(int(key))
            after = None if op == "d" else (key, key, f"{op}{number}")
            self._log(self.running[-1], table, op, int(key), before, after)
        self._end(self.running[-1])

    @classmethod
    def session(cls, *, application_name: str, **_: Any) -> Session:
        """A session, during which nothing else happens on the server."""
        if application_name == f"flip27 {cls.present.refuses}":
            raise psycopg.OperationalError("sorry, too many clients already")
        process = Process("golden", _Undisturbed(), is_driver=True)
        return Session(cls.present, process, 0, lambda: None)

    def _make_tables(self, _: str | None) -> None:
        """A table by whose key the log identifies rows, and one of which the log has whole rows."""
        for name, identity in (("t0", "d"), ("t1", "f")):
            table = self._new_table("public", name)
            table.identity = identity
            self.tables[table.oid] = table


class _Undisturbed:
    def disturb(self, process: Process, call: str, path: str) -> None:
        """Nothing happens to the process."""


@contextmanager
def shop() -> Iterator[None]:
    """The PostgreSQL server after all transactions."""
    waits: list[float] = []
    Shop.opened(len(Shop.TRANSACTIONS))
    with pytest.MonkeyPatch.context() as patches:
        connect_to_model(
            patches, Shop.session, monotonic=lambda: sum(waits), sleep=waits.append, random_=random.Random(27)
        )
        yield


@contextmanager
def topics(*partitions: tuple[str, Sequence[int]]) -> Iterator[None]:
    """A Kafka cluster: topics, each with the numbers of records in its partitions."""
    close_idle_consumers()
    cluster = LogEnumerator.cluster = SimulatedCluster(random.Random(27), _say_nothing)
    cluster.has_ids = True
    cluster.topics = {
        topic: [_records(topic, number, records) for number, records in enumerate(counts)]
        for topic, counts in partitions or (("orders", (5,)), ("refunds", (5,)))
    }

    def properties(options: Options) -> ClientProperties:
        return replace(client_properties(options), clients=cluster.clients)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(KafkaEnumerator, "connect", staticmethod(LogEnumerator.connect))
        patches.setattr(KafkaEnumerator, "clock", LogEnumerator.clock)
        patches.setattr(kafka_reader, "client_properties", properties)
        yield
    close_idle_consumers()


def _records(topic: str, partition: int, number: int) -> Log:
    log = Log(topic, f"id-of-{topic}", partition, stable=number)
    for offset in range(number):
        time_ms = 1_700_000_000_000 + offset
        value = f'{{"id":"{topic}-{offset}"}}'.encode()
        message = SimulatedMessage(
            topic=topic, partition=partition, offset=offset, key=b"k", value=value, headers=[("a", b"\xff")],
            timestamp=(1, time_ms),
        )  # fmt: skip
        log.records.append(Record(log, offset, time_ms, message))
    return log


@contextmanager
def database() -> Iterator[None]:
    """An SQLite file with seven orders, whose place is in an environment variable."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patches:
        file = Path(folder) / "shop.db"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE orders (id INTEGER, updated_at TEXT)")
            orders = [(number, f"2026-01-01 00:00:{number // 2:02}") for number in range(1, 8)]
            connection.executemany("INSERT INTO orders VALUES (?, ?)", orders)
        patches.setenv("GOLDEN_DATABASE", str(file))
        yield


@contextmanager
def api() -> Iterator[None]:
    """An HTTP API with nine records below each endpoint, of which two at a time have the same time."""
    served = HttpApi("https://api.example.com")
    served.records = [
        {"id": str(number), "at": f"2026-01-01T00:00:{number // 2:02}Z"} for number in range(1, 10)
    ]

    class Connections:
        """Connections without a network."""

        def __init__(self, **_: Any) -> None:
            pass

        def get(self, url: str, **_: Any) -> connections.Answer:
            parts = urlsplit(url)
            answer = served.answer(parts.path, dict(parse_qsl(parts.query)))
            body = json.dumps(answer.body).encode()
            return connections.Answer(status=answer.status, headers=answer.headers, body=body)

        def close(self) -> None:
            pass

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(connections, "Connections", Connections)
        yield
