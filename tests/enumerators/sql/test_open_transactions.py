"""PostgreSQL: rows wait for the transactions that were writing when they were first seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from flip27_source.enumerators.sql.open_transactions import Waiting, Writers, settled
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.errors import DiscoveryError
from flip27_source.testing import MicroBatchEngine, run
from tests.enumerators.sql.shops import Shop, batches_of, of_postgres, polled, postgres_shop
from tests.postgres_server import PostgresServer, postgres_server

Engine = Callable[..., MicroBatchEngine]


def cursor(number: int) -> Cursor:
    return Cursor(values=(str(number),), types=("int64",))


def waiting(number: int, *names: str) -> Waiting:
    return Waiting(newest=cursor(number), writers=writers(*names))


def writers(*names: str) -> Writers:
    return dict.fromkeys(names, "1")


def test_without_writers_all_visible_rows_are_safe() -> None:
    assert settled(None, cursor(6), writers()) == (cursor(6), None)


def test_rows_seen_while_a_writer_is_open_wait_for_that_writer() -> None:
    assert settled(None, cursor(6), writers("a")) == (None, waiting(6, "a"))


def test_rows_do_not_wait_for_writers_that_begin_later() -> None:
    assert settled(waiting(6, "a", "b"), cursor(9), writers("b", "c")) == (None, waiting(6, "b"))


def test_rows_are_safe_once_their_writers_have_ended_and_later_rows_wait_for_the_others() -> None:
    assert settled(waiting(6, "b"), cursor(9), writers("c")) == (cursor(6), waiting(9, "c"))
    assert settled(waiting(6, "b"), cursor(9), writers()) == (cursor(9), None)


def test_rows_wait_for_a_prepared_transaction_that_has_another_name_since_the_server_recovered() -> None:
    assert settled(waiting(6, "9/2"), cursor(9), writers("-1/745")) == (None, waiting(6, "-1/745"))


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[Shop]:
    """An empty table whose ids come from a sequence."""
    with postgres_shop(postgres) as shop:
        shop.execute("CREATE TABLE events (id bigserial PRIMARY KEY, name text)")
        shop.options |= {"table": "events", "cursorColumns": "id"}
        yield shop


Begin = Callable[..., psycopg.Connection]
EVENT = "INSERT INTO events (name) VALUES ('x')"


@pytest.fixture
def begin(postgres: PostgresServer, shop: Shop) -> Iterator[Begin]:
    """A function that opens a transaction on a new connection; by default, it inserts an event."""
    with ExitStack() as stack:

        def begun(*statements: str) -> psycopg.Connection:
            connection = stack.enter_context(postgres.connect(shop.more["database"], autocommit=False))
            for statement in statements or (EVENT,):
                connection.execute(statement)
            return connection

        yield begun


@pytest.fixture
def engine(shop: Shop, flip27_engine: Engine) -> MicroBatchEngine:
    """A query that has seen the empty table."""
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    return engine


def test_an_id_that_is_committed_late_is_not_lost(begin: Begin, engine: MicroBatchEngine) -> None:
    late, early = begin(), begin()
    early.commit()
    assert polled(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_without_the_wait_an_id_that_is_committed_late_is_lost(
    shop: Shop, begin: Begin, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.with_options(waitForTransactions="false"))
    assert batches_of(engine) == []
    late, early = begin(), begin()
    early.commit()
    assert polled(engine) == [[2]]
    late.commit()
    assert polled(engine) == []


def test_rows_wait_for_an_id_that_was_drawn_but_not_yet_inserted(
    shop: Shop, begin: Begin, engine: MicroBatchEngine
) -> None:
    late = begin("SELECT nextval('events_id_seq')")
    shop.execute(EVENT)
    assert polled(engine) == []
    late.execute("INSERT INTO events (id, name) VALUES (1, 'id 1')")
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_rows_stop_waiting_for_a_transaction_that_is_rolled_back(
    shop: Shop, begin: Begin, engine: MicroBatchEngine
) -> None:
    late = begin()
    shop.execute(EVENT)
    assert polled(engine) == []
    late.rollback()
    assert polled(engine) == [[2]]


def test_overlapping_writers_do_not_hold_rows_back_for_ever(begin: Begin, engine: MicroBatchEngine) -> None:
    found = []
    before = begin()
    for _ in range(4):
        following = begin()
        before.commit()
        found += polled(engine)
        before = following
    assert found == [[1], [2], [3]]


def test_rows_wait_for_a_prepared_transaction(shop: Shop, begin: Begin, engine: MicroBatchEngine) -> None:
    begin(EVENT, "PREPARE TRANSACTION 'flip27'").commit()
    shop.execute(EVENT)
    assert polled(engine) == []
    shop.execute("COMMIT PREPARED 'flip27'")
    assert polled(engine) == [[1, 2]]


@pytest.mark.parametrize("event", ["restart", "kill_a_session"])
@pytest.mark.parametrize("is_prepared_first", [True, False], ids=["prepared first", "prepared while waiting"])
def test_rows_wait_for_a_prepared_transaction_although_the_server_recovers(
    flip27_engine: Engine, event: str, is_prepared_first: bool
) -> None:
    with postgres_server() as server, server.database() as name:
        with server.connect(name) as connection:
            connection.execute("CREATE TABLE events (id bigserial PRIMARY KEY, name text)")
        engine = flip27_engine(of_postgres(server, name, table="events", cursorColumns="id"))
        assert batches_of(engine) == []
        with server.connect(name) as writer, server.connect(name) as other:
            writer.execute("BEGIN")
            writer.execute(EVENT)
            if is_prepared_first:
                writer.execute("PREPARE TRANSACTION 'flip27'")
            other.execute(EVENT)
            assert polled(engine) == []
            if not is_prepared_first:
                writer.execute("PREPARE TRANSACTION 'flip27'")
        getattr(server, event)()
        assert polled(engine) == []
        with server.connect(name) as connection:
            connection.execute("COMMIT PREPARED 'flip27'")
        assert polled(engine) == [[1, 2]]


def test_rows_do_not_wait_for_transactions_that_only_read(
    shop: Shop, begin: Begin, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    begin("SELECT * FROM events")
    shop.execute(EVENT)
    assert polled(engine) == [[1]]


def test_after_a_restart_rows_still_wait_for_open_transactions(
    shop: Shop, begin: Begin, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    late = begin()
    shop.execute(EVENT)
    assert batches_of(engine) == []
    engine.restart()
    assert polled(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_a_run_that_times_out_names_the_transactions_that_it_waited_for(shop: Shop, begin: Begin) -> None:
    late = begin()
    shop.execute(EVENT)
    options = shop.with_options(transactionTimeout="0s", discoveryRetries="0")
    process = late.info.backend_pid
    with pytest.raises(DiscoveryError, match=rf"rows of table events wait for them \(processes {process}\)"):
        list(run(options))


def test_the_error_of_an_older_server_names_the_oldest_version_that_shows_its_transactions(
    shop: Shop, flip27_engine: Engine
) -> None:
    # PostgreSQL 11 does not have this function.
    shop.execute("ALTER FUNCTION pg_partition_ancestors(regclass) RENAME TO of_a_newer_server")
    shop.execute(EVENT)
    given = shop.with_options(discoveryRetries="0")
    with pytest.raises(DiscoveryError, match="does not show its open transactions: ") as refused:
        batches_of(flip27_engine(given))
    remedy = 'use PostgreSQL 12 or newer; or add .option("waitForTransactions", "false"), and a lag'
    assert (refused.value.remedy or "").startswith(remedy)
    assert batches_of(flip27_engine({**given, "waitForTransactions": "false", "uid": "2"})) == [[1]]


def test_updated_times_wait_for_writers_too(shop: Shop, begin: Begin, flip27_engine: Engine) -> None:
    shop.execute("ALTER TABLE events ADD at timestamptz NOT NULL DEFAULT now() - interval '1 hour'")
    engine = flip27_engine(shop.with_options(cursorColumns="at,id"))
    late = begin()
    shop.execute(EVENT)
    assert batches_of(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_a_start_at_the_latest_row_waits_for_open_transactions_whose_rows_are_before_it(
    shop: Shop, begin: Begin, flip27_engine: Engine
) -> None:
    late = begin()
    shop.execute(EVENT)
    engine = flip27_engine(shop.with_options(startingCursor="latest"))
    assert batches_of(engine) == []
    later = begin()
    shop.execute(EVENT)
    late.commit()
    assert polled(engine) == []
    later.commit()
    assert polled(engine) == [[3, 4]]
