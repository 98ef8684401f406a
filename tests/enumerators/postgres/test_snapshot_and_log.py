"""Staged races between the chunks of a table and its log."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from flip27_source.enumerator_context import Boundedness
from flip27_source.enumerators.postgres.split import ChunkRead, LogRead, TableChunk, TableName
from flip27_source.errors import AccessError
from flip27_source.readers.postgres.chunk_rows import open_chunk
from flip27_source.testing.enumerator_run import EnumeratorRun
from tests.deadline import until
from tests.enumerators.postgres.database import WaitingCommit, new_database
from tests.enumerators.postgres.faults import caught_up, faulty_shop, running
from tests.enumerators.postgres.reading import Query, query
from tests.postgres_server import PostgresServer, postgres_server

TABLE = "CREATE TABLE orders (id int PRIMARY KEY, v text)"
ROWS = "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 9) i"
ONE_CHUNK = {"maxRowsPerTrigger": "3", "parallelism": "1"}
"""Options with which a batch has one chunk."""


@pytest.fixture(scope="module")
def waiting_server() -> Iterator[PostgresServer]:
    """A server whose synchronous standby never appears; only sessions that opt in wait for it."""
    with postgres_server(synchronous_standby_names="nobody", synchronous_commit="local") as server:
        yield server


@pytest.fixture
def orders(postgres: PostgresServer) -> Iterator[Query]:
    """A query of nine rows."""
    with query(postgres, TABLE, ROWS) as orders:
        yield orders


def test_a_commit_that_waits_for_its_standby_while_a_chunk_is_read_is_not_lost(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, "INSERT INTO orders VALUES (1, 'a'), (3, 'c')") as orders:
        orders.until_planned()
        waiting = WaitingCommit(orders, "INSERT INTO orders VALUES (2, 'b')")
        orders.execute("INSERT INTO orders VALUES (4, 'd')")
        orders.engine.run_batch()
        orders.until_rows()
        assert sorted(key or "" for op, key in orders.ops() if op == "r") in (["1", "3"], ["1", "3", "4"])
        waiting.end()
        orders.catch_up()
        orders.check_copy()
        assert ("c", "2") in orders.ops()


def test_a_commit_that_is_delivered_before_it_is_visible_is_delivered_once(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, "INSERT INTO orders VALUES (1, 'a'), (3, 'c')") as orders:
        orders.until_rows()
        waiting = WaitingCommit(orders, "INSERT INTO orders VALUES (2, 'b')")
        until(lambda: bool(orders.batches()) and len(orders.ops()) > 2, lambda: str(orders.ops()))
        assert orders.ops()[-1] == ("c", "2")
        assert len(orders.table("orders")) == 2
        waiting.end()
        orders.catch_up()
        orders.check_copy()
        assert len(orders.ops()) == 3


@pytest.mark.parametrize(
    ("unchanged_values", "statement"),
    [
        ("mark", "UPDATE orders SET id = 5 WHERE id = 1"),
        ("read", "UPDATE orders SET id = 5 WHERE id = 1"),
        ("read", "INSERT INTO orders VALUES (5, 'c', repeat('y', 5000)); UPDATE orders SET v = 'd'"),
    ],
)
def test_large_values_are_read_once_the_transaction_that_left_them_unchanged_is_visible(
    waiting_server: PostgresServer, unchanged_values: str, statement: str
) -> None:
    with query(
        waiting_server,
        "CREATE TABLE orders (id int PRIMARY KEY, v text, note text STORAGE EXTERNAL)",
        "INSERT INTO orders VALUES (1, 'a', repeat('x', 5000)), (3, 'c', 'x')",
        columns=("id", "v", "note"),
        unchangedValues=unchanged_values,
        slotTimeout="100ms",
    ) as orders:
        orders.read_all()
        waiting = WaitingCommit(orders, statement)
        with pytest.raises(
            AccessError, match="is in the log, and after 0 s what it wrote is still not visible"
        ):
            orders.catch_up()
        waiting.end()
        orders.catch_up()
        orders.check_copy()


def test_a_type_that_a_transaction_has_created_which_is_not_visible_yet_does_not_count_as_dropped(
    waiting_server: PostgresServer,
) -> None:
    with faulty_shop(waiting_server, rows=0, changeFormat="envelope", slotTimeout="100ms") as shop:
        engine = running(caught_up(shop.engine()))
        created = "CREATE DOMAIN positive AS int; ALTER TABLE orders ADD n positive;"
        waiting = WaitingCommit(shop, f"{created} INSERT INTO orders VALUES (1, 'a', 5)")
        until(lambda: bool(engine.trigger()), lambda: "no batch was planned")
        with pytest.raises(AccessError, match="what it wrote is still not visible"):
            engine.run_batch()
        waiting.end()
        caught_up(engine)
        assert [row[engine.schema.names.index("after")] for row in engine.rows] == [
            '{"id":1,"name":"a","n":5}'
        ]


def test_a_row_that_changes_again_before_an_earlier_change_is_delivered_ends_with_its_last_value(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, ROWS, **ONE_CHUNK) as orders:
        orders.until_planned()
        waiting = WaitingCommit(orders, "UPDATE orders SET v = 'new', id = id + 100 WHERE id IN (2, 8)")
        orders.execute("UPDATE orders SET v = 'newer' WHERE id IN (1, 5, 9)")
        orders.engine.run_batch()
        orders.batches()
        waiting.end()
        orders.write("DELETE FROM orders WHERE id IN (102, 3)")
        orders.check_copy()


def test_changes_that_a_chunk_has_read_are_not_delivered_again(orders: Query) -> None:
    orders.write_among_chunks("UPDATE orders SET v = 'seen'")
    assert [op for op, _ in orders.ops()] == ["r"] * 9


def test_a_transaction_that_is_rolled_back_is_not_delivered(orders: Query) -> None:
    orders.until_planned()
    session = orders.session()
    session.execute("BEGIN; UPDATE orders SET v = 'never'")
    orders.engine.run_batch()
    session.execute("ROLLBACK")
    orders.catch_up()
    orders.check_copy()
    assert [op for op, _ in orders.ops()] == ["r"] * 9


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_truncate_between_chunks_empties_the_copy_and_keeps_rows_written_after_it(
    postgres: PostgresServer, after: int
) -> None:
    with query(postgres, TABLE, ROWS, **ONE_CHUNK) as orders:
        orders.until_rows(3 * after)
        orders.execute(
            "TRUNCATE orders", "INSERT INTO orders SELECT i, 'new' FROM generate_series(2, 9, 3) i"
        )
        orders.batches()
        orders.execute("DELETE FROM orders WHERE id = 5", "INSERT INTO orders VALUES (4, 'newest')")
        orders.read_all()
        orders.restart_without_end()
        orders.read_all()
        orders.check_copy(is_exact=False)
        assert ("t", None) in orders.ops()


def chunk_ids(run: EnumeratorRun) -> list[str]:
    """Poll the server, and return the ids of the chunks that have been assigned."""
    run.discover()
    run.drain()
    return [split.split_id for split in run.assigned if split.chunk is not None]


def truncated_between_chunks(orders: Query) -> None:
    """Read three of nine rows, empty the table and insert three, and read these; the log waits."""
    orders.until_rows(3)
    orders.execute("TRUNCATE orders", "INSERT INTO orders SELECT i, 'new' FROM generate_series(2, 9, 3) i")
    orders.until_rows(5)
    assert {op for op, _ in orders.ops()} == {"r"}


def test_a_run_that_ends_reads_the_log_to_its_end_after_a_truncate_between_chunks(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS, **ONE_CHUNK, maxLogLagDuringSnapshot="1g") as orders:
        truncated_between_chunks(orders)
        orders.write("INSERT INTO orders VALUES (20, 'newest')")
        orders.check_copy(is_exact=False)
        assert [op for op, _ in orders.ops()].count("t") == 1


def test_chunks_are_read_again_in_a_run_that_ends_if_it_hears_of_the_truncate_during_its_first_poll(
    orders: Query,
) -> None:
    source = orders.engine.source
    first = EnumeratorRun(source)
    until(lambda: len(chunk_ids(first)) == 3, lambda: str(first.assigned))
    for split_id in chunk_ids(first):
        snapshot = orders.one("SELECT pg_current_snapshot()::text")
        first.enumerator.handle_source_event(0, ChunkRead(split_id=split_id, snapshot=snapshot, rows=3))
    first.enumerator.close()
    orders.execute("TRUNCATE orders")
    run = EnumeratorRun(source, first.snapshot(), boundedness=Boundedness.BOUNDED)
    call = run.recorder.calls.pop()
    result, error = call.run()
    oid = orders.one("SELECT 'orders'::regclass::oid::bigint")
    run.enumerator.handle_source_event(0, LogRead(first=0, end=result.seen[-1].end, rows=1, truncated=(oid,)))
    call.handler(result, error)
    assert len(chunk_ids(run)) == 3
    run.enumerator.close()


def test_a_run_that_ends_reads_nothing_that_is_committed_after_its_start_but_chunks(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS, **ONE_CHUNK, maxLogLagDuringSnapshot="1g") as orders:
        truncated_between_chunks(orders)
        orders.engine.restart(available_now=True)
        orders.until_planned()
        orders.execute("INSERT INTO orders VALUES (20, 'later')")
        orders.engine.run_batch()
        orders.batches()
        assert ("c", "20") not in orders.ops()
        orders.catch_up()
        orders.check_copy(is_exact=False)
        assert ("c", "20") in orders.ops()


def test_a_truncate_before_all_chunks_is_not_delivered(orders: Query) -> None:
    orders.write_among_chunks("TRUNCATE orders", "INSERT INTO orders VALUES (3, 'new')")
    assert orders.ops() == [("r", "3")]


def test_a_truncate_after_all_chunks_is_delivered_once(orders: Query) -> None:
    orders.read_all()
    orders.write("TRUNCATE orders", "INSERT INTO orders VALUES (3, 'new')")
    assert orders.ops()[9:] == [("t", None), ("c", "3")]
    orders.check_copy()


def test_a_chunk_locks_its_table_before_its_snapshot_so_that_a_rewrite_waits(
    postgres: PostgresServer,
) -> None:
    """A snapshot that is older than a rewrite of the table would see it empty."""
    with new_database(postgres, TABLE, ROWS, "SET lock_timeout = '50ms'") as database:
        oid = database.one("SELECT 'orders'::regclass::oid::bigint")
        reader, table = database.session(), TableName(oid=oid, schema="public", name="orders")
        open_chunk(
            reader, TableChunk(table=table, key=(), lower=None, upper=None, lsn=0, horizon=0), timeout_s=0
        )
        with pytest.raises(psycopg.errors.LockNotAvailable):
            database.execute("ALTER TABLE orders ALTER id TYPE bigint")
        assert database.one("SELECT count(*) FROM orders", session=reader) == 9
