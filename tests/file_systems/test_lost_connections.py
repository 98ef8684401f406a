"""After a server has closed a connection, requests use a new one."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.errors import StateLocationError
from flip27_source.file_systems import paths
from flip27_source.file_systems.paths import connected, open_file_system, open_listed
from flip27_source.options import Options
from flip27_source.readers.files.input import file_system
from tests.deadline import until
from tests.other_file_systems import PASSWORD, USER, sftp_server


class FtpSession(socketserver.StreamRequestHandler):
    """A session that accepts every user and every command, until the server ends it."""

    sessions: ClassVar[list[FtpSession]]

    def handle(self) -> None:
        self.sessions.append(self)
        self.wfile.write(b"220 hello\r\n")
        while line := self.rfile.readline():
            self.wfile.write(b"230 welcome\r\n" if line.startswith(b"USER") else b"200 fine\r\n")


@contextmanager
def ftp_server() -> Iterator[tuple[int, list[FtpSession]]]:
    """Run a server; its port, and its sessions."""

    class Session(FtpSession):
        sessions: ClassVar[list[FtpSession]] = []

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_address[1], Session.sessions
        finally:
            server.shutdown()


def test_an_ftp_server_is_connected_to_again_after_it_has_closed_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ftp_server() as (port, sessions):
        monkeypatch.setattr(paths, "_FTP_CHECK_S", 0.0)
        before, _ = open_listed(f"ftp://127.0.0.1:{port}/a.txt", {})
        assert connected(before) is before
        sessions[0].connection.shutdown(2)
        after = connected(before)
        assert after is not before
        assert after.ftp.voidcmd("NOOP") == "200 fine"
        monkeypatch.setattr(paths, "_FTP_CHECK_S", 60.0)
        assert connected(after) is after
        sessions[1].connection.shutdown(2)
        assert connected(after) is after, "only connections that may be idle are checked"


def test_a_file_is_read_after_the_sftp_server_has_closed_the_connection(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\n")
    options = {"username": USER, "password": PASSWORD}
    with sftp_server(tmp_path) as server:
        before, _ = open_file_system(server.url, options, what="path", error_type=StateLocationError)
        assert before.cat_file("/a.txt") == b"1\n"
        server.drop_connections()
        until(before.client.is_closed)
        after, name = open_listed(f"{server.url}/a.txt", options)
        assert after.cat_file(name) == b"1\n"
        again, _ = open_listed(f"{server.url}/a.txt", options)
        assert again is after


def test_a_directory_is_listed_after_the_sftp_server_has_closed_the_connection(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(b"1\n")
    with sftp_server(tmp_path) as server:
        options = {"username": USER, "password": PASSWORD}
        lister = open_listers([f"{server.url}/in"], options)
        lister.check_root()
        before = [path for path, _ in lister.files(recursive=False)]
        file_system, _ = open_listed(f"{server.url}/in/a.txt", options)
        server.drop_connections()
        until(file_system.client.is_closed)
        assert [path for path, _ in lister.files(recursive=False)] == before
        assert len(before) == 1


def test_a_worker_reads_after_the_sftp_server_has_closed_the_connection(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\n")
    with sftp_server(tmp_path) as server:
        given = {"storage.username": USER, "storage.password": PASSWORD}
        options = Options.parse(given, ())
        path = f"{server.url}/a.txt"
        before, name = file_system(path, options)
        assert before.cat_file(name) == b"1\n"
        server.drop_connections()
        until(before.client.is_closed)
        after, name = file_system(path, options)
        assert after.cat_file(name) == b"1\n"
