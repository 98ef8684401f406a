"""Queries of the server: its log, its settings, and the snapshots of transactions. And its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flip27_source.enumerators.mysql.column_types import ColumnType
from flip27_source.enumerators.mysql.connection import Connection, rows_of, variable
from flip27_source.enumerators.mysql.split import (
    FIRST_IN_FILE,
    TableName,
    file_and_offset,
    position_of,
    position_text,
)
from flip27_source.enumerators.table_patterns import TablePattern, matched
from flip27_source.errors import DiscoveryError

_OWN_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")
_SETTINGS = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}

_TABLES = """
SELECT table_schema, table_name, engine FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({own}) ORDER BY table_schema, table_name
"""
_COLUMNS = """
SELECT column_name, data_type, column_type, coalesce(numeric_precision, 0), coalesce(numeric_scale, 0)
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_KEY = """
SELECT column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""
_CASCADES = """
SELECT constraint_schema, table_name, constraint_name FROM information_schema.referential_constraints
WHERE update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
   OR delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A table that can be read.

    Attributes:
        key: the columns of the primary key; empty if there is none.
        cut_by: those of them at the beginning of the key that are integers: chunks are cut by them.
    """

    table: TableName
    columns: dict[str, ColumnType]
    key: tuple[str, ...]

    @property
    def cut_by(self) -> tuple[str, ...]:
        found = []
        for name in self.key:
            if not self.columns[name].is_integer:
                break
            found.append(name)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The log at one moment.

    Attributes:
        log: the name of its files, without their numbers.
        first: the position of the first event that the server still has.
        end: the position up to which all later snapshots have everything.
    """

    log: str
    first: int
    end: int


def check_server(connection: Connection, *, reads_log: bool) -> str:
    """Check that the server has a log that can be read; return its identity."""
    uid = variable(connection, "server_uid") or variable(connection, "server_uuid") or ""
    if variable(connection, "server_uid") is None:
        raise DiscoveryError(
            "the server is not MariaDB 10.10 or newer: its log cannot be matched with snapshots",
            remedy="read it with enumerator=sql; MySQL is not supported yet",
        )
    for name, needed in _SETTINGS.items() if reads_log else ():
        found = variable(connection, name)
        if found != needed:
            raise DiscoveryError(
                f"variable {name} of the server is {found}, and the mysql source needs {needed}",
                remedy=f"set {name}={needed} in the server's configuration and restart it; or set "
                "snapshot=only",
            )
    return uid


def begin_snapshot(connection: Connection) -> int:
    """Begin a transaction with a snapshot, and return the position before which it has everything."""
    rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    listed = rows_of(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {name.lower(): value for name, value in listed}
    file = found["binlog_snapshot_file"]
    return position_of(file, int(found["binlog_snapshot_position"])) if file else 0


def log_end(connection: Connection) -> LogEnd:
    """The log as it is now.

    Its end is that of a snapshot: a transaction is in the log a moment before snapshots have it.
    """
    end = begin_snapshot(connection)
    rows_of(connection, "COMMIT")
    files = [row[0] for row in rows_of(connection, "SHOW BINARY LOGS")]
    return LogEnd(log=files[0].rpartition(".")[0], first=position_of(files[0], FIRST_IN_FILE), end=end)


def has_transaction(connection: Connection, gtid: str, *, log: str, position: int) -> bool:
    """Whether the log has the transaction right before a position, which may be in the log of another server.

    The server reads the file up to the position for this answer.
    """
    ((found,),) = rows_of(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file_and_offset(log, position))
    return found is not None and gtid in str(found).split(",")


def other_log(position: int) -> str:
    """The text of the error if the server has another log than the one that was read up to a position."""
    return (
        f"the log was read up to {position_text(position)}, and the server has another one: it was deleted "
        "(RESET MASTER), or the server was set back"
    )


def find_tables(
    connection: Connection, patterns: Sequence[TablePattern], *, database: str | None
) -> list[CatalogTable]:
    """The tables of the option ``tables``.

    Raises:
        DiscoveryError: a table that is named does not exist, or cannot be read.
    """
    own = ", ".join(f"'{name}'" for name in _OWN_DATABASES)
    listed = rows_of(connection, _TABLES.format(own=own))
    chosen = [row for row in listed if matched(patterns, row[0], row[1], own_schema=database)]
    for pattern in patterns:
        if pattern.is_name and not any(pattern.matches(*row[:2], own_schema=database) for row in chosen):
            raise DiscoveryError(
                f"table {pattern.text} of option tables does not exist, or the account may not read it",
                remedy="create it, grant SELECT on it, or correct the option tables",
            )
    for schema, name, engine in chosen:
        if engine != "InnoDB":
            raise DiscoveryError(
                f"table {schema}.{name} has the engine {engine}, which has no snapshots of transactions",
                remedy=f"ALTER TABLE {schema}.{name} ENGINE=InnoDB; or leave the table out: tables=..., "
                f"-{schema}.{name}",
            )
    return [catalog_table(connection, TableName(schema=row[0], name=row[1])) for row in chosen]


def check_cascades(connection: Connection, tables: Sequence[TableName]) -> None:
    """Refuse tables whose rows the engine changes by itself: the log does not have these changes."""
    for schema, name, constraint in rows_of(connection, _CASCADES):
        if TableName(schema=schema, name=name) in tables:
            raise DiscoveryError(
                f"the foreign key {constraint} of table {schema}.{name} deletes or updates rows together "
                "with those of another table, and the log does not have these changes",
                remedy="give the foreign key ON DELETE RESTRICT and ON UPDATE RESTRICT; or leave the table "
                f"out: tables=..., -{schema}.{name}; or set snapshot=only",
            )


def catalog_table(connection: Connection, table: TableName) -> CatalogTable:
    names = [table.schema, table.name]
    columns = {
        row[0]: ColumnType(
            name=row[1].lower(), is_unsigned="unsigned" in row[2], digits=int(row[3]), scale=int(row[4])
        )
        for row in rows_of(connection, _COLUMNS, names)
    }
    key = tuple(row[0] for row in rows_of(connection, _KEY, names))
    return CatalogTable(table=table, columns=columns, key=key)
