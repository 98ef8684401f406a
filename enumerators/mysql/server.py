"""Queries of the server: its log, its settings, and the snapshots of transactions. And its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from flip27_source.enumerators.mysql import options as opts
from flip27_source.enumerators.mysql.column_types import INTEGERS, ColumnType
from flip27_source.enumerators.mysql.connection import Connection, imported, rows_of, variable, variables
from flip27_source.enumerators.mysql.errors import AlteredKeyError, GoneTableError, OtherLogError, left_out
from flip27_source.enumerators.mysql.split import (
    FIRST_IN_FILE,
    TableName,
    failovers_of,
    file_and_offset,
    parse_gtids,
    position_of,
)
from flip27_source.enumerators.mysql.statements import Statement
from flip27_source.enumerators.mysql.table_patterns import quoted
from flip27_source.enumerators.table_patterns import TablePattern, matched
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.options import Options

_SETTINGS = {"log_bin": "ON", "binlog_format": "ROW"}
_SETTINGS |= dict.fromkeys(("binlog_row_image", "binlog_row_metadata"), "FULL")

_NO_TABLE = (1049, 1146)
_TABLES = """
SELECT table_schema, table_name, engine, table_type FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY table_schema, table_name
"""
_COLUMNS = """
SELECT column_name, data_type, column_type, coalesce(numeric_precision, 0), coalesce(numeric_scale, 0),
character_set_name, column_key
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_INDEXES = """
SELECT index_name, column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A table that can be read.

    Attributes:
        key: the columns of the primary key, or without one, of the first unique key without NULLs, as in the
            log; empty if there is none.
        cut_by: the columns at the beginning of a primary key that are integers: chunks are cut by them.
    """

    table: TableName
    columns: dict[str, ColumnType]
    key: tuple[str, ...] = ()
    is_primary: bool = False

    def renamed(self, name_of: Callable[[str], str]) -> CatalogTable:
        """The table with other names of columns."""
        columns = {name_of(name): kind for name, kind in self.columns.items()}
        return replace(self, columns=columns, key=tuple(map(name_of, self.key)))

    @property
    def cut_by(self) -> tuple[str, ...]:
        key = self.key if self.is_primary else ()
        return tuple(takewhile(lambda name: self.columns[name].name in INTEGERS, key))

    def check_cut_by(self, key: Sequence[str]) -> None:
        """Check that the primary key still begins with the columns by which the table is cut."""
        if [one.lower() for one in self.cut_by[: len(key)]] != [one.lower() for one in key]:
            raise AlteredKeyError(self.table, key)


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


def identity(connection: Connection) -> str:
    """The identity of the server, which is that of its log: its server_id.

    The server_uid changes with the port and the network card, and two servers may have the same.
    """
    return str(variable(connection, "server_id"))


