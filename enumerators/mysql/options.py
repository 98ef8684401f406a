"""The options of the mysql source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from flip27_source.enumerators.mysql.split import parse_position
from flip27_source.enumerators.mysql.table_patterns import table_patterns
from flip27_source.enumerators.table_patterns import TablePattern
from flip27_source.enumerators.tables_with_log import options as log_options
from flip27_source.options import (
    FirstStartOption,
    NextBatchOption,
    Option,
    ReadingOption,
    integer,
    optional,
    positive_duration_s,
)

_GTIDS = re.compile(r"\d+-\d+-\d+(\s*,\s*\d+-\d+-\d+)*")


def _start(value: str) -> str | int:
    text = value.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if _GTIDS.fullmatch(text):
        return re.sub(r"\s", "", text)
    return parse_position(text)


CHANGE_FORMAT = log_options.CHANGE_FORMAT
CONNECT_TIMEOUT = log_options.CONNECT_TIMEOUT
ON_SCHEMA_CHANGE = log_options.ON_SCHEMA_CHANGE
SNAPSHOT = log_options.SNAPSHOT
HOST: Option[str] = ReadingOption(
    name="host", parse=str, default_text="127.0.0.1", doc="Host of the MariaDB server."
)
PORT: Option[int] = ReadingOption(
    name="port", parse=integer(minimum=1), default_text="3306", doc="Port of the server."
)
DATABASE = replace(log_options.DATABASE, doc="The database of tables that are named without one.")
USER: Option[str | None] = ReadingOption(
    name="user",
    doc="Name of the account. It needs SELECT on the tables, REPLICATION SLAVE and BINLOG MONITOR.",
)
READ_TIMEOUT: Option[float] = ReadingOption(
    name="readTimeout",
    parse=positive_duration_s,
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
STARTING_POSITION: Option[str | int] = FirstStartOption(
    name="startingPosition",
    parse=_start,
    default="latest",
    doc="With snapshot=never, where reading the log begins: earliest is the first position that the server "
    "has, latest is the end of the log, binlog.000017:1234 is a position, and 0-1-1234 the global "
    "transaction id (GTID) after which reading begins, or a list of them.",
)
MYSQL_OPTIONS: tuple[Option[Any], ...] = (
    HOST, PORT, DATABASE, USER, log_options.PASSWORD_ENV, log_options.PASSWORD, CONNECT_TIMEOUT, READ_TIMEOUT,
    SSL_CA, TABLES, CHANGE_FORMAT, SNAPSHOT, log_options.SNAPSHOT_CHUNK_ROWS, STARTING_POSITION,
    log_options.MAX_LOG_LAG, log_options.DISCOVERY_INTERVAL, log_options.DISCOVERY_RETRIES, ON_SCHEMA_CHANGE,
)  # fmt: skip
