"""Staged races between the chunks of a table and its log."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.enumerators.postgres.database import Running, wait_until
from tests.enumerators.postgres.reading import Query, query
from tests.postgres_server import PostgresServer, postgres_server

TABLE = "CREATE TABLE orders (id int PRIMARY KEY, v text)"
ROWS = "INSERT INTO orders SELECT i, 'old' FROM generate_series(1, 9) i"


@pytest.fixture(scope="module")
def waiting_server() -> Iterator[PostgresServer]:
    """A server whose synchronous standby never appears; only sessions that opt in wait for it."""
    with postgres_server(synchronous_standby_names="nobody", synchronous_commit="local") as server:
        yield server


class WaitingCommit:
    """A statement whose commit is in the log but not visible."""

    def __init__(self, server: PostgresServer, found: Query, statement: str) -> None:
        self._control = found.control
        self._session = server.connect(found.control.info.dbname, options="-csynchronous_commit=on")
        self._running = Running(lambda: self._session.execute(statement))
        wait_until(lambda: self._event() == "SyncRep", lambda: str(self._event()))

    def end(self) -> None:
        """End the wait, which makes the commit visible."""
        self._control.execute("SELECT pg_cancel_backend(%s)", [self._session.info.backend_pid])
        self._running.result()
        self._session.close()

    def _event(self) -> str | None:
        row = self._control.execute(
            "SELECT wait_event FROM pg_stat_activity WHERE pid = %s", [self._session.info.backend_pid]
        ).fetchone()
        return None if row is None else row[0]


def test_a_commit_that_waits_for_its_standby_while_a_chunk_is_read_is_not_lost(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, "INSERT INTO orders VALUES (1, 'a'), (3, 'c')") as found:
        found.until_planned()
        waiting = WaitingCommit(waiting_server, found, "INSERT INTO orders VALUES (2, 'b')")
        found.control.execute("INSERT INTO orders VALUES (4, 'd')")
        found.engine.run_batch()
        while not found.engine.rows:
            found.until_planned()
            found.engine.run_batch()
        assert sorted(key or "" for op, key in found.ops() if op == "r") in (["1", "3"], ["1", "3", "4"])
        waiting.end()
        found.catch_up()
        assert found.copy() == found.table("orders")
        assert ("c", "2") in found.ops()


def test_a_commit_that_is_delivered_before_it_is_visible_is_delivered_once(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, "INSERT INTO orders VALUES (1, 'a'), (3, 'c')") as found:
        while not found.engine.rows:
            found.until_planned()
            found.engine.run_batch()
        waiting = WaitingCommit(waiting_server, found, "INSERT INTO orders VALUES (2, 'b')")
        wait_until(lambda: bool(found.batches()) and len(found.ops()) > 2, lambda: str(found.ops()))
        assert found.ops()[-1] == ("c", "2")
        assert len(found.table("orders")) == 2
        waiting.end()
        found.catch_up()
        assert found.copy() == found.table("orders")
        assert len(found.ops()) == 3


def test_a_row_that_changes_again_before_an_earlier_change_is_delivered_ends_with_its_last_value(
    waiting_server: PostgresServer,
) -> None:
    with query(waiting_server, TABLE, ROWS, maxRowsPerTrigger="3", parallelism="1") as found:
        found.until_planned()
        waiting = WaitingCommit(
            waiting_server, found, "UPDATE orders SET v = 'new', id = id + 100 WHERE id IN (2, 8)"
        )
        found.control.execute("UPDATE orders SET v = 'newer' WHERE id IN (1, 5, 9)")
        found.engine.run_batch()
        found.batches()
        waiting.end()
        found.control.execute("DELETE FROM orders WHERE id IN (102, 3)")
        found.catch_up()
        assert found.copy() == found.table("orders")


def test_changes_that_a_chunk_has_read_are_not_delivered_again(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS) as found:
        found.until_planned()
        found.control.execute("UPDATE orders SET v = 'seen'")
        found.engine.run_batch()
        found.batches()
        found.catch_up()
        assert found.copy() == found.table("orders")
        assert [op for op, _ in found.ops()] == ["r"] * 9


def test_a_transaction_that_is_open_while_all_chunks_are_read_is_delivered_after_them(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS) as found, postgres.connect(found.control.info.dbname) as session:
        found.until_planned()
        session.autocommit = False
        session.execute("UPDATE orders SET v = 'late' WHERE id = 5")
        session.execute("DELETE FROM orders WHERE id = 6")
        found.engine.run_batch()
        found.batches()
        session.commit()
        found.catch_up()
        assert found.copy() == found.table("orders")
        assert [op for op in found.ops() if op[0] != "r"] == [("u", "5"), ("d", "6")]


def test_a_transaction_that_is_rolled_back_is_not_delivered(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS) as found, postgres.connect(found.control.info.dbname) as session:
        found.until_planned()
        session.autocommit = False
        session.execute("UPDATE orders SET v = 'never'")
        found.engine.run_batch()
        session.rollback()
        found.catch_up()
        assert found.copy() == found.table("orders")
        assert [op for op, _ in found.ops()] == ["r"] * 9


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_truncate_between_chunks_empties_the_copy_and_keeps_rows_written_after_it(
    postgres: PostgresServer, after: int
) -> None:
    with query(postgres, TABLE, ROWS, maxRowsPerTrigger="3", parallelism="1") as found:
        while sum(op == "r" for op, _ in found.ops()) < 3 * after:
            found.until_planned()
            found.engine.run_batch()
        found.control.execute("TRUNCATE orders")
        found.control.execute("INSERT INTO orders SELECT i, 'new' FROM generate_series(2, 9, 3) i")
        found.batches()
        found.control.execute("DELETE FROM orders WHERE id = 5")
        found.control.execute("INSERT INTO orders VALUES (4, 'newest')")
        found.batches()
        found.catch_up()
        found.restart_without_end()
        found.batches()
        found.catch_up()
        assert found.copy(is_exact=False) == found.table("orders")
        assert ("t", None) in found.ops()


def test_a_truncate_before_all_chunks_is_not_delivered(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS) as found:
        found.until_planned()
        found.control.execute("TRUNCATE orders")
        found.control.execute("INSERT INTO orders VALUES (3, 'new')")
        found.engine.run_batch()
        found.batches()
        found.catch_up()
        assert found.ops() == [("r", "3")]


def test_a_truncate_after_all_chunks_is_delivered_once(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS) as found:
        found.batches()
        found.catch_up()
        found.control.execute("TRUNCATE orders")
        found.control.execute("INSERT INTO orders VALUES (3, 'new')")
        found.catch_up()
        assert found.ops()[9:] == [("t", None), ("c", "3")]
        assert found.copy() == found.table("orders")


def test_a_chunk_locks_its_table_before_its_snapshot_so_that_a_rewrite_waits(
    postgres: PostgresServer,
) -> None:
    """A snapshot that is older than a rewrite of the table would see it empty."""
    from flip27_source.enumerators.postgres.split import TableChunk, TableName
    from flip27_source.readers.postgres.chunk_rows import open_chunk

    with (
        postgres.database() as database,
        postgres.connect(database) as reader,
        postgres.connect(database) as other,
    ):
        other.execute(TABLE)
        other.execute(ROWS)
        row = other.execute("SELECT 'orders'::regclass::oid::bigint").fetchone()
        assert row is not None
        table = TableName(oid=row[0], schema="public", name="orders")
        open_chunk(
            reader, TableChunk(table=table, key=(), lower=None, upper=None, lsn=0, horizon=0), timeout_s=0
        )
        other.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("ALTER TABLE orders ALTER id TYPE bigint")
        found = reader.execute("SELECT count(*) FROM orders").fetchone()
        assert found == (9,)
