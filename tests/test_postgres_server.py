"""The PostgreSQL server that the tests run: it starts, can be killed, and disappears when the tests end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres_server import PostgresServer, postgres_server

PROGRAM = """
import sys
from tests.postgres_server import postgres_server
with postgres_server() as server:
    print(server.log.parent, server.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_a_new_database_is_empty_and_dropped_with_its_slots_and_prepared_transactions(
    postgres: PostgresServer,
) -> None:
    with postgres.database() as name:
        with postgres.connect(name) as connection:
            connection.execute("CREATE TABLE t (a int)")
            connection.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
            connection.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'")
        still_open = postgres.connect(name)
    with postgres.connect() as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchall()
        slots = connection.execute("SELECT 1 FROM pg_replication_slots").fetchall()
    assert (found, slots) == ([], [])
    with pytest.raises(psycopg.OperationalError):
        still_open.execute("SELECT 1")
    still_open.close()


def test_a_role_needs_its_password_and_has_no_rights(postgres: PostgresServer) -> None:
    with postgres.role() as role, postgres.database() as name:
        with postgres.connect(name) as connection:
            connection.execute("CREATE TABLE t (a int)")
        with postgres.connect(name, role=role) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT * FROM t")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            postgres.connect(name, role=role, password="another")


@pytest.mark.parametrize("how", ["kill", "crash", "stop"])
def test_committed_rows_survive_a_restart_on_the_same_port(own_server: PostgresServer, how: str) -> None:
    port = own_server.port
    with own_server.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (a int)")
        connection.execute("INSERT INTO t VALUES (7)")
        getattr(own_server, how)()
        assert not own_server.is_running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    own_server.start(work_mem="1MB")
    with own_server.connect() as connection:
        assert connection.execute("SELECT a, current_setting('work_mem') FROM t").fetchone() == (7, "1MB")
    assert own_server.port == port


def test_the_server_and_its_folder_are_gone_when_the_tests_are_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        folder, pid = tests.stdout.readline().split()
        server = psutil.Process(int(pid))
        keeper = next(p for p in psutil.Process(tests.pid).children() if p.pid != server.pid)
        tests.kill()
    psutil.wait_procs([server, keeper], timeout=60)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert not Path(folder).exists()
