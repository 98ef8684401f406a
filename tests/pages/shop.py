"""The database that docs/postgres.md and docs/postgres_recipes.md speak of, set up as docs/postgres.md says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.pages.running import PageRun, blocks_of
from tests.postgres_server import HOST, postgres_server

SET_UP = "docs/postgres.md"
RECIPES = "docs/postgres_recipes.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """The database with the table ``orders``, and the warehouse that has nothing yet."""

    shop: psycopg.Connection[tuple[Any, ...]]
    warehouse: psycopg.Connection[tuple[Any, ...]]


@contextmanager
def shop_of_the_pages(page: PageRun) -> Iterator[Shop]:
    """A server with the places of the page, its role and its publication, and two orders."""
    with postgres_server() as server, server.connect() as first:
        first.execute("CREATE DATABASE shop")
        first.execute("CREATE DATABASE warehouse")
        with server.connect("shop") as shop, server.connect("warehouse") as warehouse:
            run_statements(shop, RECIPES, "CREATE TABLE orders (")
            shop.execute("INSERT INTO orders VALUES (1, 'Ada', 9.5), (2, 'Grace', 3)")
            run_statements(shop, SET_UP, "ALTER SYSTEM")
            run_statements(shop, SET_UP, "CREATE ROLE")
            page.places |= {
                "db.internal": HOST, "warehouse.internal": HOST, "5432": str(server.port), "user=etl": "user=postgres",
            }  # fmt: skip
            yield Shop(shop=shop, warehouse=warehouse)


def run_statements(connection: psycopg.Connection[tuple[Any, ...]], page: str, beginning: str) -> None:
    """Run the SQL of the block of a page that begins so."""
    (block,) = (block for block in blocks_of(page) if block.text.startswith(beginning))
    for statement in block.text.split(";\n"):
        connection.execute(statement.encode())
