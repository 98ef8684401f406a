"""The sql reader: a range that cannot be reached is never quarantined or ignored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from flip27_source.enumerators.sql.split import SqlSplit
from flip27_source.errors import AccessError, Flip27Error
from flip27_source.readers.sql.reader import SqlReader
from flip27_source.testing import MicroBatchEngine, run
from tests.deadline import until
from tests.enumerators.sql.shops import ORDERS, Shop, batches_of, enter_shop, of_postgres, sqlite_shop
from tests.postgres_server import PostgresServer, await_replayed, postgres_server, postgres_standby

IDS = pa.schema([("id", pa.int64())])


class Disturbed(SqlReader):
    """Reads ranges of a database in which something changes first."""

    change: ClassVar[Callable[[], object]]

    def read(self, split: SqlSplit) -> Iterator[pa.RecordBatch]:
        type(self).change()
        yield from super().read(split)


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER ROLE {role} PASSWORD 'other'",
        "ALTER ROLE {role} CONNECTION LIMIT 0",
        "ALTER ROLE {role} SET statement_timeout = '1ms'",
        "REVOKE SELECT ON t FROM {role}",
    ],
)
def test_a_range_of_postgresql_that_cannot_be_reached_is_not_quarantined(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, statement: str, with_adbc: bool
) -> None:
    with postgres.role() as role, postgres.database() as name, postgres.connect(name) as connection:
        # A statement on many rows takes longer than the time that the role has.
        connection.execute("CREATE TABLE t AS SELECT id FROM generate_series(1, 300000) AS id")
        connection.execute(f"GRANT SELECT ON t TO {role.name}")
        monkeypatch.setenv("PG_PASSWORD", role.password)
        more = {"table": "t", "cursorColumns": "id", "passwordEnv": "PG_PASSWORD"}
        options = of_postgres(postgres, name, user=role.name, with_adbc=with_adbc, **more)
        check_not_quarantined(options, lambda: connection.execute(statement.format(role=role.name)))


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
@pytest.mark.parametrize("code", ["40001", "40P01", "53200", "55P03", "57014"])
def test_a_range_whose_rows_the_server_stops_sending_is_not_quarantined(
    postgres: PostgresServer, code: str, with_adbc: bool
) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        create = "CREATE OR REPLACE FUNCTION is_sent(id int) RETURNS boolean LANGUAGE plpgsql AS"
        connection.execute(f"{create} 'BEGIN RETURN true; END'")
        connection.execute("CREATE VIEW t AS SELECT id FROM generate_series(1, 9) AS id WHERE is_sent(id)")
        options = of_postgres(postgres, name, with_adbc=with_adbc, table="t", cursorColumns="id")
        fails = f"$$BEGIN RAISE 'no' USING ERRCODE = '{code}'; END$$"
        check_not_quarantined(options, lambda: connection.execute(f"{create} {fails}"))


@pytest.mark.parametrize("with_adbc", [True, False], ids=["adbc", "sqlalchemy"])
def test_a_range_of_a_locked_table_is_not_quarantined_and_the_remedy_is_about_the_lock(
    postgres: PostgresServer, with_adbc: bool
) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.execute(f"ALTER DATABASE {name} SET lock_timeout = '1ms'")
        options = of_postgres(postgres, name, with_adbc=with_adbc, table="t", cursorColumns="id")
        with postgres.connect(name, autocommit=False) as writer:
            check_not_quarantined(
                options, lambda: writer.execute("LOCK TABLE t"), remedy="transaction that holds the lock"
            )


@pytest.mark.parametrize("kind", ["sqlite", "sqlite by sqlalchemy", "duckdb"])
def test_a_range_of_a_database_file_that_is_missing_is_not_quarantined(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, NotImplemented)
        shop.insert(ORDERS)
        (file,) = tmp_path.glob("shop.*")
        check_not_quarantined(shop.options, lambda: file.unlink(missing_ok=True))


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE orders RENAME TO renamed", "ALTER TABLE orders RENAME COLUMN id TO number"]
)
def test_a_range_of_a_table_that_is_replaced_is_not_quarantined(shop: Shop, statement: str) -> None:
    shop.insert(ORDERS)
    changes = iter([statement])
    options = shop.with_options(cursorColumns="updated_at")
    check_not_quarantined(options, lambda: [shop.execute(each) for each in changes])


@pytest.mark.parametrize("driver", ["adbc", "psycopg", "psycopg2"])
@pytest.mark.parametrize("statement", ["DROP TABLE orders", "ALTER TABLE orders SET SCHEMA other"])
def test_a_range_is_not_quarantined_if_the_table_is_replaced_while_the_task_reads(
    postgres: PostgresServer, statement: str, driver: str
) -> None:
    with postgres.database() as name, postgres.connect(name) as connection:
        connection.execute("CREATE SCHEMA other")
        connection.execute("CREATE TABLE orders AS SELECT generate_series(1, 2) AS id")
        options = of_postgres(
            postgres, name, with_adbc=driver == "adbc", cursorColumns="id", partitionRows="1"
        )
        options["uri"] = options["uri"].replace("+psycopg:", f"+{driver}:")
        changes = iter(["SELECT 1", statement])
        check_not_quarantined(
            options, lambda: [connection.execute(each) for each in [next(changes, "SELECT")]]
        )


def test_the_error_for_the_journal_of_a_killed_writer_of_sqlite_says_how_to_remove_it(tmp_path: Path) -> None:
    with sqlite_shop(tmp_path) as shop:
        shop.insert(ORDERS)
        file = shop.options["uri"]
        code = (
            "import os, sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
            "connection.execute('PRAGMA cache_size = 2'); connection.execute('BEGIN IMMEDIATE'); "
            "connection.executemany('INSERT INTO orders VALUES (?, 1, ?)', "
            "((number, 'x' * 500) for number in range(100, 2000))); os._exit(1)"
        )
        subprocess.run([sys.executable, "-c", code, file], check=False)
        with pytest.raises(Flip27Error, match=r"readonly database(?s:.)*remove the journal of a writer"):
            list(run(shop.options))
        shop.execute("SELECT 1 FROM sqlite_master")
        assert sum(batch.num_rows for batch in run(shop.options)) == 6


@pytest.mark.parametrize("settings", ["", "cache=private", "mode=rwc"])
@pytest.mark.parametrize("driver", ["sqlite", None], ids=["adbc", "sqlalchemy"])
def test_a_file_of_sqlite_that_a_uri_names_is_not_created(
    driver: str | None, settings: str, tmp_path: Path
) -> None:
    with sqlite_shop(tmp_path) as shop:
        shop.insert(ORDERS)
        file = Path(shop.options["uri"])
        prefix, given = ("", settings) if driver else ("sqlite:///", f"{settings}&uri=true".strip("&"))
        options = shop.with_options(uri=f"{prefix}file:{file}" + (f"?{given}" if given else ""))
        if driver is None:
            del options["driver"]
        assert sum(batch.num_rows for batch in run(options)) == 6
        check_not_quarantined(options, lambda: file.unlink(missing_ok=True))
        assert not file.exists()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", "#part"),
        ("", "?cache=private#part"),
        ("sqlite:///", "#part?uri=true"),
        ("sqlite:///", "%23part?uri=true"),
        ("sqlite:///", "#part?cache=private&uri=true"),
    ],
)
def test_a_file_of_sqlite_that_a_uri_with_a_fragment_names_is_not_created(
    start: str, end: str, tmp_path: Path
) -> None:
    failed = pytest.raises(Flip27Error, match=r"failed to open|unable to open")
    with sqlite_shop(tmp_path, with_adbc=not start) as shop, failed:
        list(run(shop.with_options(uri=f"{start}file:{tmp_path}/other.db{end}")))
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("kind", ["sqlite by sqlalchemy", "duckdb"])
def test_a_range_of_a_locked_database_file_is_not_quarantined(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        shop = enter_shop(kind, stack, tmp_path, NotImplemented)
        shop.insert(ORDERS)
        (file,) = tmp_path.glob("shop.*")
        module, begin = ("duckdb", "BEGIN") if kind == "duckdb" else ("sqlite3", "BEGIN EXCLUSIVE")
        connect = f"import {module}; connection = {module}.connect({str(file)!r})"
        code = f"{connect}; connection.execute({begin!r}); print(flush=True); input()"
        shop.options["uri"] += "" if kind == "duckdb" else "?timeout=0.1"
        holders = []

        def lock() -> None:
            if not holders:
                command = [sys.executable, "-c", code]
                holders.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                holders[0].stdout.readline()

        try:
            check_not_quarantined(shop.options, lock)
        finally:
            for holder in holders:
                holder.communicate(b"\n")


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_a_range_is_not_read_from_a_standby_that_has_replayed_less_than_the_range_needs(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One uri may lead to several servers: the driver and the tasks connect independently of each other."""

    def use(server: PostgresServer) -> None:
        monkeypatch.setenv("SHOP", f"{driver}://postgres@127.0.0.1:{server.port}/postgres")

    with postgres_server() as primary, primary.connect() as writer:
        writer.execute("CREATE TABLE orders (id bigint)")
        writer.execute("SELECT pg_create_physical_replication_slot('standby')")
        with postgres_standby(primary, slot="standby", database="postgres") as standby:
            with standby.connect() as owner:
                owner.execute("SELECT pg_wal_replay_pause()")
                paused = "SELECT pg_get_wal_replay_pause_state()"
                until(lambda: owner.execute(paused).fetchone() == ("paused",))
            writer.execute("INSERT INTO orders VALUES (1), (2)")
            use(primary)
            Disturbed.change = staticmethod(lambda: use(standby))
            options = {"enumerator": "sql", "uriEnv": "SHOP", "table": "orders", "cursorColumns": "id"}
            if driver == "postgresql":
                options["driver"] = driver
            engine = MicroBatchEngine({**options, "onSplitError": "ignore"}, reader=Disturbed, schema=IDS)
            with pytest.raises(AccessError, match=r"(?s)a standby that has not replayed .*nothing was"):
                engine.run_batch()
            with standby.connect() as owner:
                owner.execute("SELECT pg_wal_replay_resume()")
                await_replayed(primary, standby)
            engine.restart()
            assert batches_of(engine) == [[1, 2]]


