"""Server processes of the tests: process and folder disappear when the tests end, in whatever way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    """A server that can be started and ended repeatedly; ``kept_folder`` makes its folder and its keeper.

    Attributes:
        log: the file with the output of the server.
    """

    def __init__(self, folder: Path, keeper: subprocess.Popen[bytes]) -> None:
        self.log = folder / "log"
        self._folder = folder
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

    def _spawn(self, command: Sequence[str | Path], *, environment: Mapping[str, str], **more: Any) -> Any:
        """Start a program of the server in the server's folder; its output is added to the log."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env={"PATH": os.defpath, "HOME": str(self._folder), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **more,
            )

    def _started(self, process: subprocess.Popen[bytes], error: Callable[[], object]) -> None:
        """Wait until the server of this process answers: until ``error`` returns None."""
        self.process = process
        self._tell_keeper(str(process.pid))
        deadline = time.monotonic() + DEADLINE_S
        while (found := error()) is not None:
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {found}\n{self.log.read_text()}")
            time.sleep(0.02)

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


class Answering(BaseHTTPRequestHandler):
    """Prints nothing, keeps connections open, and sends answers at once."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would hold each body back for 40 ms

    def answer(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        """Send a whole answer; without its body for HEAD."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class _WebServer(LosesClients, ThreadingHTTPServer):
    daemon_threads = True


def web_server(handler: Callable[..., BaseHTTPRequestHandler]) -> AbstractContextManager[str]:
    """Run a web server with this handler; yields its URL."""
    return served(_WebServer(("127.0.0.1", 0), handler))


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
