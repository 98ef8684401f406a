"""Connections to PostgreSQL: their settings, and errors about those that fail."""

from __future__ import annotations

import os
import re
import socket
from contextlib import closing

import psycopg
import pytest

from flip27_source.enumerators.postgres.connection import connect, failed, row_of
from flip27_source.source import Source
from tests.postgres_server import PostgresServer

OPTIONS = Source.resolve(
    {"enumerator": "postgres", "database": "shop", "tables": "orders", "user": "etl"}
).options


def test_a_connection_to_a_machine_that_no_longer_answers_ends_after_a_minute(
    postgres: PostgresServer,
) -> None:
    options = Source.resolve(postgres.options("postgres", tables="orders")).options
    with (
        closing(connect(options, purpose="test")) as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as found,
    ):
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        names = (
            socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT
        )  # fmt: skip
        assert [found.getsockopt(socket.IPPROTO_TCP, name) for name in names] == [30, 10, 3, 60_000]


@pytest.mark.parametrize("replicates", [False, True])
def test_a_limit_on_the_time_of_transactions_does_not_end_those_of_the_source(
    postgres: PostgresServer, replicates: bool
) -> None:
    with postgres.database() as name, postgres.connect(name) as admin:
        admin.execute(f"ALTER DATABASE {name} SET transaction_timeout = '1h'")
        options = Source.resolve(postgres.options(name, tables="orders")).options
        with closing(connect(options, purpose="test", replicates=replicates)) as connection:
            assert connection.execute("SHOW transaction_timeout").fetchone() == ("0",)


@pytest.mark.parametrize("replicates", [False, True])
def test_poolers_and_libpqs_environment_change_no_setting_on_which_values_depend(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, replicates: bool
) -> None:
    for name, value in {"PGTZ": "Asia/Kolkata", "PGDATESTYLE": "SQL, DMY", "PGOPTIONS": "-c jit=off"}.items():
        monkeypatch.setenv(name, value)
    options = Source.resolve(postgres.options("postgres", tables="orders")).options
    with closing(connect(options, purpose="test", replicates=replicates)) as connection:
        shown = [
            row_of(connection, f"SELECT current_setting('{name}')")[0]
            for name in ("TimeZone", "DateStyle", "row_security", "quote_all_identifiers")
        ]
        assert shown == ["UTC", "ISO, MDY", "off", "off"]
        # Poolers drop startup parameters that they do not know.
        by_startup = connection.execute("SELECT name FROM pg_settings WHERE source = 'client' ORDER BY 1")
        assert by_startup.fetchall() == [("application_name",), ("client_encoding",)]


def test_the_error_of_a_lost_connection_or_an_exhausted_server_says_what_to_do() -> None:
    lost = failed(OPTIONS, "reading log", psycopg.OperationalError("server closed the connection"))
    assert lost.what.startswith("reading log failed on database shop")
    assert "continues at its next start" in str(lost)
    refused = failed(OPTIONS, "reading log", psycopg.errors.TooManyConnections("too many"))
    assert "max_connections" in str(refused)
    locked = failed(OPTIONS, "polling the server", psycopg.errors.OutOfMemory("out of shared memory"))
    assert "max_locks_per_transaction" in str(locked)


@pytest.mark.parametrize(
    ("settings", "statement", "remedy"),
    [
        ("-c work_mem=64kB -c temp_file_limit=0", "SELECT n FROM generate_series(1, 100000) n ORDER BY -n",
         "raise temp_file_limit, or set a smaller snapshotChunkRows or maxBytesPerTrigger"),
        ("-c client_encoding=utf8", "SELECT convert_from('\\xe4', 'SQL_ASCII')",
         "the database has the encoding SQL_ASCII, .* convert this text to UTF-8"),
        ("-c row_security=off", "SET ROLE pg_monitor; SELECT FROM hidden",
         "ALTER ROLE etl BYPASSRLS;"),
        ("", "SELECT pg_replication_slot_advance('gone', '0/1')", ".* a slot was dropped, .* start "),
        # The key has another type than a bound of a chunk.
        ("", "SELECT 1 >= 'k026'::varchar(8)", "a table was renamed or altered, .* start the query again"),
    ],
)  # fmt: skip
def test_the_remedy_is_that_of_the_cause(
    postgres: PostgresServer, settings: str, statement: str, remedy: str
) -> None:
    with (
        postgres.database(encoding="SQL_ASCII") as name,
        postgres.connect(name, options=settings) as connection,
    ):
        connection.execute("CREATE TABLE hidden (); GRANT SELECT ON hidden TO pg_monitor")
        connection.execute("ALTER TABLE hidden ENABLE ROW LEVEL SECURITY")
        with pytest.raises(psycopg.Error) as found:
            connection.execute(statement)
    assert re.match(remedy, failed(OPTIONS, "reading a chunk", found.value).remedy or "")


def test_the_remedy_for_a_role_that_may_not_use_slots_is_complete() -> None:
    error = psycopg.errors.InsufficientPrivilege("permission denied to use replication slots")
    assert failed(OPTIONS, "creating a slot", error).remedy == (
        "ALTER ROLE etl REPLICATION; (on a managed server, grant the role that it provides for this)"
    )
