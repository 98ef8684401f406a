"""Connections to MariaDB from the options, with the settings on which texts of values depend.

PyMySQL is imported here, when a connection is opened.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.errors import NotInTheLogError, ServerError
from flip27_source.enumerators.tables_with_log.options import password_of
from flip27_source.errors import OptionError
from flip27_source.optional_packages import needed
from flip27_source.options import Options

if TYPE_CHECKING:
    import pymysql

Connection: TypeAlias = "pymysql.Connection[Any]"
Row: TypeAlias = tuple[Any, ...]

_NOT_IN_THE_LOG = 1236
_SETTINGS = (
    "SET time_zone = '+00:00', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    "completion_type = NO_CHAIN, max_statement_time = 0, net_write_timeout = 86400"
)
"""What changes rows or transactions, or ends queries that a task reads slowly, if the server has set it."""
_REMEDIES = {
    1044: "GRANT SELECT ON <database>.* TO <account>",
    1045: "check user and passwordEnv",
    1142: "GRANT SELECT ON <table> TO <account>",
    _NOT_IN_THE_LOG: "set startingPosition=earliest, or the GTID of a transaction that the log has",
    **dict.fromkeys((2006, 2013), "nothing is lost: it is repeated; if it goes on, see the server's log"),
    1227: "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO <account>",
}


def imported() -> Any:
    """The module pymysql."""
    with needed("pymysql", by="the mysql source", extra="mysql", error_type=OptionError):
        import pymysql
    return pymysql


@cache
def _connection_type() -> Any:
    """PyMySQL's connections, which load certificates only if a file of them is given.

    Those of the public authorities take 30 ms of CPU, even if no certificate is checked.
    """
    of_pymysql: Any = imported().connections.Connection

    class Session(of_pymysql):  # type: ignore[misc]
        def _create_ssl_ctx(self, given: Any) -> ssl.SSLContext:
            context = super()._create_ssl_ctx(given) if given else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if not given:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context

    return Session


def connect(options: Options) -> Connection:
    """A connection in autocommit mode, whose values are texts; those of binary columns are bytes.

    Raises:
        OptionError: an option is missing, or PyMySQL is not installed.
        ServerError: the server cannot be reached or refuses the account.
    """
    pymysql = imported()
    converters = {key: one for key, one in pymysql.converters.conversions.items() if type(key) is not int}
    ca = options[opts.SSL_CA]
    with doing(options, "connecting"):
        connection: Connection = _connection_type()(
            host=options[opts.HOST],
            port=options[opts.PORT],
            user=options[opts.USER],
            password=password_of(options) or "",
            database=options[opts.DATABASE],
            connect_timeout=max(1, int(options[opts.CONNECT_TIMEOUT])),
            read_timeout=options[opts.READ_TIMEOUT],
            write_timeout=options[opts.READ_TIMEOUT],
            charset="utf8mb4",
            autocommit=True,
            init_command=_SETTINGS,
            sql_mode="",
            conv=converters,
            **({} if ca is None else {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True}),
        )
        return connection


def place(options: Options) -> str:
    """The server, for messages: no user and no password."""
    return f"the server at {options[opts.HOST]}:{options[opts.PORT]}"


@contextmanager
def doing(options: Options, what: str) -> Iterator[None]:
    """Make errors of PyMySQL ServerErrors that name what was being done."""
    try:
        yield
    except imported().err.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        said = str(error.args[1]) if len(error.args) > 1 else str(error)
        kind = NotInTheLogError if code == _NOT_IN_THE_LOG else ServerError
        raise kind(
            f"{what} failed on {place(options)}: {said}" + ("" if code is None else f" [{code}]"),
            remedy=_REMEDIES.get(code or 0),
        ) from None


def rows_of(connection: Connection, sql: str, parameters: Sequence[Any] | None = None) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def variable(connection: Connection, name: str) -> str | None:
    """The value of a global variable, as text; None if this server does not have the variable."""
    return variables(connection, name).get(name)


def variables(connection: Connection, *names: str) -> dict[str, str]:
    """The values of those of these global variables that this server has."""
    rows = rows_of(connection, "SHOW GLOBAL VARIABLES WHERE variable_name IN %s", [names])
    return {name.lower(): str(value) for name, value in rows}
