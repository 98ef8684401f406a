"""Connections to PostgreSQL from the options, with the settings on which the texts of values depend; errors.

psycopg is imported here, when a connection is opened; other modules that need it import this module first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.tables_with_log.options import password_of
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.optional_packages import needed
from flip27_source.options import Options

if TYPE_CHECKING:
    import psycopg

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
ResultT = TypeVar("ResultT")

START_AGAIN = "start a query with a new stateLocation, whose snapshot has all rows"
ONLY_START_AGAIN = f"{START_AGAIN}; onDataLoss=report does not help: there is no log to continue with"

_CONNECTION_LOST = (
    "nothing is lost: the task is repeated, or the query continues at its next start; if it happens again, "
    "check the server's log"
)

_NO_PRIVILEGE = "42501"
_NO_OBJECT = "42704"
_TOO_MUCH = "53400"

_REPLICATION = (
    "ALTER ROLE {role} REPLICATION; (on a managed server, grant the role that it provides for this)"
)
_SELECT = "GRANT SELECT ON <table> TO {role}; and GRANT USAGE ON SCHEMA <schema> TO {role};"
_NO_PUBLICATION = (
    "this server does not send changes that were made while the publication was missing: create it, drop the "
    "slot, and start with a new stateLocation, whose snapshot has all rows"
)
_MEANWHILE = (
    "a table was renamed or altered, a slot was dropped, or another driver of the query has created this at "
    "the same time: start the query again, which then says what to do if this is no longer as before"
)
_TEMPORARY_FILES = "raise temp_file_limit, or set a smaller snapshotChunkRows or maxBytesPerTrigger"
_REMEDIES = {
    "57014": (
        "set statementTimeout to a longer time, or to 0 if the server's own statement_timeout allows it; a "
        "smaller snapshotChunkRows or maxBytesPerTrigger makes statements shorter"
    ),
    "53300": "raise max_connections, or run fewer tasks at once (option parallelism)",
    "53200": (
        "raise max_locks_per_transaction if the table has many partitions (each statement locks all of them, "
        "and their indexes); if memory is short, run fewer tasks at once (option parallelism)"
    ),
    _TOO_MUCH: "raise max_replication_slots, or drop a slot that is no longer read (pg_replication_slots)",
    "22021": (
        "the database has the encoding SQL_ASCII, which does not check texts, and only UTF-8 is supported: "
        "convert this text to UTF-8 (convert_from), or leave out its table; if the log has it, also drop the "
        "slot, and start with a new stateLocation, whose snapshot has all rows"
    ),
    **dict.fromkeys(("42P01", "42703", "42883", "3F000", "42710", _NO_OBJECT), _MEANWHILE),
    "25006": "connect to the primary: the server is a standby, or default_transaction_read_only is set",
}

# The log and COPY give values as the output functions of their types write them in this session.
_SESSION = {
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # The server may only warn that a publication is missing.
    "client_min_messages": "warning",
    # Types and names are compared with those that an earlier session has stored.
    "quote_all_identifiers": "off",
    # A policy that hides rows from the role is an error, instead of a table with fewer rows.
    "row_security": "off",
    # A server that writes to a vanished client would hold the slot until the window is decoded.
    "client_connection_check_interval": "5s",
    # A session is idle between two statements, and the keeper of a snapshot is idle in a transaction.
    # (Newer servers also have transaction_timeout: chunks, peeks and kept snapshots take long.)
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # A driver whose machine has vanished would keep its lock on the slot for hours.
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}
_TRANSACTION_TIMEOUT_VERSION = 17_00_00

# Without these, a task whose server has vanished would wait for it for two hours.
_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class ServerError(Flip27Error):
    """The server cannot be reached, or refused a statement.

    Attributes:
        sqlstate: PostgreSQL's code of the error; None if the connection failed.
    """

    def __init__(self, what: str, *, remedy: str | None = None, sqlstate: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.sqlstate = sqlstate


def connect(options: Options, *, purpose: str, replicates: bool = False) -> Connection:
    """A connection in autocommit mode.

    Args:
        purpose: what it is for; PostgreSQL shows it as ``application_name``.
        replicates: whether the connection accepts commands of the replication protocol.

    Raises:
        OptionError: an option is missing, or psycopg is not installed.
        ServerError: the server cannot be reached or refuses the role.
    """
    psycopg = imported()
    parameters = connection_parameters(options)
    if replicates:
        parameters["replication"] = "database"
    try:
        return open_session(parameters, session_settings(options), purpose=purpose)
    except psycopg.Error as error:
        raise ServerError(
            f"{place(options)} cannot be reached: {said(error)}",
            remedy="check host, port, database, user and passwordEnv, and that the server accepts the role "
            "from this machine (pg_hba.conf)",
            sqlstate=error.sqlstate,
        ) from None


def open_session(parameters: Mapping[str, Any], settings: Mapping[str, str], *, purpose: str) -> Connection:
    """A connection in autocommit mode with these settings.

    They are set by a statement: a pooler may drop the startup parameter ``options``, and libpq's environment
    variables (PGTZ, PGDATESTYLE) override it.
    """
    connection: Connection = imported().connect(
        **parameters,
        application_name=f"flip27 {purpose}"[:63],
        options="",  # not those of PGOPTIONS
        client_encoding="utf8",
        autocommit=True,
    )
    try:
        if connection.info.server_version >= _TRANSACTION_TIMEOUT_VERSION:
            settings = {**settings, "transaction_timeout": "0"}
        # Without parameters, which a replication connection does not take.
        set_all = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        connection.execute(f"SELECT {set_all}")
    except BaseException:
        connection.close()
        raise
    return connection


def connection_parameters(options: Options) -> dict[str, Any]:
    """The parameters for libpq, including the password."""
    database = options.require(opts.DATABASE, why="the postgres source reads the tables of one database")
    parameters: dict[str, Any] = {
        "host": options[opts.HOST],
        "port": options[opts.PORT],
        "dbname": database,
        "user": options[opts.USER],
        "password": password_of(options, otherwise="use a password file that libpq finds"),
        "connect_timeout": max(2, int(options[opts.CONNECT_TIMEOUT])),
        **_KEEPALIVES,
    }
    parameters |= {option.name: options[option] for option in opts.SSL_OPTIONS}
    return {name: value for name, value in parameters.items() if value is not None}


def imported() -> Any:
    """The module psycopg."""
    with needed("psycopg", by="the postgres source", extra="postgres", error_type=OptionError):
        import psycopg
    return psycopg


def place(options: Options) -> str:
    """The database, for messages: no user and no password."""
    host = options[opts.HOST] or "the local server"
    port = "" if options[opts.PORT] is None else f":{options[opts.PORT]}"
    return f"database {options[opts.DATABASE]} at {host}{port}"


def said(error: BaseException) -> str:
    """The server's error message in one line, with its code."""
    diagnosed = getattr(error, "diag", None)
    primary = getattr(diagnosed, "message_primary", None) or str(error).strip().replace("\n", " ")
    detail = getattr(diagnosed, "message_detail", None)
    code = getattr(error, "sqlstate", None)
    return primary + (f" ({detail})" if detail else "") + (f" [{code}]" if code else "")


