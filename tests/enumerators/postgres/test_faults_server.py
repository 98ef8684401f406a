"""A server that stops, is killed, cuts connections or refuses requests, in each phase of a query."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.postgres.connection import ServerError
from flip27_source.enumerators.postgres.server import slot_of
from flip27_source.enumerators.postgres.set_back import other_log
from flip27_source.enumerators.postgres.split import Committed
from flip27_source.errors import AccessError, DataLossError, DiscoveryError, Flip27Error
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.postgres.faults import (
    OTHER,
    FaultyShop,
    caught_up,
    faulty_shop,
    has_read,
    planned,
    running,
)
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
    engine = has_read(shop.engine(maxRowsPerTrigger="4"))
    assert engine.trigger()
    return engine


def log_planned(shop: FaultyShop) -> MicroBatchEngine:
    engine = caught_up(shop.engine())
    shop.execute("UPDATE orders SET name = 'planned' WHERE id = 2")
    return planned(engine, available_now=False)


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
    shop.check_copy(caught_up(engine))
    engine.stop()


def test_a_transaction_id_that_a_killed_server_assigns_again_belongs_to_a_new_transaction() -> None:
    # With these settings, the log of a transaction that is rolled back is lost when the server is killed.
    settings = {"wal_writer_delay": "10s", "autovacuum": "off", "bgwriter_delay": "10s"}
    with postgres_server(**settings) as server, faulty_shop(server) as shop:
        engine = has_read(shop.engine(maxRowsPerTrigger="4"))
        shop.execute("CHECKPOINT", "BEGIN", "INSERT INTO orders VALUES (11, 'never')")
        forgotten = int(shop.one("SELECT pg_current_xact_id()::text"))
        shop.execute("ROLLBACK")
        has_read(engine, 10)
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
    engine = running(caught_up(shop.engine()))
    shop.server.stop()
    try:
        with pytest.raises(ServerError, match=rf"at 127\.0\.0\.1:{shop.server.port} "):
            engine.process_all_available()
    finally:
        shop.server.start()
        shop.reconnect()


def test_a_chunk_is_read_again_after_its_connection_is_cut_in_the_middle(server: PostgresServer) -> None:
    with faulty_shop(server, rows=400_000, snapshotChunkRows="1000000") as shop:
        engine = planned(shop.engine())
        assert [task_is_cut(engine, task, shop) for task in engine.partitions()].count(True) == 1
        batch = engine.run_batch()
        assert batch is not None
        assert len(batch.rows) == len({row[0] for row in batch.rows}) == 400_000


def connections_cut(shop: FaultyShop, name: str) -> int:
    """Cut the connections of applications whose names match; return their number."""
    return shop.one(
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name ~ %s",
        name,
    )


def task_is_cut(engine: MicroBatchEngine, task: object, shop: FaultyShop) -> bool:
    """Begin the task, and cut its connection after its first rows; return whether it had any."""
    rows = iter(engine.read(task))  # type: ignore[arg-type]
    first = next(rows, None)
    if first is None:
        return False
    assert connections_cut(shop, "^flip27 (chunk|log window)") == 1
    with pytest.raises(AccessError, match=r"reading .* failed on database .*"):
        list(rows)
    return True


def test_a_window_is_read_again_after_its_connection_is_cut_in_the_middle(server: PostgresServer) -> None:
    with faulty_shop(server) as shop:
        engine = caught_up(shop.engine())
        shop.execute("INSERT INTO orders SELECT n, repeat('x', 50) FROM generate_series(11, 300000) n")
        (task,) = planned(engine).partitions()
        assert task_is_cut(engine, task, shop)
        batch = engine.run_batch()
        assert batch is not None
        assert len(batch.rows) == len({row[0] for row in batch.rows}) == 299_990


def test_a_statement_that_takes_too_long_says_which_option_limits_it(shop: FaultyShop) -> None:
    engine = planned(shop.engine(statementTimeout="200ms"))
    shop.execute("BEGIN", "LOCK TABLE orders")
    with pytest.raises(AccessError, match=r"(?s)statement timeout \[57014\].*statementTimeout"):
        list(engine.attempt(engine.partitions()[0]))
    shop.execute("ROLLBACK")
    caught_up(engine)
    assert len(engine.rows) == 10


def test_a_slot_whose_log_was_removed_is_data_loss(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    with shop.server_setting("max_slot_wal_keep_size", "1MB"):
        shop.fill_log()
        shop.execute("CHECKPOINT")
    with pytest.raises(DataLossError, match=f"slot {shop.slot} is lost"):
        caught_up(engine)


def test_the_enumerator_reconnects_when_its_connection_is_cut(shop: FaultyShop) -> None:
    engine = running(caught_up(shop.engine()))
    for number in (11, 12):
        shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
        assert connections_cut(shop, "^flip27 log ") >= 1
        engine.process_all_available()
    caught_up(engine)
    assert len(engine.rows) == 12


@pytest.mark.parametrize(
    ("options", "read"),
    [({}, caught_up), ({"maxRowsPerTrigger": "4"}, MicroBatchEngine.run_batch)],
    ids=["the log was read", "only chunks were read"],
)
def test_a_server_that_was_restored_from_a_backup_is_data_loss(
    shop: FaultyShop, options: dict[str, str], read: Callable[[MicroBatchEngine], Any]
) -> None:
    engine = shop.engine(**options)
    while not engine.rows:
        read(engine)
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
    while len(engine.rows) < 5000:
        read(engine)
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


@pytest.mark.parametrize("is_planned", [False, True])
def test_a_server_that_was_set_back_to_an_image_and_has_written_more_since_is_data_loss(
    is_planned: bool,
) -> None:
    with postgres_server() as server, faulty_shop(server) as shop:
        engine = caught_up(shop.engine())
        engine.stop()
        server.take_image()
        shop.reconnect()
        shop.execute("INSERT INTO orders VALUES (11, 'gone')")
        caught_up(engine)
        if is_planned:
            shop.execute("INSERT INTO orders VALUES (12, 'gone')")
            planned(engine)
        engine.stop()
        server.set_back_to_image()
        shop.reconnect()
        shop.execute("INSERT INTO orders VALUES (11, 'other')")
        shop.fill_log()
        for _ in range(2):
            with pytest.raises(DataLossError, match="the server was set back to an image of its disk"):
                caught_up(engine)
        reporting = caught_up(shop.engine(after=engine, onDataLoss="report"))
        shop.execute("INSERT INTO orders VALUES (13, 'x')")
        assert shop.changes(caught_up(reporting))[-1] == ("c", 13, "x")
        reporting.stop()


def test_a_server_that_is_set_back_to_an_image_while_the_query_runs_is_data_loss() -> None:
    with postgres_server() as server, faulty_shop(server) as shop:
        engine = caught_up(shop.engine())
        engine.stop()
        server.take_image()
        shop.reconnect()
        running(engine)
        for row in range(11, 15):
            shop.execute(f"INSERT INTO orders VALUES ({row}, 'gone')")
            has_read(engine, row)
        shop.execute("INSERT INTO orders VALUES (15, 'gone')")
        while not engine.trigger():
            pass
        engine.run_batch()
        server.set_back_to_image()
        shop.reconnect()
        shop.execute("INSERT INTO orders VALUES (11, 'other')")
        shop.fill_log()
        shop.execute("INSERT INTO orders VALUES (12, 'other')")
        with pytest.raises(DataLossError, match="the server was set back to an image of its disk"):
            has_read(engine, 16)


def test_a_slot_that_the_query_moves_forward_while_logs_are_compared_is_no_data_loss(
    shop: FaultyShop,
) -> None:
    caught_up(shop.engine()).stop()
    before = slot_of(shop.control, shop.slot)
    assert before is not None
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    read_to = shop.flushed()
    found = other_log(shop.control, before, shop.slot, read_to=read_to, last=Committed(lsn=read_to, at_us=0))
    assert found is not None  # nothing was committed at that position
    shop.advance(read_to)
    last = Committed(lsn=before.confirmed, at_us=0)
    assert other_log(shop.control, before, shop.slot, read_to=read_to, last=last) is None


def test_a_standby_is_refused(shop: FaultyShop) -> None:
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"database": "missing"}, 'database "missing" does not exist', id="database"),
        pytest.param(
            {"tables": "public.missing"},
            r"option tables has public\.missing, and the database has no such table",
            id="table",
        ),
    ],
)
def test_what_is_missing_is_named(shop: FaultyShop, options: dict[str, str], said: str) -> None:
    with pytest.raises(Flip27Error, match=said):
        caught_up(shop.engine(**options))


@pytest.mark.parametrize(
    ("attributes", "statements", "error", "said"),
    [
        pytest.param(
            "", ["GRANT SELECT ON orders TO {role}", "CREATE PUBLICATION p FOR TABLE orders"],
            ServerError, "42501.*ALTER ROLE {role} REPLICATION",
            id="replication",
        ),
        pytest.param(
            "REPLICATION", ["CREATE PUBLICATION p FOR TABLE orders"],
            Flip27Error, "42501.*GRANT SELECT .* TO {role}",
            id="select",
        ),
        pytest.param(
            "REPLICATION", [], DiscoveryError, r'CREATE PUBLICATION .* FOR TABLE ONLY "public"\."orders"',
            id="the creation of the publication",
        ),
        pytest.param(
            "REPLICATION", [OTHER, "CREATE PUBLICATION p FOR TABLE other"],
            DiscoveryError,
            r'the role may not add public\.orders to the publication p: must be owner'
            '.*ALTER PUBLICATION "p" ADD TABLE ONLY "public"."orders";',
            id="a table of the publication",
        ),
        pytest.param(
            "REPLICATION", ["ALTER ROLE {role} NOLOGIN"],
            ServerError, 'role "{role}" is not permitted to log in',
            id="to connect",
        ),
    ],
)  # fmt: skip
def test_a_role_without_the_right_to_something_is_refused_with_the_statement_to_run(
    server: PostgresServer, attributes: str, statements: list[str], error: type[Flip27Error], said: str
) -> None:
    with server.role(attributes) as role, faulty_shop(server) as shop:
        shop.execute(*(statement.format(role=role.name) for statement in statements))
        publication = {"publication": "p"} if statements else {}
        with pytest.raises(error, match="(?s)" + said.format(role=role.name)):
            caught_up(shop.engine(user=role.name, password=role.password, **publication))


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
        files = [path for path in Path(shop.options["stateLocation"]).rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if role.password.encode() in path.read_bytes()]
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