def test_a_range_of_a_database_that_was_moved_is_read_from_a_standby_of_the_new_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def use(server: PostgresServer) -> None:
        monkeypatch.setenv("SHOP", of_postgres(server, "postgres")["uri"])

    with postgres_server() as old, postgres_server() as new:
        for server in (old, new):
            with server.connect() as writer:
                writer.execute("CREATE TABLE orders (id bigint)")
                writer.execute("INSERT INTO orders VALUES (1), (2)")
        with old.connect() as writer:
            for number in range(3):
                writer.execute(f"CREATE TABLE more_{number} ()")
                writer.execute("SELECT pg_switch_wal()")
        with new.connect() as writer:
            writer.execute("SELECT pg_create_physical_replication_slot('standby', true)")
        with postgres_standby(new, slot="standby", database="postgres") as standby:
            with standby.connect() as owner:
                until(lambda: owner.execute("SELECT to_regclass('orders') IS NOT NULL").fetchone() == (True,))
            use(old)
            Disturbed.change = staticmethod(lambda: use(standby))
            options = {"driver": "postgresql", "uriEnv": "SHOP", "table": "orders", "cursorColumns": "id"}
            engine = MicroBatchEngine({"enumerator": "sql", **options}, reader=Disturbed, schema=IDS)
            assert batches_of(engine) == [[1, 2]]


def check_not_quarantined(options: dict[str, str], change: Callable[[], object], *, remedy: str = "") -> None:
    Disturbed.change = staticmethod(change)
    engine = MicroBatchEngine({**options, "onSplitError": "quarantine"}, reader=Disturbed, schema=IDS)
    with pytest.raises(AccessError, match=rf"{remedy}.*nothing was quarantined or lost"):
        engine.run_batch()
