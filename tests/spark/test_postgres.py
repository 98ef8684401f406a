"""The postgres source in a real session: each row and change of a table once, and the table at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.postgres_server import PostgresServer
from tests.replica import TABLE, Replica, Writers, rows_of

from .streams import ENDING, Folders, run_to_end, to_lake, wait_for


@dataclass(frozen=True)
class Shop:
    """A database with a table orders, and the options of a query of it."""

    connection: psycopg.Connection
    options: dict[str, Any]
    sessions: list[psycopg.Connection]


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[Shop]:
    with ExitStack() as stack:
        database = stack.enter_context(postgres.database())
        connection, *sessions = (stack.enter_context(postgres.connect(database)) for _ in range(4))
        connection.execute(TABLE.format(name="orders", key="int"))
        connection.execute("INSERT INTO orders SELECT i * 3, 'n' || i FROM generate_series(0, 49) i")
        more = {"tables": "public.orders", "snapshotChunkRows": "10", "discoveryInterval": "50ms"}
        yield Shop(connection, postgres.options(database, **more), sessions)


def stream(spark: SparkSession, shop: Shop, folders: Folders, **options: Any) -> DataFrame:
    given = {**shop.options, "stateLocation": str(folders.state), **options}
    return spark.readStream.format("flip27").options(**given).load()


def changes(spark: SparkSession, folders: Folders) -> list[tuple[Any, ...]]:
    """Return the changes in the lake, in the form that a replica applies."""
    rows = spark.read.parquet(str(folders.lake)).collect()
    return [tuple(value.asDict() if hasattr(value, "asDict") else value for value in row) for row in rows]


def test_a_replica_in_files_equals_the_table_over_several_runs(
    spark: SparkSession, shop: Shop, folders: Folders
) -> None:
    writers = Writers(shop.sessions, "public.orders", seed=1)
    run_to_end(to_lake(stream(spark, shop, folders, **ENDING), folders))
    for _ in range(2):
        writers.act(40)
        writers.finish()
        run_to_end(to_lake(stream(spark, shop, folders, **ENDING), folders))
    replica = Replica()
    replica.apply(changes(spark, folders))
    assert replica.rows == rows_of(shop.connection, "orders")


def test_changes_arrive_while_the_query_runs_and_the_slot_advances(
    spark: SparkSession, shop: Shop, folders: Folders
) -> None:
    query = to_lake(stream(spark, shop, folders), folders, processingTime="0 seconds")
    wait_for(lambda: query.lastProgress is not None)
    ids = shop.connection.execute(
        "INSERT INTO orders VALUES (1000, 'new'), (1001, 'new') RETURNING id"
    ).fetchall()
    wait_for(lambda: {row[0] for row in changes(spark, folders)} >= {id for (id,) in ids})
    written = shop.connection.execute("SELECT pg_current_wal_lsn()").fetchone()
    assert written is not None
    moved = (
        "SELECT count(*) FROM pg_replication_slots WHERE database = %s AND confirmed_flush_lsn > "
        "%s::pg_lsn - 1000"
    )
    wait_for(lambda: shop.connection.execute(moved, [shop.options["database"], *written]).fetchone() == (1,))
    query.stop()


def test_a_batch_read_returns_the_table(spark: SparkSession, shop: Shop) -> None:
    frame = spark.read.format("flip27").options(**shop.options).load()
    assert frame.schema.simpleString().startswith(
        "struct<id:int,name:string,note:string,_op:string,_before:struct<id:int>"
    )
    assert sorted(row.id for row in frame.collect()) == [3 * i for i in range(50)]
    assert frame.where("name = 'n7'").select("id", "_op").collect() == [(21, "r")]
