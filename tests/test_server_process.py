"""The servers that the tests run leave nothing behind: no process, no folder and no database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.postgres_server import PostgresServer

PROGRAM = """
import sys
from tests.kafka_server import kafka_broker
from tests.postgres_server import postgres_server
with postgres_server() if sys.argv[1] == "postgres" else kafka_broker(sys.argv[1]) as server:
    print(server.log.parent, server.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["postgres", "noida", "tansu"])
def test_the_server_and_its_folder_are_gone_when_the_tests_are_killed(kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        folder, pid = tests.stdout.readline().split()
        server = psutil.Process(int(pid))
        keeper = next(p for p in psutil.Process(tests.pid).children() if p.pid != server.pid)
        tests.kill()
    psutil.wait_procs([server, keeper], timeout=60)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert not Path(folder).exists()


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
