"""Where a table is cut into chunks."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_source.enumerators.postgres.chunks import next_bound
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from tests.postgres_server import PostgresServer

TABLE = TableName(oid=0, schema="public", name="t")


def bounds(
    server: PostgresServer, key: tuple[KeyColumn, ...], *statements: str, rows: int
) -> list[tuple[str, ...]]:
    """Return at most 50 bounds of chunks of ``rows`` rows."""
    found: list[tuple[str, ...]] = []
    with server.database() as database, server.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)
        bound: Any = None
        while len(found) < 50:
            bound = next_bound(connection, TABLE, key, bound, rows=rows, filter_sql=None)
            if bound is None:
                break
            found.append(bound)
    return found


def test_numbers_are_ordered_by_value_whatever_their_number_of_digits(postgres: PostgresServer) -> None:
    key = (KeyColumn(name="id", type="integer"),)
    made = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(-5, 109)"
    assert bounds(postgres, key, *made, rows=30) == [("25",), ("55",), ("85",)]


def test_a_table_with_exactly_the_rows_of_a_chunk_is_one_chunk(postgres: PostgresServer) -> None:
    key = (KeyColumn(name="id", type="integer"),)
    made = "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 30)"
    assert bounds(postgres, key, *made, rows=30) == []


@pytest.mark.parametrize(
    ("columns", "key", "expected"),
    [
        (
            "a int, b text, PRIMARY KEY (a, b)",
            (KeyColumn(name="a", type="integer"), KeyColumn(name="b", type="text")),
            [("1", "c"), ("2", "b")],
        ),
    ],
)
def test_a_key_of_two_columns_is_also_cut_between_rows_with_equal_first_columns(
    postgres: PostgresServer, columns: str, key: tuple[KeyColumn, ...], expected: list[tuple[str, ...]]
) -> None:
    made = (
        f"CREATE TABLE t ({columns})",
        "INSERT INTO t SELECT a, b FROM generate_series(1, 2) a, unnest('{a,b,c}'::text[]) b",
    )
    assert bounds(postgres, key, *made, rows=2) == expected
