"""A server that stops, is killed, cuts connections or refuses requests, in each phase of a query."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flip27_source.enumerators.postgres.connection import ServerError
from flip27_source.errors import DataLossError, DiscoveryError, Flip27Error, SplitReadError
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.postgres.database import wait_until
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop
from tests.postgres_server import PostgresServer, postgres_server


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(server) as shop:
        yield shop


def slot_made(shop: FaultyShop) -> MicroBatchEngine:
    engine = shop.engine()
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.OFFSET_RETURNED)
    return engine


def chunks_planned(shop: FaultyShop) -> MicroBatchEngine:
    engine = shop.engine(maxRowsPerTrigger="4")
    while not engine.rows:
        engine.run_batch()
    assert engine.trigger()
    return engine


def log_planned(shop: FaultyShop) -> MicroBatchEngine:
    engine = caught_up(shop.engine())
    shop.execute("UPDATE orders SET name = 'planned' WHERE id = 2")
    engine.restart(available_now=False)
    while not engine.trigger():
        pass
    return engine


def log_read(shop: FaultyShop) -> MicroBatchEngine:
    engine = log_planned(shop)
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.SINK_WRITTEN)
    return engine


PHASES = [slot_made, chunks_planned, log_planned, log_read]


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.crash, PostgresServer.kill])
@pytest.mark.parametrize("phase", PHASES)
def test_a_restart_of_the_server_neither_loses_nor_repeats_changes(
    shop: FaultyShop, phase: Callable[[FaultyShop], MicroBatchEngine], end: Callable[[PostgresServer], None]
) -> None:
    engine = phase(shop)
    shop.execute("INSERT INTO orders VALUES (11, 'x')", "DELETE FROM orders WHERE id = 1")
    end(shop.server)
    shop.server.start()
    shop.reconnect()
    shop.execute("UPDATE orders SET name = 'y' WHERE id = 11")
    caught_up(engine)
    rows: dict[int | None, str | None] = {}
    for op, key, name in shop.ops(engine):
        assert (key in rows) == (op in "ud"), (op, key)
        if op == "d":
            rows.pop(key)
        else:
            rows[key] = name
    assert rows == dict(shop.control.execute("SELECT id, name FROM orders").fetchall())
    engine.stop()


def test_a_transaction_id_that_a_killed_server_assigns_again_belongs_to_a_new_transaction() -> None:
    # With these settings, the log of a transaction that is rolled back is lost when the server is killed.
    settings = {"wal_writer_delay": "10s", "autovacuum": "off", "bgwriter_delay": "10s"}
    with postgres_server(**settings) as server, faulty_shop(server) as shop:
        engine = shop.engine(maxRowsPerTrigger="4")
        while not engine.rows:
            engine.run_batch()
        shop.execute("CHECKPOINT", "BEGIN", "INSERT INTO orders VALUES (11, 'never')")
        forgotten = int(shop.one("SELECT pg_current_xact_id()::text"))
        shop.execute("ROLLBACK")
        while len(engine.rows) < 10:
            engine.run_batch()
        server.kill()
        server.start()
        shop.reconnect()
        for key in range(10, 0, -1):
            shop.execute(f"UPDATE orders SET name = 'new' WHERE id = {key}")
        first = int(shop.one("SELECT xmin::text::bigint FROM orders WHERE id = 10"))
        caught_up(engine)
        assert [op for op, _, _ in shop.ops(engine)] == ["r"] * 10 + ["u"] * 10
        assert first > forgotten
        engine.stop()


def test_an_unreachable_server_is_an_error_with_its_address(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    engine.restart(available_now=False)
    engine.run_batch()
    shop.server.stop()
    try:
        with pytest.raises(ServerError, match=rf"at 127\.0\.0\.1:{shop.server.port} "):
            engine.process_all_available()
    finally:
        shop.server.start()
        shop.reconnect()


def test_a_chunk_is_read_again_after_its_connection_is_cut_in_the_middle(
    server: PostgresServer,
) -> None:
    with faulty_shop(server, rows=400_000, snapshotChunkRows="1000000") as shop:
        engine = shop.engine()
        engine.restart(available_now=True)
        assert engine.trigger()
        assert [task_is_cut(engine, task, shop) for task in engine.partitions()].count(True) == 1
        batch = engine.run_batch()
        assert batch is not None
        assert len(batch.rows) == len({row[0] for row in batch.rows}) == 400_000


def task_is_cut(engine: MicroBatchEngine, task: object, shop: FaultyShop) -> bool:
    """Begin the task, and cut its connection after its first rows; return whether it had any."""
    rows = iter(engine.read(task))  # type: ignore[arg-type]
    first = next(rows, None)
    if first is None:
        return False
    cut = (
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name ~ '^flip27 (chunk|log window)'"
    )
    assert shop.one(cut) == 1
    with pytest.raises(SplitReadError, match=r"reading .* failed on database .*"):
        list(rows)
    return True


def test_a_window_is_read_again_after_its_connection_is_cut_in_the_middle(
    server: PostgresServer,
) -> None:
    with faulty_shop(server) as shop:
        engine = caught_up(shop.engine())
        shop.execute("INSERT INTO orders SELECT n, repeat('x', 50) FROM generate_series(11, 300000) n")
        engine.restart(available_now=True)
        assert engine.trigger()
        (task,) = engine.partitions()
        assert task_is_cut(engine, task, shop)
        batch = engine.run_batch()
        assert batch is not None
        assert len(batch.rows) == len({row[0] for row in batch.rows}) == 299_990


def test_a_statement_that_takes_too_long_says_which_option_limits_it(shop: FaultyShop) -> None:
    engine = shop.engine(statementTimeout="200ms")
    engine.restart(available_now=True)
    assert engine.trigger()
    shop.execute("BEGIN", "LOCK TABLE orders")
    with pytest.raises(SplitReadError, match=r"(?s)statement timeout \[57014\].*statementTimeout"):
        list(engine.attempt(engine.partitions()[0]))
    shop.execute("ROLLBACK")
    caught_up(engine)
    assert len(engine.rows) == 10


def test_a_slot_whose_log_was_removed_is_data_loss(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    shop.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        wait_until(lambda: shop.one("SHOW max_slot_wal_keep_size") == "1MB", lambda: "another limit")
        for _ in range(3):
            shop.execute("SELECT pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()")
        shop.execute("CHECKPOINT")
    finally:
        shop.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    with pytest.raises(DataLossError, match=f"slot {shop.slot} is lost"):
        caught_up(engine)


def test_the_enumerator_reconnects_when_its_connection_is_cut(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    engine.restart(available_now=False)
    engine.run_batch()
    cut = (
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'flip27 log %%'"
    )
    for number in (11, 12):
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
        assert shop.one(cut) >= 1
        engine.process_all_available()
    caught_up(engine)
    assert len(engine.rows) == 12


def test_a_server_that_was_restored_from_a_backup_is_data_loss(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    data = Path(shop.one("SHOW data_directory"))
    shop.server.stop()
    backup = data.with_name("backup")
    shutil.copytree(data, backup)
    owner = data.stat()
    for path in (backup, *backup.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    shop.server.start()
    shop.reconnect()
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(11, 5000) n")
    caught_up(engine)
    assert len(engine.rows) == 5000
    shop.server.stop()
    shutil.rmtree(data)
    backup.rename(data)
    shop.server.start()
    shop.reconnect()
    shop.execute("INSERT INTO orders VALUES (11, 'another')")
    with pytest.raises(
        DataLossError, match=r"the log of the server ends at .* and this query has read up to"
    ):
        caught_up(engine)


def test_a_standby_is_refused(server: PostgresServer) -> None:
    with faulty_shop(server) as shop:
        signal = Path(shop.one("SHOW data_directory")) / "standby.signal"
        shop.server.stop()
        signal.touch()
        try:
            shop.server.start()
            with pytest.raises(DiscoveryError, match="the server is a standby"):
                caught_up(shop.engine())
        finally:
            shop.server.stop()
            signal.unlink()
            shop.server.start()
            shop.reconnect()


def test_a_start_position_that_the_log_has_not_reached_is_refused(shop: FaultyShop) -> None:
    with pytest.raises(DiscoveryError, match="startingLsn is FF/0, and the log ends at"):
        caught_up(shop.engine(snapshot="never", startingLsn="FF/0"))


# What a server refuses.


def test_the_error_for_a_wrong_password_does_not_show_the_password(
    shop: FaultyShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "wrong-and-secret")
    with shop.server.role("REPLICATION") as role:
        with pytest.raises(Flip27Error, match="password authentication failed") as refused:
            caught_up(shop.engine(user=role.name, passwordEnv="SHOP_PASSWORD"))
        assert "secret" not in str(refused.value)


def test_a_missing_database_is_named(shop: FaultyShop) -> None:
    with pytest.raises(Flip27Error, match='database "missing" does not exist'):
        caught_up(shop.engine(database="missing"))


def test_a_missing_table_is_named(shop: FaultyShop) -> None:
    with pytest.raises(
        Flip27Error, match=r"option tables has public\.missing, and the database has no such table"
    ):
        caught_up(shop.engine(tables="public.missing"))


def test_a_role_without_replication_is_refused_with_the_statement_to_run(
    server: PostgresServer,
) -> None:
    with server.role() as role, faulty_shop(server) as shop:
        shop.execute(f"GRANT SELECT ON orders TO {role.name}", "CREATE PUBLICATION p FOR TABLE orders")
        engine = shop.engine(user=role.name, password=role.password, publication="p")
        with pytest.raises(ServerError, match=rf"(?s)42501.*ALTER ROLE {role.name} REPLICATION"):
            caught_up(engine)


def test_a_role_that_may_not_read_the_table_is_refused_with_the_statement_to_run(
    server: PostgresServer,
) -> None:
    with server.role("REPLICATION") as role, faulty_shop(server) as shop:
        shop.execute("CREATE PUBLICATION p FOR TABLE orders")
        engine = shop.engine(user=role.name, password=role.password, publication="p")
        with pytest.raises(Flip27Error, match=rf"(?s)42501.*GRANT SELECT .* TO {role.name}"):
            caught_up(engine)


def test_a_role_that_may_not_create_the_publication_gets_the_statement_for_the_owner(
    server: PostgresServer,
) -> None:
    with server.role("REPLICATION") as role, faulty_shop(server) as shop:
        engine = shop.engine(user=role.name, password=role.password)
        with pytest.raises(DiscoveryError, match=r'CREATE PUBLICATION .* FOR TABLE "public"\."orders"'):
            caught_up(engine)


def test_a_role_that_may_not_add_a_table_to_the_publication_gets_the_statement_for_the_owner(
    server: PostgresServer,
) -> None:
    with server.role("REPLICATION") as role, faulty_shop(server) as shop:
        shop.execute("CREATE TABLE other (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE other")
        engine = shop.engine(user=role.name, password=role.password, publication="p")
        refused = 'the role may not add "public"."orders" to the publication p: must be owner'
        statement = 'ALTER PUBLICATION "p" ADD TABLE "public"."orders";'
        with pytest.raises(DiscoveryError, match=f"(?s){refused}.*{statement}"):
            caught_up(engine)


def test_a_role_with_replication_and_select_reads_everything_and_its_password_is_stored_nowhere(
    server: PostgresServer,
) -> None:
    with server.role("REPLICATION") as role, faulty_shop(server) as shop:
        shop.execute(f"GRANT SELECT ON orders TO {role.name}")
        shop.execute(f'CREATE PUBLICATION "{shop.slot}" FOR TABLE orders')
        engine = caught_up(shop.engine(user=role.name, password=role.password))
        shop.execute("INSERT INTO orders VALUES (11, 'x')")
        caught_up(engine)
        assert len(engine.rows) == 11
        found = [path for path in shop.state.rglob("*") if path.is_file()]
        assert found
        assert not [path for path in found if role.password.encode() in path.read_bytes()]
        assert role.password not in "".join(engine.logs.offsets)
        assert role.password not in repr(engine) + repr(engine.source)
        engine.stop()


def test_a_server_without_a_logical_log_is_refused(server: PostgresServer) -> None:
    server.restart(wal_level="replica")
    try:
        with (
            faulty_shop(server) as shop,
            pytest.raises(
                Flip27Error, match=r"(?s)has wal_level=replica.*ALTER SYSTEM SET wal_level = logical"
            ),
        ):
            caught_up(shop.engine())
    finally:
        server.restart()
