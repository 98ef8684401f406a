"""PostgreSQL: rows wait for the transactions that were writing when they were first seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from flip27_source.enumerators.sql.open_transactions import Waiting, settled
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.errors import DiscoveryError
from flip27_source.testing import MicroBatchEngine, run
from tests.enumerators.sql.shops import Shop, batches_of, polled, postgres_shop
from tests.postgres_server import PostgresServer

Engine = Callable[..., MicroBatchEngine]


def cursor(number: int) -> Cursor:
    return Cursor(values=(str(number),), types=("int64",))


def waiting(number: int, *writers: str) -> Waiting:
    return Waiting(newest=cursor(number), writers=dict.fromkeys(writers, "1"))


def writers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "1")


def test_without_writers_all_visible_rows_are_safe() -> None:
    assert settled(None, cursor(6), {}) == (cursor(6), None)


def test_rows_seen_while_a_writer_is_open_wait_for_that_writer() -> None:
    assert settled(None, cursor(6), writers("a")) == (None, waiting(6, "a"))


def test_rows_do_not_wait_for_writers_that_begin_later() -> None:
    assert settled(waiting(6, "a", "b"), cursor(9), writers("b", "c")) == (None, waiting(6, "b"))


def test_rows_are_safe_once_their_writers_have_ended_and_later_rows_wait_for_the_others() -> None:
    assert settled(waiting(6, "b"), cursor(9), writers("c")) == (cursor(6), waiting(9, "c"))
    assert settled(waiting(6, "b"), cursor(9), {}) == (cursor(9), None)


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[Shop]:
    """An empty table whose ids come from a sequence."""
    with postgres_shop(postgres) as shop:
        shop.execute("CREATE TABLE events (id bigserial PRIMARY KEY, name text)")
        shop.options |= {"table": "events", "cursorColumns": "id"}
        yield shop


@pytest.fixture
def open_transaction(postgres: PostgresServer, shop: Shop) -> Iterator[Callable[[], psycopg.Connection]]:
    """A function that opens a transaction on a new connection."""
    with ExitStack() as stack:

        def opened() -> psycopg.Connection:
            return stack.enter_context(postgres.connect(shop.more["database"], autocommit=False))

        yield opened


Opener = Callable[[], psycopg.Connection]


def test_an_id_that_is_committed_late_is_not_lost(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    late, early = open_transaction(), open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    early.execute("INSERT INTO events (name) VALUES ('id 2')")
    early.commit()
    assert polled(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_without_the_wait_an_id_that_is_committed_late_is_lost(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.with_options(waitForTransactions="false"))
    assert batches_of(engine) == []
    late, early = open_transaction(), open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    early.execute("INSERT INTO events (name) VALUES ('id 2')")
    early.commit()
    assert polled(engine) == [[2]]
    late.commit()
    assert polled(engine) == []


def test_rows_wait_for_an_id_that_was_drawn_but_not_yet_inserted(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    late = open_transaction()
    late.execute("SELECT nextval('events_id_seq')")
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    assert polled(engine) == []
    late.execute("INSERT INTO events (id, name) VALUES (1, 'id 1')")
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_rows_stop_waiting_for_a_transaction_that_is_rolled_back(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    late = open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    assert polled(engine) == []
    late.rollback()
    assert polled(engine) == [[2]]


def test_overlapping_writers_do_not_hold_rows_back_for_ever(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    found = []
    before = open_transaction()
    before.execute("INSERT INTO events (name) VALUES ('first')")
    for _ in range(4):
        following = open_transaction()
        following.execute("INSERT INTO events (name) VALUES ('next')")
        before.commit()
        found += polled(engine)
        before = following
    assert found == [[1], [2], [3]]


def test_rows_wait_for_a_prepared_transaction(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    assert batches_of(engine) == []
    late = open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    late.execute("PREPARE TRANSACTION 'flip27'")
    late.commit()
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    assert polled(engine) == []
    shop.execute("COMMIT PREPARED 'flip27'")
    assert polled(engine) == [[1, 2]]


def test_rows_do_not_wait_for_transactions_that_only_read(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    reading = open_transaction()
    reading.execute("SELECT * FROM events")
    shop.execute("INSERT INTO events (name) VALUES ('id 1')")
    assert polled(engine) == [[1]]


def test_after_a_restart_rows_still_wait_for_open_transactions(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    engine = flip27_engine(shop.options)
    late = open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    assert batches_of(engine) == []
    engine.restart()
    assert polled(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def test_a_run_that_times_out_names_the_transactions_that_it_waited_for(
    shop: Shop, open_transaction: Opener
) -> None:
    late = open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    (process,) = late.execute("SELECT pg_backend_pid()").fetchone() or (None,)
    options = shop.with_options(transactionTimeout="0s", discoveryRetries="0")
    with pytest.raises(DiscoveryError, match=rf"rows of table events wait for them \(processes {process}\)"):
        ids(options)


def test_updated_times_wait_for_writers_too(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    shop.execute("ALTER TABLE events ADD at timestamptz NOT NULL DEFAULT now() - interval '1 hour'")
    engine = flip27_engine(shop.with_options(cursorColumns="at,id"))
    late = open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('older')")
    shop.execute("INSERT INTO events (name) VALUES ('newer')")
    assert batches_of(engine) == []
    late.commit()
    assert polled(engine) == [[1, 2]]


def ids(options: dict[str, str]) -> list[Any]:
    return [number for batch in run(options) for number in batch.column("id").to_pylist()]


def test_a_start_at_the_latest_row_waits_for_open_transactions_whose_rows_are_before_it(
    shop: Shop, open_transaction: Opener, flip27_engine: Engine
) -> None:
    late, later = open_transaction(), open_transaction()
    late.execute("INSERT INTO events (name) VALUES ('id 1')")
    shop.execute("INSERT INTO events (name) VALUES ('id 2')")
    engine = flip27_engine(shop.with_options(startingCursor="latest"))
    assert batches_of(engine) == []
    later.execute("INSERT INTO events (name) VALUES ('id 3')")
    shop.execute("INSERT INTO events (name) VALUES ('id 4')")
    late.commit()
    assert polled(engine) == []
    later.commit()
    assert polled(engine) == [[3, 4]]
