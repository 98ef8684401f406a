"""A server on this machine that sends given bytes, well formed or not, and can do so slowly."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE_S = 0.01


class RawServer:
    """The requests that the server received, and how the connections ended.

    Attributes:
        requests: the heads of all requests, in their order.
        connections: how many connections were accepted.
        left: set once a client has closed a connection while the server was still sending.
        closed: set when the server ends.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.connections = 0
        self.left = threading.Event()
        self.closed = threading.Event()

    @property
    def paths(self) -> list[str]:
        return [head.split(b" ")[1].decode() for head in self.requests]

    def read_request(self, connection: socket.socket) -> None:
        """Wait for the head of a request and record it."""
        found = b""
        while b"\r\n\r\n" not in found:
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError
            found += data
        self.requests.append(found)

    def drip(self, connection: socket.socket, data: bytes) -> None:
        """Send byte by byte, until the client leaves."""
        try:
            for number in range(len(data)):
                connection.sendall(data[number : number + 1])
                if self.closed.wait(_PAUSE_S):
                    return
        except OSError:
            self.left.set()


Script = Callable[[RawServer, socket.socket], None]
"""Answers one request; the connection is closed afterwards."""


def says(data: bytes) -> Script:
    """A script that sends these bytes."""
    return lambda _, connection: connection.sendall(data)


def drips(first: bytes, slowly: bytes) -> Script:
    """A script that sends the first part at once, and the second byte by byte."""

    def script(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(first)
        server.drip(connection, slowly)

    return script


def floods(head: bytes, piece: bytes = b"x" * 100_000) -> Script:
    """A script that sends the head, and then the piece without end."""

    def script(server: RawServer, connection: socket.socket) -> None:
        connection.sendall(head)
        while not server.closed.is_set():
            connection.sendall(piece)

    return script


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An HTTP response with the header Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@contextmanager
def raw_server(
    script: Script, tls: ssl.SSLContext | None = None, *, before_tls: bool = False
) -> Iterator[RawServer]:
    """Run a server that answers each connection by the script.

    Args:
        before_tls: the script runs instead of the TLS handshake.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    scheme = "https" if tls is not None or before_tls else "http"
    server = RawServer(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with connection if tls is None else tls.wrap_socket(connection, server_side=True) as talking:
                    if not before_tls:
                        server.read_request(talking)
                    script(server, talking)
        except OSError:
            server.left.set()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            server.connections += 1
            thread = threading.Thread(target=serve, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        server.closed.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join(10)
