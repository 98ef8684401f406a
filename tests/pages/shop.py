"""The PostgreSQL server for the code of docs/postgres.md and docs/postgres_recipes.md."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from pyspark.sql import SparkSession, functions

from tests.deadline import until
from tests.pages.running import PageRun, blocks_of
from tests.postgres_server import HOST, postgres_server

SET_UP = "docs/postgres.md"
RECIPES = "docs/postgres_recipes.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Connections to the database with the table ``orders``, and to the warehouse, which begins empty."""

    shop: psycopg.Connection[tuple[Any, ...]]
    warehouse: psycopg.Connection[tuple[Any, ...]]


@contextmanager
def shop_of_the_pages(page: PageRun) -> Iterator[Shop]:
    """Start a server with the databases of the page, its role and its publication, and two orders."""
    with postgres_server() as server, server.connect() as first:
        first.execute("CREATE DATABASE shop")
        first.execute("CREATE DATABASE warehouse")
        with server.connect("shop") as shop, server.connect("warehouse") as warehouse:
            run_statements(shop, RECIPES, "CREATE TABLE orders (")
            shop.execute("INSERT INTO orders VALUES (1, 'Ada', 9.5), (2, 'Grace', 3)")
            run_statements(shop, SET_UP, "ALTER SYSTEM")
            run_statements(shop, SET_UP, "CREATE ROLE")
            page.places |= {
                "db.internal": HOST, "warehouse.internal": HOST, "5432": str(server.port),
                "user=etl": "user=postgres",
            }  # fmt: skip
            yield Shop(shop=shop, warehouse=warehouse)


def run_statements(connection: psycopg.Connection[tuple[Any, ...]], page: str, beginning: str) -> None:
    """Run the SQL of the block with this beginning on a page."""
    (block,) = (block for block in blocks_of(page) if block.text.startswith(beginning))
    for statement in block.text.split(";\n"):
        connection.execute(statement.encode())


def changes_are_those_of_the_page(page: PageRun) -> None:
    """Check that the stream has the changes that docs/postgres.md shows."""
    with shop_of_the_pages(page) as database:
        page.run(until="flip27 edit")
        spark = page.names["spark"]
        query = page.names["orders"].writeStream.format("memory").queryName("postgres").start()
        wait_for_rows(spark, 2)
        with database.shop.transaction():
            database.shop.execute("INSERT INTO orders VALUES (3, 'Alan', 7)")
            database.shop.execute("UPDATE orders SET amount = 10 WHERE id = 1")
            database.shop.execute("UPDATE orders SET id = 4 WHERE id = 2")
            database.shop.execute("DELETE FROM orders WHERE id = 3")
        wait_for_rows(spark, 7)
        query.stop()
        in_order = spark.table("postgres").orderBy("_lsn", "_seq", functions.desc("_op"), "id")
        columns = ("id", "customer", "cast(amount as double)", "_op", "_before", "_seq")
        assert [tuple(row) for row in in_order.selectExpr(*columns).collect()] == [
            (1, "Ada", 9.5, "r", None, 0), (2, "Grace", 3, "r", None, 0),
            (3, "Alan", 7, "c", None, 1), (1, "Ada", 10, "u", None, 2),
            (2, None, None, "d", (2,), 3), (4, "Grace", 3, "c", (2,), 3), (3, None, None, "d", (3,), 4),
        ]  # fmt: skip
        spark.catalog.dropTempView("postgres")
        page.run()


def wait_for_rows(spark: SparkSession, count: int) -> None:
    """Wait until the memory sink has this many rows."""
    found = spark.table("postgres")
    until(lambda: found.count() == count, lambda: str(found.collect()))


def recipes_follow_the_table(page: PageRun) -> None:
    """Check the copy and the history with a changed key, an unchanged large value, and TRUNCATE."""
    with shop_of_the_pages(page) as database:
        shop, warehouse = database.shop, database.warehouse
        run_statements(warehouse, RECIPES, "CREATE TABLE orders (")
        run_statements(warehouse, RECIPES, "CREATE TABLE orders_history (")
        shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
        shop.execute("INSERT INTO orders VALUES (3, 'Alan', 7, repeat('x', 9000))")
        page.run()

        def is_copied() -> bool:
            queries = (page.names["copying"], page.names["history"])
            assert [query.exception() for query in queries] == [None, None]
            present = rows_of(warehouse, "id, customer, amount FROM orders_history WHERE valid_to IS NULL")
            return (
                rows_of(shop, "* FROM orders") == rows_of(warehouse, "* FROM orders")
                and rows_of(shop, "id, customer, amount FROM orders") == present
            )

        for statement in (
            "SELECT",
            "UPDATE orders SET amount = 8 WHERE id = 3",
            "UPDATE orders SET id = 4 WHERE id = 2; DELETE FROM orders WHERE id = 1",
            "TRUNCATE orders",
            "INSERT INTO orders VALUES (1, 'Ada', 1), (5, 'Barbara', 2)",
            "UPDATE orders SET amount = 6 WHERE id = 5",
        ):
            shop.execute(statement)
            until(is_copied, lambda: str(rows_of(warehouse, "* FROM orders_history")))
        assert rows_of(warehouse, "id, amount::float FROM orders_history WHERE valid_to IS NOT NULL") == [
            (1, 9.5), (2, 3), (3, 7), (3, 8), (4, 3), (5, 2),
        ]  # fmt: skip
        page.names["history"].stop()
        history_of_repeated_batches(page, warehouse)


def history_of_repeated_batches(page: PageRun, warehouse: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Check that repeated batches, and rows that are read again after TRUNCATE, add no versions."""
    noon, one = (dt.datetime(2026, 1, 3, hour, tzinfo=dt.UTC) for hour in (12, 13))
    columns = "id int, customer string, amount decimal(10, 2), _committed_at timestamp"
    columns += ", _lsn bigint, _seq bigint, _op string"
    created = (70, "Emmy", Decimal(1), noon, 10**15, 1, "c")
    read_again = (70, "Emmy", Decimal(1), None, 10**15 + 1, 0, "r")
    updated = (70, "Emmy", Decimal(2), one, 10**15 + 2, 1, "u")
    for batch in ([created], [created], [read_again], [read_again, updated], [read_again, updated]):
        page.names["add_to_history"](page.names["spark"].createDataFrame(batch, columns), 0)
    versions = "valid_from, valid_to, amount FROM orders_history WHERE id = 70"
    assert rows_of(warehouse, versions) == [(noon, one, 1), (one, None, 2)]


def rows_of(connection: psycopg.Connection[tuple[Any, ...]], what: str) -> list[tuple[Any, ...]]:
    """The rows of a query, in order."""
    return connection.execute(f"SELECT {what} ORDER BY 1, 2".encode()).fetchall()
