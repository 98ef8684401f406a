"""Shops: a table of orders with literal rows in each kind of real database that the sql source reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flip27_source.testing import MicroBatchEngine
from tests.postgres_server import PostgresServer

Row = tuple[Any, ...]

TYPES = {
    "sqlite": "id INTEGER PRIMARY KEY, amount REAL, updated_at TEXT",
    "duckdb": "id BIGINT, amount DOUBLE, updated_at TIMESTAMP",
    "postgresql": "id bigint PRIMARY KEY, amount double precision, updated_at timestamp",
}
DAY = "2024-05-01"
ORDERS: list[Row] = [
    (1, 7.5, f"{DAY} 08:00:00"), (2, 2.0, f"{DAY} 08:00:00"), (3, 9.9, f"{DAY} 08:00:01"),
    (4, 1.0, f"{DAY} 08:00:02"), (5, 3.2, f"{DAY} 08:00:02"), (6, 8.8, f"{DAY} 08:00:02"),
]  # fmt: skip


@dataclass(kw_only=True)
class Shop:
    """A database with a table orders.

    Attributes:
        options: options of the sql source that read the table by updated_at and id.
        execute: runs a statement and commits it.
    """

    options: dict[str, str]
    execute: Callable[..., object]
    next_id: int = 100
    more: dict[str, str] = field(default_factory=dict)

    def insert(self, rows: Sequence[Row]) -> None:
        values = ", ".join(f"({number}, {amount!r}, '{at}')" for number, amount, at in rows)
        self.execute(f"INSERT INTO orders VALUES {values}")

    def add_one(self) -> None:
        """Insert one more row, with the newest time and the greatest id."""
        self.insert([(self.next_id, 1.5, f"{DAY} 09:00:00")])
        self.next_id += 1

    def change_amounts(self) -> None:
        """Change a column that does not determine the order in which rows are read."""
        self.execute("UPDATE orders SET amount = amount + 1")

    def with_options(self, **more: str) -> dict[str, str]:
        return {**self.options, **more}


def common(uri: str, driver: str | None, **more: str) -> dict[str, str]:
    """The options of a query of the table orders, through SQLAlchemy unless there is a driver of ADBC."""
    options = {"enumerator": "sql", "uri": uri, "table": "orders", "cursorColumns": "updated_at,id", **more}
    return options if driver is None else {**options, "driver": driver}


def of_postgres(
    server: PostgresServer, database: str, *, user: str = "postgres", with_adbc: bool = True, **more: str
) -> dict[str, str]:
    """The options of a query of the table orders in this database; ``user`` may contain a password."""
    address = f"{user}@127.0.0.1:{server.port}/{database}"
    if with_adbc:
        return common(f"postgresql://{address}", "postgresql", **more)
    return common(f"postgresql+psycopg://{address}", None, **more)


@contextmanager
def sqlite_shop(folder: Path, *, with_adbc: bool = True) -> Iterator[Shop]:
    file = folder / "shop.db"
    connection = sqlite3.connect(file)
    connection.execute(f"CREATE TABLE orders ({TYPES['sqlite']})")

    def execute(statement: str) -> None:
        connection.execute(statement)
        connection.commit()

    options = common(str(file), "sqlite") if with_adbc else common(f"sqlite:///{file}", None)
    try:
        yield Shop(options=options, execute=execute)
    finally:
        connection.close()


@contextmanager
def duckdb_shop(folder: Path) -> Iterator[Shop]:
    file = str(folder / "shop.duckdb")

    def execute(statement: str) -> None:
        with duckdb.connect(file) as connection:
            connection.execute(statement)

    execute(f"CREATE TABLE orders ({TYPES['duckdb']})")
    yield Shop(options=common(file, "duckdb"), execute=execute)


@contextmanager
def postgres_shop(server: PostgresServer, *, with_adbc: bool = True) -> Iterator[Shop]:
    with server.database() as name, server.connect(name) as connection:
        connection.execute(f"CREATE TABLE orders ({TYPES['postgresql']})")
        shop = Shop(options=of_postgres(server, name, with_adbc=with_adbc), execute=connection.execute)
        shop.more["database"] = name
        yield shop


KINDS = ("sqlite", "sqlite by sqlalchemy", "duckdb", "postgresql", "postgresql by sqlalchemy")


def enter_shop(kind: str, stack: ExitStack, folder: Path, server: Callable[[], PostgresServer]) -> Shop:
    """Return a shop of a kind; the server is started only where it is needed."""
    with_adbc = not kind.endswith("sqlalchemy")
    if kind.startswith("sqlite"):
        return stack.enter_context(sqlite_shop(folder, with_adbc=with_adbc))
    if kind == "duckdb":
        return stack.enter_context(duckdb_shop(folder))
    return stack.enter_context(postgres_shop(server(), with_adbc=with_adbc))


def batches_of(engine: MicroBatchEngine) -> list[list[Any]]:
    """Run all batches; return the first column of each batch that has rows."""
    return [sorted(row[0] for row in batch.rows) for batch in engine.process_all_available() if batch.rows]


def polled(engine: MicroBatchEngine) -> list[list[Any]]:
    """Return the same after the next round of discovery."""
    engine.now_ms += 2000
    return batches_of(engine)


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """An empty table of orders; the test runs with each kind of database."""
    with ExitStack() as stack:
        yield enter_shop(request.param, stack, tmp_path, lambda: request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Shop]:
    """An empty table of orders in SQLite."""
    with sqlite_shop(tmp_path) as shop:
        yield shop
