"""Errors about connections to PostgreSQL that fail."""

from __future__ import annotations

import psycopg

from flip27_source.enumerators.postgres.connection import failed
from flip27_source.source import Source

OPTIONS = Source.resolve(
    {"enumerator": "postgres", "database": "shop", "tables": "orders", "user": "etl"}
).options


def test_the_error_of_a_lost_connection_says_that_the_query_continues() -> None:
    lost = failed(OPTIONS, "reading log", psycopg.OperationalError("server closed the connection"))
    assert lost.what.startswith("reading log failed on database shop")
    assert "continues at its next start" in str(lost)
    refused = failed(OPTIONS, "reading log", psycopg.errors.TooManyConnections("too many"))
    assert "max_connections" in str(refused)


def test_the_remedy_for_a_role_that_may_not_use_slots_is_complete() -> None:
    error = psycopg.errors.InsufficientPrivilege("permission denied to use replication slots")
    assert failed(OPTIONS, "creating a slot", error).remedy == (
        "ALTER ROLE etl REPLICATION; (on a managed server, grant the role that it provides for this)"
    )
