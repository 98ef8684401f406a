"""Errors about connections to PostgreSQL that fail."""

from __future__ import annotations

import psycopg

from flip27_source.enumerators.postgres.connection import failed
from flip27_source.source import Source


def test_the_error_of_a_lost_connection_says_that_the_query_continues() -> None:
    options = Source.resolve({"enumerator": "postgres", "database": "shop", "tables": "orders"}).options
    lost = failed(options, "reading log", psycopg.OperationalError("server closed the connection"))
    assert lost.what.startswith("reading log failed on database shop")
    assert "continues at its next start" in str(lost)
    refused = failed(options, "reading log", psycopg.errors.TooManyConnections("too many"))
    assert "max_connections" in str(refused)
