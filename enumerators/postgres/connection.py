"""Opens connections to PostgreSQL from the options, with the settings on which the texts of values depend.

psycopg is imported here, when a connection is opened; other modules that need it import this module first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.remedies import CONNECTION_LOST, remedy_of
from flip27_source.errors import Flip27Error, OptionError
from flip27_source.options import Options

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

ResultT = TypeVar("ResultT")

# The log and COPY give values as the output functions of their types write them in this session.
_SESSION = {
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # The server may only warn that a publication is missing.
    "client_min_messages": "warning",
    # A policy that hides rows from the role is an error, instead of a table with fewer rows.
    "row_security": "off",
    # A server that writes to a vanished client would hold the slot until the window is decoded.
    "client_connection_check_interval": "5s",
    # A session is idle between two statements, and the keeper of a snapshot is idle in a transaction.
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # A driver whose machine has vanished would keep its lock on the slot for hours.
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}

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
        connection: Connection = psycopg.connect(
            **parameters,
            application_name=f"flip27 {purpose}"[:63],
            options=session_settings(options),
            client_encoding="utf8",
            autocommit=True,
        )
        return connection
    except psycopg.Error as error:
        raise ServerError(
            f"{place(options)} cannot be reached: {said(error)}",
            remedy="check host, port, database, user and passwordEnv, and that the server accepts the role "
            "from this machine (pg_hba.conf)",
            sqlstate=error.sqlstate,
        ) from None


def connection_parameters(options: Options) -> dict[str, Any]:
    """The parameters for libpq, including the password."""
    database = options.require(opts.DATABASE, why="the postgres source reads the tables of one database")
    found: dict[str, Any] = {
        "host": options[opts.HOST],
        "port": options[opts.PORT],
        "dbname": database,
        "user": options[opts.USER],
        "password": _password(options),
        "connect_timeout": max(2, int(options[opts.CONNECT_TIMEOUT])),
        **_KEEPALIVES,
    }
    found |= {option.name: options[option] for option in opts.SSL_OPTIONS}
    return {name: value for name, value in found.items() if value is not None}


def imported() -> Any:
    """The module psycopg.

    Raises:
        OptionError: it is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise OptionError(
            f"the postgres source needs psycopg, which cannot be imported: {error}",
            remedy="pip install 'flip27-source[postgres]' on the driver and on every executor node",
        ) from None
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


def failed(options: Options, doing: str, error: BaseException, *, remedy: str | None = None) -> ServerError:
    """The error for a statement that failed while ``doing`` something."""
    sqlstate, text = getattr(error, "sqlstate", None), said(error)
    if sqlstate is None and isinstance(error, imported().OperationalError):
        remedy = remedy or CONNECTION_LOST
    return ServerError(
        f"{doing} failed on {place(options)}: {text}",
        remedy=remedy or remedy_of(sqlstate, text, user=options[opts.USER]),
        sqlstate=sqlstate,
    )


def checked(options: Options, doing: str, work: Callable[[], ResultT]) -> ResultT:
    """Return ``work()``; errors of psycopg become ServerErrors that name what was being done."""
    psycopg = imported()
    try:
        return work()
    except psycopg.Error as error:
        raise failed(options, doing, error) from None


def session_settings(options: Options) -> str:
    """The settings of every session, as libpq's parameter ``options`` has them."""
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in _settings(options))


def _settings(options: Options) -> list[tuple[str, str]]:
    timeout_ms = round(options[opts.STATEMENT_TIMEOUT] * 1000)
    return [*_SESSION.items(), *([("statement_timeout", str(timeout_ms))] if timeout_ms else [])]


def _password(options: Options) -> str | None:
    name = options[opts.PASSWORD_ENV]
    if name is None:
        return options[opts.PASSWORD]
    if options[opts.PASSWORD] is not None:
        raise OptionError("options password and passwordEnv are both set", remedy="set passwordEnv alone")
    found = os.environ.get(name)
    if found is None:
        raise OptionError(
            f"the environment variable {name}, which option passwordEnv names, is not set in this process",
            remedy=f"set {name} on the driver and on every executor (spark.executorEnv.{name}), or use a "
            "password file that libpq finds",
        )
    return found
