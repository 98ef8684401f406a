"""A batch read reads the tables as of one moment, in parallel chunks."""

from __future__ import annotations

import json

import psycopg
import pytest

from flip27_source.errors import SplitReadError
from flip27_source.testing import SourceUnderTest
from flip27_source.testing.spark_query import BatchRead
from tests.postgres_server import PostgresServer


def options_of(server: PostgresServer, database: str) -> dict[str, str]:
    return {
        "enumerator": "postgres", "host": "127.0.0.1", "port": str(server.port), "database": database,
        "user": "postgres", "tables": "public.orders", "snapshotChunkRows": "4",
    }  # fmt: skip


def test_all_chunks_are_read_as_of_one_moment_however_late_they_are_read(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        shop.execute("INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 10) i")
        given = SourceUnderTest(options=options_of(postgres, database))
        read = planned(given)
        shop.execute("UPDATE orders SET name = 'new'")
        shop.execute("DELETE FROM orders WHERE id = 9")
        rows = read.rows()
        assert len(rows) == 10
        assert sorted((row[0], row[1], row[2]) for row in rows) == [
            (number, "old", "r") for number in range(1, 11)
        ]


def test_an_ended_snapshot_is_an_error_that_says_so(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        given = SourceUnderTest(options=options_of(postgres, database))
        read = planned(given)
        keepers = (
            "FROM pg_stat_activity WHERE application_name = 'flip27 snapshot' AND datname = "
            "current_database()"
        )
        ended = shop.execute(f"SELECT pg_terminate_backend(pid, 10000) {keepers}").fetchall()
        assert ended == [(True,), (True,)]
        with pytest.raises(SplitReadError, match=r"the snapshot .* of this read has ended"):
            read.rows()


def test_a_table_cannot_be_rewritten_or_emptied_while_it_is_read(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        shop.execute("INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 10) i")
        given = SourceUnderTest(options=options_of(postgres, database))
        read = planned(given)
        shop.execute("SET lock_timeout = '100ms'")
        for statement in ("ALTER TABLE orders ALTER id TYPE bigint", "TRUNCATE orders"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                shop.execute(statement)
        assert len(read.rows()) == 10


def planned(given: SourceUnderTest) -> BatchRead:
    """Plan the tasks of a batch read."""
    return BatchRead(given.resolve(), given.arrow_schema()).plan()


def test_a_batch_read_leaves_no_slot_and_no_publication(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        shop.execute("INSERT INTO orders VALUES (1, 'a')")
        given = SourceUnderTest(options=options_of(postgres, database))
        assert len(planned(given).rows()) == 1
        assert shop.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
        slots = "SELECT count(*) FROM pg_replication_slots WHERE database = %s"
        assert shop.execute(slots, [database]).fetchone() == (0,)


def test_rows_of_inheriting_tables_are_not_rows_of_their_parent(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text)")
        shop.execute("CREATE TABLE old_orders () INHERITS (orders)")
        shop.execute("INSERT INTO orders VALUES (1, 'own'); INSERT INTO old_orders VALUES (2, 'inherited')")
        given = SourceUnderTest(options=options_of(postgres, database))
        assert [row[:2] for row in planned(given).rows()] == [(1, "own")]


def test_rows_of_partitions_are_rows_of_the_partitioned_table(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
        shop.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)")
        shop.execute("INSERT INTO orders VALUES (1, 'a')")
        given = SourceUnderTest(options=options_of(postgres, database))
        assert [row[:2] for row in planned(given).rows()] == [(1, "a")]


@pytest.mark.parametrize("partitions", ["", "PARTITION BY RANGE (id)"])
def test_a_table_without_a_key_is_cut_into_chunks_by_the_physical_positions_of_its_rows(
    postgres: PostgresServer, partitions: str
) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute(f"CREATE TABLE orders (id int, name text) {partitions}")
        if partitions:
            shop.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (1000)")
            shop.execute("CREATE TABLE high PARTITION OF orders DEFAULT")
        shop.execute("INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 5000) i; ANALYZE orders")
        given = SourceUnderTest(options=options_of(postgres, database) | {"snapshotChunkRows": "1000"})
        read = planned(given)
        chunks = [split for task in read.tasks for split in json.loads(task.splits)]
        assert len(chunks) > 3
        for statement in (
            "UPDATE orders SET name = 'new'",
            "DELETE FROM orders WHERE id = 9",
            "VACUUM orders",
        ):
            shop.execute(statement)
        rows = [row[:2] for row in read.rows()]
        assert sorted(rows) == [(number, "old") for number in range(1, 5001)]


def test_rows_of_a_table_without_a_key_have_no_key_in_an_envelope(postgres: PostgresServer) -> None:
    with postgres.database() as database, postgres.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id int)", prepare=False)
        shop.execute("INSERT INTO orders VALUES (1)")
        given = SourceUnderTest(options=options_of(postgres, database) | {"changeFormat": "envelope"})
        (row,) = planned(given).rows()
        assert row[:5] == ("public.orders", "r", None, None, '{"id":1}')
