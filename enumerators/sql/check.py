"""What ``flip27 check`` finds about a table or query that is polled. Changes nothing in the database."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeAlias

from flip27_source.enumerators.sql import options as opts
from flip27_source.enumerators.sql.database import DatabaseFailure
from flip27_source.enumerators.sql.lag import DEFAULT_LAG_S, ahead_of, is_time
from flip27_source.enumerators.sql.open_transactions import writers_of
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.enumerators.sql.table import CursorTable
from flip27_source.errors import Flip27Error
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, ok, ok_unless, warning
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

FUTURE = dt.timedelta(minutes=1)
"""Times that are further ahead of the clock than this are most likely in another time zone."""

_ONE_WRITER = ("sqlite", "duckdb")
_INDEXES = """
SELECT CASE WHEN c.relkind IN ('r', 'p', 'm') THEN (
  SELECT count(*) FROM pg_catalog.pg_index AS i
  WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND (
    SELECT string_agg(CAST(a.attname AS text), ',' ORDER BY k.place)
    FROM unnest(CAST(i.indkey AS int2[])) WITH ORDINALITY AS k (number, place)
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE k.place <= {count}) = {columns}
) END FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass({table})
"""
"""The number of indexes; NULL for views and foreign tables, which have none."""

_SQLITE_KEY = """
SELECT t.sql FROM sqlite_master AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table' AND t.name = {table} COLLATE NOCASE AND c.name = {column} COLLATE NOCASE AND c.pk = 1
  AND NOT EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE pk > 1)
  AND NOT EXISTS (SELECT 1 FROM pragma_index_list(t.name) WHERE origin = 'pk')
"""
"""The definition of a table with this INTEGER PRIMARY KEY, to which SQLite gives values: it has no index."""

_SQLITE_WORDS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|(autoincrement\b)""",
    re.DOTALL | re.IGNORECASE,
)
"""The word, and what may contain it: SQLite has it at no other place."""


CheckKinds: TypeAlias = Callable[[CursorTable, Options, Cursor | None, Cursor | None, Cursor], None]
"""Refuses cursors of several kinds: a position, if there is one, the lowest cursor and the greatest one."""


def findings(options: Options, check_kinds: CheckKinds) -> Iterator[Finding]:
    opts.check_sql_options(options)
    try:
        with closing(CursorTable(options)) as table:
            yield from _of_table(table, options, check_kinds)
    except DatabaseFailure as failure:
        yield failed("table", failure.what, failure.remedy)


def _of_table(table: CursorTable, options: Options, check_kinds: CheckKinds) -> Iterator[Finding]:
    yield ok("table", f"{table.name} of {table.database.dialect.name}, {len(table.fields)} columns")
    newest = table.newest()
    named = ", ".join(table.names)
    place = f" at or above {opts.STARTING_CURSOR.name}" if opts.starting_values(options) else ""
    last = f"the table has no row{place} yet" if newest is None else f"the newest row has {newest}"

    def check_cursors() -> None:
        table.check_newest(newest)
        if newest is not None:
            check_kinds(table, options, None, table.lowest(), newest)

    yield ok_unless("cursor columns", f"{named}; {last}", check_cursors)
    yield _nulls(table, options)
    name = options[opts.TABLE]
    if table.database.dialect.name == "postgresql" and name is not None:
        yield from _index(table, name)
    if table.database.dialect.name == "sqlite" and name is not None:
        yield from _keys(table, name)
    has_time = newest is not None and is_time(table.plain(newest), newest.types[0])
    yield _late_commits(table, options, has_time=has_time)
    if newest is not None and has_time:
        yield _clock(table, newest, options)


def _nulls(table: CursorTable, options: Options) -> Finding:
    column = table.null_column() if options[opts.ON_NULL_CURSOR] == "ignore" else None
    if column is not None:
        return warning(
            "NULL",
            f"rows with NULL in {column} are ignored (onNullCursor=ignore)",
            "declare the column NOT NULL",
        )
    return ok_unless("NULL", "no row has NULL in a cursor column", table.check_nulls)


def _index(table: CursorTable, name: str) -> Iterator[Finding]:
    dialect = table.database.dialect
    sql = _INDEXES.format(
        table=dialect.literal(name, "string"),
        count=len(table.names),
        columns=dialect.literal(",".join(table.names), "string"),
    )
    listed = ", ".join(map(dialect.quoted, table.names))
    indexes = table.database.value(sql)
    if indexes:
        yield ok("index", f"an index begins with {listed}")
    elif indexes is not None:
        yield warning(
            "index",
            f"no index begins with {listed}: each poll scans the table",
            f"CREATE INDEX ON {name} ({listed});",
        )


def _keys(table: CursorTable, name: str) -> Iterator[Finding]:
    """Whether SQLite gives the key of a deleted row to a new one, which is then below the position."""
    database, column = table.database, table.names[0]
    sql = _SQLITE_KEY.format(
        table=database.dialect.given(opts.bare_name(name), "string"),
        column=database.dialect.given(column, "string"),
    )
    definition = database.value(sql)
    if definition is None:
        return
    if any(_SQLITE_WORDS.findall(definition)):
        yield ok("keys", f"{column} is AUTOINCREMENT: no key is given twice")
    else:
        yield warning(
            "keys",
            f"when the row with the greatest {column} is deleted, SQLite gives its {column} to the next row, "
            "which is not read",
            f"declare {column} INTEGER PRIMARY KEY AUTOINCREMENT, in a new table; or begin cursorColumns "
            "with a time; nothing is to be done if no row is deleted",
        )


def _late_commits(table: CursorTable, options: Options, *, has_time: bool) -> Finding:
    """Whether rows of transactions that commit late are protected."""
    check, database = "late commits", table.database.dialect.name
    lag_s = options[opts.LAG]
    if lag_s is None:
        lag_s = DEFAULT_LAG_S if has_time else 0.0
    if database == "postgresql" and options[opts.WAIT_FOR_TRANSACTIONS]:
        try:
            writing = writers_of(table.database, options[opts.TABLE])
        except Flip27Error as error:
            return failed(check, error.what, error.remedy)
        return ok(check, f"rows wait for transactions that write ({len(writing)} now)")
    if lag_s:
        return ok(check, f"rows wait until their time is {lag_s:g} seconds ago")
    if database in _ONE_WRITER:
        return ok(check, f"{database} has one writer at a time, so rows become visible in order")
    return warning(
        check,
        "rows of transactions that commit late are not read",
        "begin cursorColumns with a time, and set lag above the length of the longest transaction",
    )


def _clock(table: CursorTable, newest: Cursor, options: Options) -> Finding:
    zone = java_zone(options[TIME_ZONE] or "UTC")
    ahead = ahead_of(table.plain(newest), table.now(), zone)
    if ahead <= FUTURE:
        return ok("clock", "no time is in the future")
    return warning(
        "clock",
        f"the newest row has {newest}, {ahead} ahead of the clock, and waits until then",
        f"times without a zone are taken as times in {zone}: set option timeZone",
    )
