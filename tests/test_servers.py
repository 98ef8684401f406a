"""The servers that the tests run: what they listen on, and what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.azurite_server import azurite_server


def test_the_server_listens_on_loopback_only_and_ends_with_its_block() -> None:
    with azurite_server() as server:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        addresses = [found.laddr.ip for found in process.net_connections() if found.status == "LISTEN"]
        assert addresses == ["127.0.0.1"] * 3
    assert not process.is_running()
    assert not server.log.exists()


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
