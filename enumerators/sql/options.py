"""The options of the sql source that both halves use, and the checks of their combinations. No I/O."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from flip27_source.enumerators.sql.split import MAX_COLUMNS
from flip27_source.errors import OptionError
from flip27_source.options import (
    FirstStartOption,
    NextBatchOption,
    Option,
    Options,
    ReadingOption,
    boolean,
    duration_s,
    integer,
    one_of,
    optional,
    texts,
)

_NAME = r"""(?:[^\W\d][\w$]*|"(?:[^"]|"")+"|`[^`]+`|\[[^\]]+\])"""
_TABLE = re.compile(rf"{_NAME}(?:\.{_NAME}){{0,2}}")

_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)

EARLIEST = "earliest"
LATEST = "latest"


def _table(value: str) -> str:
    if _TABLE.fullmatch(value.strip()) is None:
        raise ValueError('a name as in SQL is expected, such as orders, shop.orders or "Orders"')
    return value.strip()


def bare_name(table: str) -> str:
    """The name in the catalog, without a schema and quotation marks."""
    name: str = re.findall(_NAME, table)[-1]
    return name if name[0] not in '"`[' else name[1:-1].replace('""', '"')


def _query(value: str) -> str:
    query = value.strip().rstrip(";").rstrip()
    if not re.match(r"(?:select|with|from|values)\b", query, re.IGNORECASE):
        raise ValueError("a SELECT is expected")
    return query


def _columns(value: str) -> tuple[str, ...]:
    names = texts(value)
    if not 0 < len(names) <= MAX_COLUMNS or len(set(names)) < len(names):
        raise ValueError(f"1 to {MAX_COLUMNS} different columns are expected, such as updated_at,id")
    return names


DRIVER: Option[str | None] = ReadingOption(
    name="driver",
    default_text="not set: uri is a SQLAlchemy URL",
    doc="ADBC driver: sqlite, duckdb, postgresql, the Python module of another driver, or the name or path "
    "of a shared library.",
)
URI: Option[str | None] = ReadingOption(
    name="uri",
    doc="The database: a file for sqlite and duckdb, postgresql://user@host:5432/shop for postgresql, the "
    "uri of another ADBC driver, or a SQLAlchemy URL. Never stored or shown.",
    secret=True,
)
URI_ENV: Option[str | None] = ReadingOption(
    name="uriEnv", doc="Environment variable, on the driver and the executors, that contains uri."
)
PASSWORD_ENV: Option[str | None] = ReadingOption(
    name="passwordEnv",
    doc="Environment variable, on the driver and the executors, that contains the password.",
)
TABLE: Option[str | None] = FirstStartOption(
    name="table",
    parse=optional(_table),
    doc="Table or view, written as in SQL: orders, shop.orders.",
    names_data=True,
)
QUERY: Option[str | None] = FirstStartOption(
    name="query",
    parse=optional(_query),
    doc="SELECT to read instead of a table. It is used as a subquery, so it needs no ORDER BY.",
    names_data=True,
)
CURSOR_COLUMNS: Option[tuple[str, ...] | None] = FirstStartOption(
    name="cursorColumns",
    parse=optional(_columns),
    doc="Columns that grow, such as id or updated_at,id: new and changed rows have greater values, compared "
    "as a tuple. Together they should identify a row.",
)
STARTING_CURSOR: Option[str] = FirstStartOption(
    name="startingCursor",
    default=EARLIEST,
    doc="Where a new query starts: earliest, latest (only rows that appear later), or values of the first "
    "cursor columns, separated by commas or as a JSON list; rows with these values or greater ones are read.",
)
LAG: Option[float | None] = NextBatchOption(
    name="lag",
    parse=optional(duration_s),
    default_text="10 seconds if the first cursor column is a time, otherwise none",
    doc="How long rows wait after the time in their first cursor column, so that transactions that commit "
    "late are not missed. For a date, this time is counted from the end of the day; 0s turns the option off.",
)
WAIT_FOR_TRANSACTIONS: Option[bool] = NextBatchOption(
    name="waitForTransactions",
    parse=boolean,
    default=True,
    doc="On PostgreSQL, rows wait until every transaction that was writing when they were first seen has "
    "ended. false: only lag protects against late commits.",
)
TRANSACTION_TIMEOUT: Option[float] = NextBatchOption(
    name="transactionTimeout",
    parse=duration_s,
    default_text="1 minute",
    doc="How long a run that ends (availableNow, spark.read) waits for such transactions before it fails.",
)
PARTITION_ROWS: Option[int] = NextBatchOption(
    name="partitionRows",
    parse=integer(minimum=1),
    default=100_000,
    doc="Maximum number of rows in a range, which one task reads; maxRowsPerTrigger, maxBytesPerTrigger and "
    "maxPartitionBytes make ranges smaller.",
)
ON_NULL_CURSOR: Option[str] = NextBatchOption(
    name="onNullCursor",
    parse=one_of("fail", "ignore"),
    doc="What to do with rows that have NULL in a cursor column and therefore no position: fail stops the "
    "query; ignore leaves them out and counts them (nullCursorRows).",
)
APPEND_ONLY: Option[bool] = ReadingOption(
    name="appendOnly",
    parse=boolean,
    doc="true: rows are never deleted, their cursors never change, and no two rows have the same cursor. "
    "Each range then has to return as many rows as were counted when it was found; another number stops the "
    "query.",
)