def check_server(connection: Connection, *, reads_log: bool) -> None:
    """Check that the server has a log that can be read."""
    found = variables(connection, "server_uid", "log_slave_updates", "gtid_slave_pos", *_SETTINGS)
    if "server_uid" not in found:
        raise DiscoveryError(
            "the server is not MariaDB 10.10 or newer: its log cannot be matched with snapshots",
            remedy="read it with enumerator=sql; MySQL is not supported yet",
        )
    for name, needed in _SETTINGS.items() if reads_log else ():
        if found.get(name) != needed:
            raise DiscoveryError(
                f"variable {name} of the server is {found.get(name)}, and the mysql source needs {needed}",
                remedy=f"set {name}={needed} in the server's configuration and restart it; or set "
                "snapshot=only",
            )
    # Any account may ask whether the server replicates from another one now.
    ((_, running),) = rows_of(connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    if reads_log and found["log_slave_updates"] != "ON" and (int(running) or found.get("gtid_slave_pos")):
        raise DiscoveryError(
            "the server is a replica, or was one, and its log does not have what it replicates",
            remedy="set log_slave_updates=ON in the server's configuration and restart it, before it "
            "replicates changes that are to be read; or connect to the primary; or, if it will never "
            "replicate again, SET GLOBAL gtid_slave_pos = ''",
        )


def begin_snapshot(connection: Connection, *, failovers: int) -> int:
    """Begin a transaction with a snapshot, and return the position before which it has everything."""
    rows_of(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    listed = rows_of(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = {name.lower(): value for name, value in listed}
    file = found["binlog_snapshot_file"]
    return position_of(file, int(found["binlog_snapshot_position"]), failovers=failovers) if file else 0


def log_end(connection: Connection, *, failovers: int) -> LogEnd:
    """The log as it is now.

    Its end is that of a snapshot: a transaction is in the log a moment before snapshots have it.
    """
    end = begin_snapshot(connection, failovers=failovers)
    rows_of(connection, "COMMIT")
    files = [row[0] for row in rows_of(connection, "SHOW BINARY LOGS")]
    first = position_of(files[0], FIRST_IN_FILE, failovers=failovers)
    return LogEnd(log=files[0].rpartition(".")[0], first=first, end=end)


def log_written_to(connection: Connection, *, failovers: int) -> int:
    """The end of the log, also of transactions that snapshots do not have yet."""
    ((file, offset, *_),) = rows_of(connection, "SHOW MASTER STATUS")
    return position_of(file, int(offset), failovers=failovers)


def gtids_at(connection: Connection, log: str, position: int) -> tuple[str, ...] | None:
    """The GTIDs before a position of the log; None if no event begins there.

    The server reads the file up to the position for this answer.
    """
    ((found,),) = rows_of(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file_and_offset(log, position))
    return None if found is None else parse_gtids(found)


def check_log(connection: Connection, *, log: str, position: int) -> LogEnd:
    """Check that the log that was read up to a position may be the server's log; return this one."""
    end = log_end(connection, failovers=failovers_of(position))
    # A log that was begun with a later file (RESET MASTER TO) has nothing before this file.
    is_new = end.first > position and not gtids_at(connection, log, end.first)
    if end.log != log or end.end < position or is_new:
        raise OtherLogError(position)
    return end


def named_tables(connection: Connection, options: Options) -> Sequence[TablePattern]:
    """The option ``tables``, with names as this server compares them."""
    patterns = options.require(opts.TABLES, why="the mysql source reads tables")
    own, folds = options[opts.DATABASE], variable(connection, "lower_case_table_names") != "0"
    for one in patterns:
        if own is None and one.schema is None:
            raise OptionError(
                f"option tables has {one.text} without a database, and option database is not set",
                remedy="write the database in front, such as shop.orders; or set option database",
            )
    return [one.compared(own_schema=own, ignores_case=folds) for one in patterns]


def is_named(patterns: Sequence[TablePattern], table: TableName) -> bool:
    return matched(patterns, table.schema, table.name)


def find_tables(
    connection: Connection, patterns: Sequence[TablePattern], *, known: Collection[TableName] = ()
) -> list[CatalogTable]:
    """The tables of the option ``tables``.

    Args:
        patterns: the option, from :func:`named_tables`.
        known: tables that need not exist any more: a loss is found where they are read.

    Raises:
        DiscoveryError: a table that is named does not exist, or cannot be read.
    """
    listed = [row for row in rows_of(connection, _TABLES) if matched(patterns, *row[:2])]
    names = [*(row[:2] for row in listed), *((table.schema, table.name) for table in known)]
    for pattern in patterns:
        if pattern.is_name and not any(pattern.matches(*name) for name in names):
            raise DiscoveryError(
                f"table {pattern.text} of option tables does not exist, is a view, or may not be read",
                remedy="create it, grant SELECT on it, or correct the option tables",
            )
    chosen = [(TableName(schema=schema, name=name), *more) for schema, name, *more in listed]
    for table, engine, kind in chosen:
        if kind == "SYSTEM VERSIONED":
            raise DiscoveryError(
                f"table {table} is system-versioned, which the mysql source does not read",
                remedy=f"ALTER TABLE {table} DROP SYSTEM VERSIONING; or {left_out(table)}",
            )
        if engine != "InnoDB":
            raise DiscoveryError(
                f"table {table} has the engine {engine}, which has no snapshots of transactions",
                remedy=f"ALTER TABLE {table} ENGINE=InnoDB; or {left_out(table)}",
            )
    return [catalog_table(connection, table) for table, *_ in chosen]


def check_logged(connection: Connection, tables: Sequence[TableName]) -> None:
    """Refuse tables with changes that the log does not have."""
    for _, _, only, ignored in rows_of(connection, "SHOW MASTER STATUS"):
        if only or ignored:
            raise DiscoveryError(
                "the server leaves databases out of its log, and what sessions do in them with tables of "
                f"others, such as TRUNCATE (binlog_do_db is '{only}', binlog_ignore_db is '{ignored}')",
                remedy="remove these settings from the server's configuration and restart it; or set "
                "snapshot=only",
            )
    for table in tables:
        # With SELECT alone, information_schema does not show the foreign keys.
        ((_, text),) = rows_of(connection, f"SHOW CREATE TABLE {quoted(table.schema, table.name)}")
        key = Statement(text, table.schema).cascading_key
        if key is not None:
            raise DiscoveryError(
                f"the foreign key {key} of table {table} deletes or updates rows together with those of "
                "another table, and the log does not have these changes",
                remedy="give the foreign key ON DELETE RESTRICT and ON UPDATE RESTRICT; or "
                f"{left_out(table)}; or set snapshot=only",
            )


def present_table(connection: Connection, table: TableName) -> CatalogTable:
    """A table of which not all chunks were read.

    Raises:
        GoneTableError: it does not exist; a table that the account may not read is another error.
    """
    try:
        rows_of(connection, f"SELECT 1 FROM {quoted(table.schema, table.name)} LIMIT 0")
    except imported().err.MySQLError as error:
        if error.args[0] in _NO_TABLE:
            raise GoneTableError(table) from None
        raise
    return catalog_table(connection, table)


def catalog_table(connection: Connection, table: TableName) -> CatalogTable:
    names = [table.schema, table.name]
    found = rows_of(connection, _COLUMNS, names)
    columns = {
        row[0]: ColumnType(
            name=row[1].lower(), digits=int(row[3]), scale=int(row[4]), text=row[2], charset=row[5]
        )
        for row in found
    }
    indexes = defaultdict[str, list[str]](list)
    for index, column in rows_of(connection, _INDEXES, names):
        indexes[index].append(column)
    in_key = {row[0] for row in found if row[6] == "PRI"}
    key = next((tuple(one) for one in indexes.values() if {*one} == in_key), ())
    return CatalogTable(table=table, columns=columns, key=key, is_primary="PRIMARY" in indexes)
