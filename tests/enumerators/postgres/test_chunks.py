"""Where a table is cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flip27_source.enumerators.postgres.assigner import Cut
from flip27_source.enumerators.postgres.chunks import cuts, next_bound
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.postgres_server import PostgresServer

ID = (KeyColumn(name="id", type="integer"),)
TABLE = TableName(oid=0, schema="public", name="t")


def bounds(
    server: PostgresServer, key: tuple[KeyColumn, ...], *statements: str, rows: int
) -> list[tuple[str, ...]]:
    """Return at most 50 bounds of chunks of ``rows`` rows."""
    found: list[tuple[str, ...]] = []
    with new_database(server, *statements) as database:
        bound: Any = None
        while len(found) < 50:
            bound = next_bound(database.control, TABLE, key, bound, rows=rows, filter_sql=None)
            if bound is None:
                break
            found.append(bound)
    return found


def test_numbers_are_ordered_by_value_whatever_their_number_of_digits(postgres: PostgresServer) -> None:
    statements = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(-5, 109)"
    assert bounds(postgres, ID, *statements, rows=30) == [("25",), ("55",), ("85",)]


def test_a_table_with_exactly_the_rows_of_a_chunk_is_one_chunk(postgres: PostgresServer) -> None:
    statements = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 30)"
    assert bounds(postgres, ID, *statements, rows=30) == []


def test_a_key_of_two_columns_is_also_cut_between_rows_with_equal_first_columns(
    postgres: PostgresServer,
) -> None:
    key = KeyColumn(name="a", type="integer"), KeyColumn(name="b", type="text")
    statements = (
        "CREATE TABLE t (a int, b text, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT a, b FROM generate_series(1, 2) a, unnest('{a,b,c}'::text[]) b",
    )
    assert bounds(postgres, key, *statements, rows=2) == [("1", "c"), ("2", "b")]


# What a poll finds when time is short, and when a table is gone.


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[TestedDatabase]:
    """A database with 40 orders and 25 items."""
    with new_database(
        postgres,
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE items (id int PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 40)",
        "INSERT INTO items SELECT generate_series(1, 25)",
    ) as database:
        yield database


def table(shop: TestedDatabase, name: str) -> TableName:
    return TableName(oid=shop.one(f"SELECT '{name}'::regclass::int"), schema="public", name=name)


def polled(shop: TestedDatabase, most: int, *uncut: tuple[TableName, tuple[str, ...] | None]) -> list[Cut]:
    """Return what a poll finds that has time for ``most`` queries."""
    left = [True] * most
    request = [(table, ID, lower) for table, lower in uncut]
    found = cuts(shop.control, request, rows=10, filter_sql=None, has_time=lambda: bool(left and left.pop()))
    return list(found)


def cut(table: TableName, *found: int, lower: int | None = None, is_end: bool) -> Cut:
    return Cut(
        oid=table.oid,
        lower=None if lower is None else (str(lower),),
        bounds=tuple(((str(bound),), 10) for bound in found),
        is_end=is_end,
    )


def test_a_table_that_no_time_is_left_for_is_cut_by_a_later_poll(shop: TestedDatabase) -> None:
    orders, items = table(shop, "orders"), table(shop, "items")
    assert polled(shop, 2, (orders, None), (items, None)) == [cut(orders, 11, 21, is_end=False)]
    assert polled(shop, 0, (orders, ("21",)), (items, None)) == []
    assert polled(shop, 3, (orders, ("21",)), (items, None)) == [
        cut(orders, 31, lower=21, is_end=True),
        cut(items, 11, is_end=False),
    ]
    assert polled(shop, 9, (items, ("11",))) == [cut(items, 21, lower=11, is_end=True)]


def test_a_table_that_was_dropped_has_no_more_bounds(shop: TestedDatabase) -> None:
    orders = table(shop, "orders")
    shop.execute("DROP TABLE orders")
    assert polled(shop, 0, (orders, ("11",))) == [cut(orders, lower=11, is_end=True)]