ENUMERATOR_OPTIONS: tuple[Option[Any], ...] = (
    DRIVER, URI, URI_ENV, PASSWORD_ENV, TABLE, QUERY, CURSOR_COLUMNS, STARTING_CURSOR, LAG,
    WAIT_FOR_TRANSACTIONS, TRANSACTION_TIMEOUT, PARTITION_ROWS, ON_NULL_CURSOR,
)  # fmt: skip


def cursor_columns(options: Options) -> tuple[str, ...]:
    return options.require(CURSOR_COLUMNS, why="rows are read in the order of these columns")


def starting_values(options: Options) -> tuple[str, ...]:
    """The values of startingCursor; empty for earliest and latest."""
    given = options[STARTING_CURSOR].strip()
    if given.lower() in (EARLIEST, LATEST):
        return ()
    try:
        values = texts(given)
    except ValueError as error:
        raise OptionError(
            f"option {STARTING_CURSOR.name} has the value {given!r}: {error}",
            remedy=f"{STARTING_CURSOR.name}: {STARTING_CURSOR.doc}",
        ) from None
    columns = cursor_columns(options)
    if not 0 < len(values) <= len(columns):
        raise OptionError(
            f"option {STARTING_CURSOR.name} has {len(values)} values ({given!r}), but "
            f"{CURSOR_COLUMNS.name} has {len(columns)} columns",
            remedy="give a value for each column, or only for the first ones",
        )
    return values


def starts_at_latest(options: Options) -> bool:
    """Whether a new query reads only rows that appear later."""
    return options[STARTING_CURSOR].strip().lower() == LATEST


def table_parts(table: str, *, folds: bool = False) -> tuple[str, ...]:
    """The parts of a table's name without quotation marks, such as the schema and the table.

    Args:
        folds: whether the database takes the ASCII letters of parts without quotation marks in lower case.
    """
    return tuple(
        part[1:-1].replace('""', '"') if part[0] in '"`[' else part.translate(_FOLDED if folds else {})
        for part in re.findall(_NAME, table)
    )


def source_name(options: Options) -> str:
    """The table or query for messages."""
    table = options[TABLE]
    return "the query" if table is None else f"table {table}"


def check_sql_options(options: Options) -> None:
    """Refuse missing options and invalid combinations."""
    either = '.option("table", "orders"), or .option("query", "SELECT ...")'
    place = '.option("uri", ...), or .option("uriEnv", ...) with the name of an environment variable'
    for first, second, add in ((TABLE, QUERY, either), (URI, URI_ENV, place)):
        if (options[first] is None) == (options[second] is None):
            neither = f"neither option {first.name} nor option {second.name} is set"
            both = f"options {first.name} and {second.name} are both set"
            what = neither if options[first] is None else both
            raise OptionError(what, remedy=f"add {add}, but not both")
    cursor_columns(options)
    starting_values(options)
