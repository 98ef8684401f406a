"""A batch read reads the tables as of one moment, in parallel chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from flip27_source.errors import SplitReadError
from flip27_source.testing.spark_query import BatchRead
from tests.batch_read import planned_read
from tests.enumerators.postgres.database import TestedDatabase, new_database
from tests.enumerators.postgres.faults import CREATE
from tests.postgres_server import PostgresServer


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[TestedDatabase]:
    with new_database(postgres) as shop:
        yield shop


def batch_read(shop: TestedDatabase, **options: str) -> BatchRead:
    given = {"tables": "public.orders", "snapshotChunkRows": "4", **options}
    return planned_read(shop.server.options(shop.name, **given))


def test_all_chunks_are_read_as_of_one_moment_however_late_they_are_read(shop: TestedDatabase) -> None:
    shop.execute(CREATE, "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 10) i")
    read = batch_read(shop)
    shop.execute("UPDATE orders SET name = 'new'", "DELETE FROM orders WHERE id = 9")
    assert sorted(row[:3] for row in read.rows()) == [(number, "old", "r") for number in range(1, 11)]


def test_an_ended_snapshot_is_an_error_that_says_so(shop: TestedDatabase) -> None:
    shop.execute(CREATE)
    read = batch_read(shop)
    ended = shop.column(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE application_name = 'flip27 snapshot' AND datname = current_database()"
    )
    assert ended == [True, True]
    with pytest.raises(SplitReadError, match=r"the snapshot .* of this read has ended"):
        read.rows()


def test_a_limit_on_the_time_of_transactions_does_not_end_the_snapshot(shop: TestedDatabase) -> None:
    shop.execute(CREATE, "INSERT INTO orders VALUES (1, 'a')")
    shop.execute(f"ALTER DATABASE {shop.name} SET transaction_timeout = '100ms'")
    read = batch_read(shop)
    shop.execute("SELECT pg_sleep(0.3)")
    assert len(read.rows()) == 1


def test_a_table_cannot_be_rewritten_or_emptied_while_it_is_read(shop: TestedDatabase) -> None:
    shop.execute(CREATE, "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 10) i")
    read = batch_read(shop)
    shop.execute("SET lock_timeout = '100ms'")
    for statement in ("ALTER TABLE orders ALTER id TYPE bigint", "TRUNCATE orders"):
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shop.execute(statement)
    assert len(read.rows()) == 10


def test_a_batch_read_leaves_no_slot_and_no_publication(shop: TestedDatabase) -> None:
    shop.execute(CREATE, "INSERT INTO orders VALUES (1, 'a')")
    assert len(batch_read(shop).rows()) == 1
    assert shop.one("SELECT count(*) FROM pg_publication") == 0
    assert shop.slots() == []


@pytest.mark.parametrize(
    "statements",
    [
        (
            CREATE, "CREATE TABLE old_orders () INHERITS (orders)",
            "INSERT INTO orders VALUES (1, 'own')", "INSERT INTO old_orders VALUES (2, 'inherited')",
        ),
        (
            CREATE + " PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
            "INSERT INTO orders VALUES (1, 'own')",
        ),
    ],
    ids=["inheriting tables", "partitions"],
)  # fmt: skip
def test_rows_of_partitions_are_rows_of_their_table_and_rows_of_inheriting_tables_are_not(
    shop: TestedDatabase, statements: tuple[str, ...]
) -> None:
    shop.execute(*statements)
    assert [row[:2] for row in batch_read(shop).rows()] == [(1, "own")]


@pytest.mark.parametrize("partitions", ["", "PARTITION BY RANGE (id)"])
def test_a_table_without_a_key_is_cut_into_chunks_by_the_physical_positions_of_its_rows(
    shop: TestedDatabase, partitions: str
) -> None:
    shop.execute(f"CREATE TABLE orders (id int, name text) {partitions}")
    if partitions:
        shop.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (1000)")
        shop.execute("CREATE TABLE high PARTITION OF orders DEFAULT")
    shop.execute("INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 5000) i; ANALYZE orders")
    read = batch_read(shop, snapshotChunkRows="1000")
    assert len([split for task in read.tasks for split in json.loads(task.splits)]) > 3
    shop.execute("UPDATE orders SET name = 'new'", "DELETE FROM orders WHERE id = 9", "VACUUM orders")
    assert sorted(row[:2] for row in read.rows()) == [(number, "old") for number in range(1, 5001)]


@pytest.mark.parametrize("columns", ["(id)", "(coalesce(id, 0))", "((id), (id / 2))", None])
@pytest.mark.parametrize(("change_format", "column"), [("envelope", "after"), ("debezium", "value")])
def test_rows_of_a_table_without_a_primary_key_have_no_key_even_if_an_index_is_unique(
    shop: TestedDatabase, columns: str | None, change_format: str, column: str
) -> None:
    shop.execute("CREATE TABLE orders (id int)", "INSERT INTO orders VALUES (1)")
    if columns is not None:
        shop.execute(f"CREATE UNIQUE INDEX ON orders {columns}")
    read = batch_read(shop, changeFormat=change_format)
    ((key, row),) = [
        (found["key"], json.loads(found[column]))
        for found in (dict(zip(read.schema.names, row, strict=True)) for row in read.rows())
    ]
    assert (key, row.get("after", row)) == (None, {"id": 1})
