"""Servers on this machine for file systems that are neither local nor an object store: SFTP and HTTP."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import asyncssh

from tests.server_process import web_server

USER, PASSWORD = "tester", "not-to-be-stored"


class _AnyoneWithThePassword(asyncssh.SSHServer):
    def __init__(self, connections: list[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.append(conn)

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftpServer:
    """A running SFTP server."""

    port: int
    drop_connections: Callable[[], None]
    """Ends all connections, as a server does with idle ones."""

    @property
    def url(self) -> str:
        return f"sftp://127.0.0.1:{self.port}"


@contextmanager
def sftp_server(root: Path) -> Iterator[SftpServer]:
    """Run a server of the files below ``root``."""
    connections: list[asyncssh.SSHServerConnection] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=lambda: _AnyoneWithThePassword(connections),
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=functools.partial(asyncssh.SFTPServer, chroot=str(root)),
        )

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)

    async def drop() -> None:
        for connection in connections:
            connection.abort()
            await connection.wait_closed()

    def drop_connections() -> None:
        asyncio.run_coroutine_threadsafe(drop(), loop).result(30)

    try:
        yield SftpServer(port=server.get_port(), drop_connections=drop_connections)
    finally:

        async def close() -> None:
            server.close()
            await drop()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class WebFiles(SimpleHTTPRequestHandler):
    """Lists directories and serves files as Python's own web server does: whole files, never ranges."""

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def is_answered(self) -> bool:
        """Answer a request in another way; False leaves it to Python's web server."""
        return False

    def do_HEAD(self) -> None:
        if not self.is_answered():
            super().do_HEAD()

    def do_GET(self) -> None:
        if not self.is_answered():
            super().do_GET()


@contextmanager
def http_files(root: Path, handler: type[WebFiles] = WebFiles) -> Iterator[str]:
    """Run a web server that lists and serves the files below ``root``; yields its URL."""
    with web_server(functools.partial(handler, directory=str(root))) as url:
        yield url
