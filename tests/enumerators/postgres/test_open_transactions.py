"""What is reported about a transaction that holds chunks back, on a real server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from flip27_source.enumerators.postgres.check_log import open_transactions
from flip27_source.enumerators.postgres.enumerator import PostgresEnumerator
from flip27_source.enumerators.postgres.open_transactions import HeldBack, OpenTransaction, oldest_open
from flip27_source.source import Source
from flip27_source.source_checks import Status
from flip27_source.testing import MicroBatchEngine
from tests.deadline import until
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop
from tests.postgres_server import PostgresServer

NOON = dt.datetime(2026, 1, 3, 12, 0, 0, tzinfo=dt.UTC)


def opened(*, pid: int | None = 17, gid: str | None = None, age_s: float | None = 90.0) -> OpenTransaction:
    since = None if age_s is None else NOON - dt.timedelta(seconds=age_s)
    return OpenTransaction(pid=pid, session="ada, psql", gid=gid, since=since, asked_at=NOON)


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(server) as shop:
        yield shop


def gauges(engine: MicroBatchEngine) -> dict[str, object]:
    return engine.holder.report() or {}


def test_a_transaction_that_delays_chunks_is_named_until_it_ends(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(tables="public.*"))
    engine.stop()
    with shop.session() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (11, 'x')")
        shop.execute("CREATE TABLE more (id int PRIMARY KEY, name text)", "INSERT INTO more VALUES (1, 'm')")
        engine.restart(available_now=False)

        def waits_for() -> object:
            engine.run_batch()
            return gauges(engine).get("chunksWaitForPid")

        until(lambda: waits_for() == writer.info.backend_pid, lambda: str(gauges(engine)))
        assert gauges(engine)["chunksWaitSeconds"] >= 0
        writer.execute("COMMIT")
    until(lambda: waits_for() == 0, lambda: str(gauges(engine)))
    caught_up(engine)
    assert ("r", 1, "m") in shop.ops(engine)


def test_a_prepared_transaction_is_named_too(shop: FaultyShop) -> None:
    shop.execute("BEGIN", "INSERT INTO orders VALUES (11, 'x')", f"PREPARE TRANSACTION '{shop.name}'")
    found = oldest_open(shop.control)
    assert found is not None
    assert found.text.startswith(f"the prepared transaction {shop.name}, open since")
    shop.execute(f"ROLLBACK PREPARED '{shop.name}'")
    assert oldest_open(shop.control) is None


def test_a_role_without_rights_sees_the_process_of_a_transaction_but_not_its_start(shop: FaultyShop) -> None:
    with shop.server.role() as role, shop.session() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (11, 'x')")
        with shop.server.connect(shop.name, role=role) as reader:
            found = oldest_open(reader)
        assert found is not None
        assert (found.pid, found.since) == (writer.info.backend_pid, None)
        writer.execute("ROLLBACK")


def test_check_names_the_transaction_that_the_creation_of_the_slot_waits_for(shop: FaultyShop) -> None:
    with shop.session() as writer:
        writer.execute("BEGIN; INSERT INTO orders VALUES (11, 'x')")
        findings = PostgresEnumerator.check_source(Source.resolve(shop.options).options)
        (found,) = [finding for finding in findings if finding.check == "open transactions"]
        assert f"server process {writer.info.backend_pid}" in found.found
        writer.execute("ROLLBACK")


def test_a_transaction_that_is_open_for_more_than_a_minute_is_logged_as_a_warning() -> None:
    found = open_transactions(opened(age_s=61.0))
    assert found.status is Status.WARNING
    said = "the oldest is that of server process 17 (ada, psql), open since 2026-01-03 11:58:59 UTC"
    assert found.found == f"{said}: creating the slot waits for it"
    assert found.remedy == "wait for its end; or: SELECT pg_terminate_backend(17);"
    assert open_transactions(opened(age_s=59.0)).status is Status.OK
    assert open_transactions(None).found == "none"


def test_each_transaction_is_warned_about_once() -> None:
    held = HeldBack()

    def warns(found: OpenTransaction | None, now_s: float) -> bool:
        return held.is_worth_a_warning(found, held.note(found, now_s))

    hidden = opened(age_s=None)
    assert [warns(hidden, now_s) for now_s in (100.0, 159.0, 160.0, 170.0)] == [False, False, True, False]
    assert [warns(opened(pid=18), now_s) for now_s in (171.0, 172.0)] == [True, False]
    assert held.note(None, 173.0) == 0.0
    assert not warns(hidden, 174.0)
