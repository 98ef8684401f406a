"""The options of the mysql source."""

from __future__ import annotations

import re
from typing import Any

from flip27_source.enumerators.mysql.split import parse_position
from flip27_source.enumerators.mysql.table_patterns import table_patterns
from flip27_source.enumerators.table_patterns import TablePattern
from flip27_source.options import (
    Change,
    FirstStartOption,
    NextBatchOption,
    Option,
    ReadingOption,
    duration_s,
    integer,
    one_of,
    optional,
    size_bytes,
)

_GTIDS = re.compile(r"\d+-\d+-\d+(\s*,\s*\d+-\d+-\d+)*")


def _start(value: str) -> str | int:
    text = value.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if _GTIDS.fullmatch(text):
        return re.sub(r"\s", "", text)
    return parse_position(text)


HOST: Option[str] = ReadingOption(
    name="host", parse=str, default_text="127.0.0.1", doc="Host of the MariaDB server."
)
PORT: Option[int] = ReadingOption(
    name="port", parse=integer(minimum=1), default_text="3306", doc="Port of the server."
)
DATABASE: Option[str | None] = Option(
    name="database",
    doc="The database of tables that are named without one.",
    names_data=True,
    changes=Change.REFUSED,
)
USER: Option[str | None] = ReadingOption(
    name="user",
    doc="Name of the account. It needs SELECT on the tables, REPLICATION SLAVE and BINLOG MONITOR.",
)
PASSWORD_ENV: Option[str | None] = ReadingOption(
    name="passwordEnv",
    default_text="no password",
    doc="Environment variable, on the driver and on every executor, that contains the password.",
)
PASSWORD: Option[str | None] = ReadingOption(
    name="password", doc="The password itself; passwordEnv keeps it out of the query's code.", secret=True
)
CONNECT_TIMEOUT: Option[float] = ReadingOption(
    name="connectTimeout",
    parse=duration_s,
    default_text="10 seconds",
    doc="Longest time to wait for a connection.",
)
READ_TIMEOUT: Option[float] = ReadingOption(
    name="readTimeout",
    parse=duration_s,
    default_text="10 minutes",
    doc="Longest time to wait for an answer of the server.",
)
SSL_CA: Option[str | None] = ReadingOption(
    name="sslCa",
    default_text="the server's certificate is not checked",
    doc="File with the certificates of trusted authorities: the connection has to use TLS, and the server's "
    "certificate must be valid for the host.",
)
TABLES: Option[tuple[TablePattern, ...] | None] = NextBatchOption(
    name="tables",
    parse=optional(table_patterns),
    doc="Tables, separated by commas: orders, shop.orders, or shop.* for all tables of a database. A name "
    "with dots or commas is quoted: shop.`a.b`. A minus leaves tables out: shop.*, -shop.log_*.",
    names_data=True,
)
CHANGE_FORMAT: Option[str] = ReadingOption(
    name="changeFormat",
    parse=one_of("typed", "envelope"),
    doc="typed: a column for each column of the table, and the columns of the change; all tables must have "
    "the same columns. envelope: key, before and after as JSON.",
)
SNAPSHOT: Option[str] = FirstStartOption(
    name="snapshot",
    parse=one_of("initial", "only", "never"),
    doc="initial: read the rows of the tables, then their changes; only: only the rows; never: only the "
    "changes.",
)
SNAPSHOT_CHUNK_ROWS: Option[int] = NextBatchOption(
    name="snapshotChunkRows",
    parse=integer(minimum=1),
    default=200_000,
    doc="Number of rows in a chunk of a table; chunks are read in parallel, each in one transaction. A table "
    "whose primary key does not begin with an integer is one chunk.",
)
STARTING_POSITION: Option[str | int] = FirstStartOption(
    name="startingPosition",
    parse=_start,
    default="latest",
    doc="With snapshot=never, where reading the log begins: earliest is the first position that the server "
    "has, latest is the end of the log, binlog.000017:1234 is a position, and 0-1-1234 the global "
    "transaction id (GTID) after which reading begins, or a list of them.",
)
MAX_LOG_LAG: Option[int] = NextBatchOption(
    name="maxLogLagDuringSnapshot",
    parse=size_bytes,
    default_text="512m",
    doc="How many bytes of the log may be unread while chunks are read. Beyond that, the log is read before "
    "more chunks are, so that the server does not have to keep its log until the last chunk is read.",
)
# Declared again with defaults of this source: a poll costs only a few short statements, and the pause after
# it delays changes; a server that fails over is unavailable for longer than three retries.
DISCOVERY_INTERVAL: Option[float] = NextBatchOption(
    name="discoveryInterval",
    parse=duration_s,
    default_text="200 milliseconds",
    doc="Pause between two requests for the end of the server's log.",
)
DISCOVERY_RETRIES: Option[int] = NextBatchOption(
    name="discoveryRetries",
    parse=integer(minimum=0),
    default=10,
    doc="How many times in a row these requests may fail, with growing pauses, before the query fails: a "
    "server is unavailable for a while when it restarts.",
)
ON_SCHEMA_CHANGE: Option[str] = ReadingOption(
    name="onSchemaChange",
    parse=one_of("evolve", "fail", "ignore"),
    doc="What to do when a table gets columns that the DataFrame does not have: evolve records them and "
    "stops the query, and a restarted query has them (needs a stateLocation); fail stops the query, also for "
    "dropped columns; ignore leaves them out. A dropped column is null with evolve and ignore. If the user "
    "gives a schema, columns that it does not have are always left out; with changeFormat=envelope, rows "
    "have whatever columns the table has.",
)

CONNECTION_OPTIONS: tuple[Option[Any], ...] = (
    HOST, PORT, DATABASE, USER, PASSWORD_ENV, PASSWORD, CONNECT_TIMEOUT, READ_TIMEOUT, SSL_CA,
)  # fmt: skip
MYSQL_OPTIONS: tuple[Option[Any], ...] = (
    *CONNECTION_OPTIONS, TABLES, CHANGE_FORMAT, SNAPSHOT, SNAPSHOT_CHUNK_ROWS, STARTING_POSITION, MAX_LOG_LAG,
    DISCOVERY_INTERVAL, DISCOVERY_RETRIES, ON_SCHEMA_CHANGE,
)  # fmt: skip
