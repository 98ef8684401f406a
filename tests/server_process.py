"""Server processes of the tests: process and folder disappear when the tests end, in whatever way."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import Any

DEADLINE_S = 120

# Reads the server's process id, one line for each start and an empty line for each stop. The end of the input
# means that the tests have ended, in whatever way.
_KEEPER = """
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    kill -"$1" "$server"
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$server" && sleep 0.2 || break; done
fi
rm -rf -- "$0"
"""


class ServerProcess:
    """A server that can be started and ended repeatedly; ``kept_folder`` makes its folder and its keeper."""

    def __init__(self, keeper: subprocess.Popen[bytes]) -> None:
        self._keeper = keeper
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, number: signal.Signals) -> None:
        """End the server by a signal, if it runs."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(DEADLINE_S)
        self.process = None
        self._tell_keeper("")

    def _tell_keeper(self, line: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{line}\n".encode())
        self._keeper.stdin.flush()


@contextmanager
def kept_folder(prefix: str, *, ended_by: str) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Make a folder, and start a process that removes it at the end and sends the server ``ended_by``.

    The folder is not below pytest's folder, which other users cannot enter.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    keeper = subprocess.Popen(
        ["/bin/sh", "-c", _KEEPER, folder, ended_by],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with keeper:
        yield folder, keeper


class LosesClients(BaseServer):
    """Prints nothing when a client closes its connection or is killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(server: BaseServer) -> Iterator[str]:
    """Run a web server on a thread, and close it at the end; yields its URL."""
    host, port = server.server_address[:2]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
