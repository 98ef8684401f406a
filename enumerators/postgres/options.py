"""The options of the postgres source."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from flip27_source.enumerators.postgres.split import parse_lsn
from flip27_source.enumerators.postgres.table_patterns import TablePattern, table_patterns
from flip27_source.enumerators.tables_with_log import options as log_options
from flip27_source.options import (
    Change,
    FirstStartOption,
    NextBatchOption,
    Option,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    size_bytes,
)

_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def _lsn_or(*words: str) -> Any:
    def parse(value: str) -> str | int:
        lowered = value.strip().lower()
        return lowered if lowered in words else parse_lsn(value)

    return parse


def _slot(value: str) -> str:
    if _SLOT.fullmatch(value) is None:
        raise ValueError("a name of at most 63 lower-case letters, digits and underscores is expected")
    return value


CONNECT_TIMEOUT = log_options.CONNECT_TIMEOUT
DATABASE = log_options.DATABASE
DISCOVERY_INTERVAL = log_options.DISCOVERY_INTERVAL
DISCOVERY_RETRIES = log_options.DISCOVERY_RETRIES
MAX_LOG_LAG = log_options.MAX_LOG_LAG
ON_SCHEMA_CHANGE = log_options.ON_SCHEMA_CHANGE
PASSWORD = log_options.PASSWORD
SNAPSHOT = log_options.SNAPSHOT
SNAPSHOT_CHUNK_ROWS = log_options.SNAPSHOT_CHUNK_ROWS
HOST: Option[str | None] = ReadingOption(
    name="host",
    default_text="libpq's default: PGHOST, otherwise this machine",
    doc="Host of the PostgreSQL server.",
)
PORT: Option[int | None] = ReadingOption(
    name="port", parse=optional(integer(minimum=1)), default_text="5432", doc="Port of the server."
)
USER: Option[str | None] = ReadingOption(
    name="user",
    default_text="libpq's default: PGUSER, otherwise the user of the process",
    doc="Name of the role. It needs REPLICATION and SELECT on the tables.",
)
PASSWORD_ENV: Option[str | None] = replace(
    log_options.PASSWORD_ENV, default_text="libpq's default: PGPASSWORD, otherwise the password file"
)
STATEMENT_TIMEOUT: Option[float] = ReadingOption(
    name="statementTimeout",
    parse=duration_s,
    default=0.0,
    default_text="0s: the server's own",
    doc="Longest time that a statement may run on the server; reading a chunk or a window of the log is one "
    "statement.",
)
SSL_OPTIONS: tuple[Option[str | None], ...] = tuple(
    ReadingOption(name=name, default=None, doc=doc, secret=name == "sslpassword")
    for name, doc in (
        ("sslmode", "TLS, as libpq names it: disable, allow, prefer, require, verify-ca or verify-full."),
        ("sslrootcert", "File with the certificates of trusted authorities; or system."),
        ("sslcert", "File with the client's certificate."),
        ("sslkey", "File with the key of the client's certificate."),
        ("sslpassword", "Password of that key."),
        ("sslcrl", "File with revoked certificates."),
        ("sslnegotiation", "How TLS begins: postgres or direct."),
        ("ssl_min_protocol_version", "Oldest version of TLS that is accepted, such as TLSv1.3."),
    )
)
TABLES: Option[tuple[TablePattern, ...] | None] = NextBatchOption(
    name="tables",
    parse=optional(table_patterns),
    doc="Tables, separated by commas: public.orders, or public.* for all tables of a schema. A name with "
    'capitals or dots is quoted: public."Orders". A minus leaves tables out: public.*, -public.log_*.',
    names_data=True,
)
CHANGE_FORMAT: Option[str] = replace(
    log_options.CHANGE_FORMAT,
    parse=one_of("typed", "envelope", "debezium"),
    doc=f"{log_options.CHANGE_FORMAT.doc} debezium: the JSON value that Debezium writes.",
)
TOPIC_PREFIX: Option[str | None] = ReadingOption(
    name="topicPrefix",
    default_text="the name of the database",
    doc="With changeFormat=debezium, the value of source.name, like Debezium's topic.prefix.",
)
DECIMAL_HANDLING: Option[str] = ReadingOption(
    name="decimalHandlingMode",
    parse=one_of("string", "precise"),
    doc="With changeFormat=debezium, how numeric and money are written, like Debezium's "
    "decimal.handling.mode. string: all digits as a string; precise, Debezium's default: the digits as an "
    "integer, whose bytes are written in Base64.",
)
INTERVAL_HANDLING: Option[str] = ReadingOption(
    name="intervalHandlingMode",
    parse=one_of("numeric", "string"),
    doc="With changeFormat=debezium, how interval is written, like Debezium's interval.handling.mode. "
    "numeric: microseconds, where a month has 30.4375 days; string: exactly, as in P1Y2M3DT4H5M6.78S.",
)
SNAPSHOT_WHERE: Option[str | None] = FirstStartOption(
    name="snapshotWhere",
    doc="A SQL condition that chooses the rows of the snapshot. The log is not filtered.",
)
STARTING_LSN: Option[str | int] = FirstStartOption(
    name="startingLsn",
    parse=_lsn_or("earliest", "latest"),
    default="latest",
    doc="With snapshot=never, where reading the log begins: earliest is the first position that the slot "
    "has, latest is the end of the log, and 16/B374D848 is a position.",
)
SLOT_NAME: Option[str | None] = NextBatchOption(
    name="slotName",
    parse=optional(_slot),
    default_text="flip27_, the uid and a digest of the stateLocation",
    doc="The logical replication slot of this query (plugin pgoutput). It is created if it does not exist.",
    change_note="a slot of another name is copied from the present one",
)
SLOT_FAILOVER: Option[bool] = NextBatchOption(
    name="slotFailover",
    parse=boolean,
    doc="Whether a slot that this query creates is a failover slot (PostgreSQL 17 or newer): standbys that "
    "synchronise slots have it too, and the query continues after one of them is promoted.",
    change_note="for a slot that is created from then on",
)
PUBLICATION: Option[str | None] = Option(
    name="publication",
    default_text="the name of the slot",
    doc="The publication that has the tables. It is created if it does not exist and the role may create it.",
    changes=Change.IGNORED,
)
SLOT_TIMEOUT: Option[float] = ReadingOption(
    name="slotTimeout",
    parse=duration_s,
    default_text="2 minutes",
    doc="How long a task waits while another connection reads the slot, such as the connection of a failed "
    "attempt.",
)
HEARTBEAT_BYTES: Option[int] = NextBatchOption(
    name="heartbeatBytes",
    parse=size_bytes,
    default_text="16m",
    doc="If the log has this many bytes without changes of the tables, a batch without rows skips them, so "
    "that the slot advances while other tables or databases of the server are written.",
)
UNCHANGED_VALUES: Option[str] = ReadingOption(
    name="unchangedValues",
    parse=one_of("mark", "read"),
    doc="What to do with a large value that an update did not change, and that the log does not have: mark "
    "sets the column to null and names it in _unchanged; read reads the value that the table has at that "
    "time.",
)

CONNECTION_OPTIONS: tuple[Option[Any], ...] = (
    HOST, PORT, DATABASE, USER, PASSWORD_ENV, PASSWORD, CONNECT_TIMEOUT, STATEMENT_TIMEOUT, *SSL_OPTIONS,
)  # fmt: skip
POSTGRES_OPTIONS: tuple[Option[Any], ...] = (
    *CONNECTION_OPTIONS, TABLES, CHANGE_FORMAT, TOPIC_PREFIX, DECIMAL_HANDLING, INTERVAL_HANDLING, SNAPSHOT,
    SNAPSHOT_CHUNK_ROWS, SNAPSHOT_WHERE, STARTING_LSN, SLOT_NAME, SLOT_FAILOVER, PUBLICATION, MAX_LOG_LAG,
    DISCOVERY_INTERVAL, DISCOVERY_RETRIES, SLOT_TIMEOUT, HEARTBEAT_BYTES, ON_SCHEMA_CHANGE, UNCHANGED_VALUES,
)  # fmt: skip
