"""Which bounds a poll finds when time is short, and when a table is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from flip27_source.enumerators.postgres.assigner import Cut
from flip27_source.enumerators.postgres.chunks import cuts
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from tests.postgres_server import PostgresServer

ID = (KeyColumn(name="id", type="integer"),)
TABLES = [
    "CREATE TABLE orders (id int PRIMARY KEY)",
    "CREATE TABLE items (id int PRIMARY KEY)",
    "INSERT INTO orders SELECT generate_series(1, 40)",
    "INSERT INTO items SELECT generate_series(1, 25)",
]


@contextmanager
def shop(server: PostgresServer) -> Iterator[tuple[psycopg.Connection, TableName, TableName]]:
    """Yield a connection to a database with 40 orders and 25 items, and the two tables."""
    with server.database() as database, server.connect(database) as connection:
        for statement in TABLES:
            connection.execute(statement)
        row = connection.execute("SELECT 'orders'::regclass::int, 'items'::regclass::int").fetchone()
        assert row is not None
        orders = TableName(oid=row[0], schema="public", name="orders")
        items = TableName(oid=row[1], schema="public", name="items")
        yield connection, orders, items


def bounds(most: int) -> Callable[[], bool]:
    """Return a clock that leaves time for this number of queries."""
    left = [True] * most
    return lambda: bool(left and left.pop())


def cut(table: TableName, *found: int, lower: int | None = None, is_end: bool) -> Cut:
    return Cut(
        oid=table.oid,
        lower=None if lower is None else (str(lower),),
        bounds=tuple(((str(bound),), 10) for bound in found),
        is_end=is_end,
    )


def test_a_table_that_no_time_is_left_for_is_cut_by_a_later_poll(postgres: PostgresServer) -> None:
    with shop(postgres) as (connection, orders, items):

        def polled(most: int, *uncut: tuple[TableName, tuple[str, ...] | None]) -> list[Cut]:
            asked = [(table, ID, lower) for table, lower in uncut]
            return list(cuts(connection, asked, rows=10, filter_sql=None, has_time=bounds(most)))

        assert polled(2, (orders, None), (items, None)) == [cut(orders, 11, 21, is_end=False)]
        assert polled(0, (orders, ("21",)), (items, None)) == []
        assert polled(3, (orders, ("21",)), (items, None)) == [
            cut(orders, 31, lower=21, is_end=True),
            cut(items, 11, is_end=False),
        ]
        assert polled(9, (items, ("11",))) == [cut(items, 21, lower=11, is_end=True)]


def test_a_table_that_was_dropped_has_no_more_bounds(postgres: PostgresServer) -> None:
    with shop(postgres) as (connection, orders, _):
        connection.execute("DROP TABLE orders")
        found = cuts(connection, [(orders, ID, ("11",))], rows=10, filter_sql=None, has_time=bounds(0))
        assert list(found) == [cut(orders, lower=11, is_end=True)]
