"""Settings of the connections to PostgreSQL."""

from __future__ import annotations

import os
import socket
from contextlib import closing

from flip27_source.enumerators.postgres.connection import connect
from flip27_source.source import Source
from tests.postgres_server import PostgresServer


def test_a_connection_to_a_machine_that_no_longer_answers_ends_after_a_minute(
    postgres: PostgresServer,
) -> None:
    given = {
        "enumerator": "postgres", "host": "127.0.0.1", "port": str(postgres.port), "database": "postgres",
        "user": "postgres", "tables": "orders",
    }  # fmt: skip
    with (
        closing(connect(Source.resolve(given).options, purpose="test")) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as found,
    ):
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        names = (
            socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
        )  # fmt: skip
        assert [found.getsockopt(socket.IPPROTO_TCP, name) for name in names] == [30, 10, 3, 60_000]