def failed(options: Options, doing: str, error: BaseException) -> ServerError:
    """The error for a statement that failed while ``doing`` something."""
    sqlstate, text = getattr(error, "sqlstate", None), said(error)
    is_lost = sqlstate is None and isinstance(error, imported().OperationalError)
    return ServerError(
        f"{doing} failed on {place(options)}: {text}",
        remedy=_CONNECTION_LOST if is_lost else _remedy_of(error, text, role=options[opts.USER] or "<role>"),
        sqlstate=sqlstate,
    )


def checked(options: Options, doing: str, work: Callable[[], ResultT]) -> ResultT:
    """Return ``work()``; errors of psycopg become ServerErrors that name what was being done."""
    psycopg = imported()
    try:
        return work()
    except psycopg.Error as error:
        raise failed(options, doing, error) from None


def row_of(
    connection: Connection, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """The first row of a query that always has one."""
    row = connection.execute(sql, parameters).fetchone()
    assert row is not None
    return row


def session_settings(options: Options) -> dict[str, str]:
    timeout_ms = round(options[opts.STATEMENT_TIMEOUT] * 1000)
    return _SESSION | ({"statement_timeout": str(timeout_ms)} if timeout_ms else {})


def _remedy_of(error: BaseException, said: str, *, role: str) -> str | None:
    """What a user can do about an error of the server; None if nothing is known.

    Args:
        said: the message, in the language of the server.
    """
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate == _NO_PRIVILEGE:
        if getattr(getattr(error, "diag", None), "source_function", None) == "check_enable_rls":
            return bypass_row_security(role)
        return (_REPLICATION if "replication" in said.lower() else _SELECT).format(role=role)
    if sqlstate == _NO_OBJECT and "publication" in said.lower():
        return _NO_PUBLICATION
    if sqlstate == _TOO_MUCH and "temp_file_limit" in said:
        return _TEMPORARY_FILES
    return _REMEDIES.get(sqlstate or "")


def bypass_row_security(role: str) -> str:
    """The statement that lets a role see rows that policies hide; the role as SQL has it."""
    return f"ALTER ROLE {role} BYPASSRLS;"
