"""A polled table on an open connection: the queries of one round and their results."""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from flip27_source.access_errors import cause_of_failed_access
from flip27_source.enumerators.sql import options as opts
from flip27_source.enumerators.sql.adbc import AdbcDatabase, driver_path, imported_adbc
from flip27_source.enumerators.sql.database import DatabaseFailure
from flip27_source.enumerators.sql.dialects import ALIAS, text_of
from flip27_source.enumerators.sql.lag import with_zone
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase, imported_sqlalchemy
from flip27_source.environment_variables import variable_of
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.options import Option, Options
from flip27_source.schemas.column_names import place_of_name
from flip27_source.source_options import TIME_ZONE
from flip27_source.time_zones import java_zone

_LEAST_ROW_BYTES = 8
_MAY_BE_INFINITE = ("number", "double", "decimal", "date", "timestamp", "month_day_nano")
"""Starts of the types of numbers, dates, times and intervals: in other types, ``inf`` is an ordinary text."""
_SAMPLE_ROWS = 1000


def connected(options: Options) -> AdbcDatabase | SqlAlchemyDatabase:
    """A new connection to the database of the options."""
    uri = options[opts.URI] or _variable(options, opts.URI_ENV)
    if uri is None:
        raise OptionError("option uri is not set", remedy=f'add .option("uri", ...): {opts.URI.doc}')
    password, driver = _variable(options, opts.PASSWORD_ENV), options[opts.DRIVER]
    return SqlAlchemyDatabase(uri, password) if driver is None else AdbcDatabase(driver, uri, password)


def check_driver(driver: str | None) -> None:
    """Raise an OptionError if the packages of a driver are missing; None: SQLAlchemy finds it by the URI."""
    if driver is None:
        imported_sqlalchemy()
    else:
        imported_adbc()
        driver_path(driver)


def _variable(options: Options, option: Option[str | None]) -> str | None:
    name = options[option]
    return None if name is None else variable_of(option.name, name)


def relation_of(options: Options) -> str:
    """The table, or the query as a subquery, for FROM; named ``ALIAS``."""
    query = options[opts.QUERY]
    # The line break ends a comment in the last line of the query.
    return f"{options[opts.TABLE] if query is None else f'({chr(10)}{query}{chr(10)})'} AS {ALIAS}"


def fields_of(relation: str, database: AdbcDatabase | SqlAlchemyDatabase) -> pa.Schema:
    """The columns, from a result without rows, or with one row if values decide the types."""
    return database.fields(f"SELECT * FROM {relation} LIMIT {0 if database.dialect.has_types else 1}")


class CursorTable:
    """The table or query of the options.

    Attributes:
        fields: its columns.
        names: the names of its cursor columns, which the option may write in another case.
    """

    def __init__(self, options: Options) -> None:
        self.name = opts.source_name(options)
        self.database = connected(options)
        self._relation = relation_of(options)
        try:
            self.fields = fields_of(self._relation, self.database)
            self.names = [self._column(name) for name in opts.cursor_columns(options)]
            self._columns = [self.database.dialect.column(name) for name in self.names]
            zone = java_zone(options[TIME_ZONE] or "UTC")
            self._start = self._starting_condition(opts.starting_values(options), zone)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.database.close()

    def newest(self, *, not_after: Cursor | None = None) -> Cursor | None:
        """The greatest visible cursor; None without rows.

        Args:
            not_after: only rows whose first column is not greater than this value are considered.
        """
        limit = None
        if not_after is not None:
            literal = self.database.dialect.literal(not_after.values[0], not_after.types[0])
            limit = f"{self._columns[0]} <= {literal}"
        return self._first(" DESC", limit)

    def lowest(self) -> Cursor | None:
        """The lowest cursor from startingCursor on; None without rows."""
        return self._first("", None)

    def _first(self, direction: str, limit: str | None) -> Cursor | None:
        order = ", ".join(f"{column}{direction}" for column in self._columns)
        cursors = self._cursors(f"{self._rows(self._start, limit)} ORDER BY {order} LIMIT 1", self._columns)
        return cursors[0] if cursors else None

    def check_newest(self, newest: Cursor | None) -> None:
        """Refuse a greatest cursor with infinity or NaN at its start, because no value is greater."""
        if newest is None:
            return
        value, kind = newest.values[0], newest.types[0]
        if kind.startswith(_MAY_BE_INFINITE) and _is_greatest(value, kind):
            raise DiscoveryError(
                f"{self.name} has a row with the cursor {newest}: no later row could be greater",
                remedy="correct the row, or leave such rows out with option query",
            )

    def null_column(self) -> str | None:
        """A cursor column in which a row has NULL."""
        for name, column in zip(self.names, self._columns, strict=True):
            sql = f"SELECT 1 FROM {self._relation} WHERE {column} IS NULL LIMIT 1"
            if self.database.value(sql) is not None:
                return name
        return None

    def check_nulls(self) -> None:
        """Refuse rows with NULL in a cursor column."""
        column = self.null_column()
        if column is not None:
            raise DiscoveryError(
                f"{self.name} has a row with NULL in its cursor column {column}, so the row has no position",
                remedy="declare the column NOT NULL; or leave such rows out with option query, or with "
                '.option("onNullCursor", "ignore"), which counts them',
            )

    def null_rows(self) -> int:
        """The number of rows that have NULL in a cursor column."""
        conditions = " OR ".join(f"{column} IS NULL" for column in self._columns)
        return int(self.database.value(f"SELECT count(*) FROM {self._relation} WHERE {conditions}"))

    def reaches(self, cursor: Cursor) -> bool:
        """True if a row has this cursor or a greater one."""
        return self.database.value(f"SELECT 1 {self._rows(self._compared('>=', cursor))} LIMIT 1") is not None

    def count(self, after: Cursor | None, upto: Cursor) -> int:
        return int(self.database.value(f"SELECT count(*) {self._range(after, upto)}"))

    def cuts(self, after: Cursor | None, upto: Cursor, *, rows: int, most: int) -> list[Cursor]:
        """Every ``rows``-th cursor of a range, up to ``most`` of them; empty if the range has fewer rows.

        Cursors that are equal for the database give one cut, whatever their texts: the first row of a cursor
        comes after the last cut.
        """
        names = [f"flip27_{number}" for number in range(len(self._columns))]
        given = ", ".join(f"{column} AS {name}" for column, name in zip(self._columns, names, strict=True))
        order = ", ".join(self._columns)
        numbered = (
            f"SELECT {given}, row_number() OVER (ORDER BY {order}) AS flip27_row, "
            f"rank() OVER (ORDER BY {order}) AS flip27_first "
            f"{self._range(after, upto)} ORDER BY {order} LIMIT {rows * most}"
        )
        chosen = f"flip27_row % {rows} = 0 AND flip27_first > flip27_row - {rows}"
        where = f"FROM ({numbered}) AS flip27_cuts WHERE {chosen} ORDER BY flip27_row"
        return self._cursors(where, names)

    def row_bytes(self, after: Cursor | None, upto: Cursor) -> int:
        """The size of a row, from the first complete rows of a range."""
        size = self.database.row_bytes(f"SELECT * {self._range(after, upto)} LIMIT {_SAMPLE_ROWS}")
        return max(_LEAST_ROW_BYTES, size)

    def query(self, after: Cursor | None, upto: Cursor, select: Sequence[str]) -> str:
        """The SQL for the rows of a range in the order of their cursors; ``select`` are expressions."""
        return f"SELECT {', '.join(select)} {self._range(after, upto)} ORDER BY {', '.join(self._columns)}"

    def now(self) -> dt.datetime:
        """The current time, by the database server's clock if there is one."""
        clock = self.database.dialect.clock
        if clock is None:
            return dt.datetime.now(dt.UTC)
        return dt.datetime.fromisoformat(str(self.database.value(clock)))

    def plain(self, cursor: Cursor) -> str:
        """The first value of a cursor as users write it."""
        return self.database.dialect.plain(cursor.values[0])

    def given(self, value: str, kind: str) -> Cursor:
        """A first value that a user or this program wrote, as a cursor of one column."""
        return Cursor(values=(self.database.dialect.given(value, kind),), types=(kind,))

    def _rows(self, *conditions: str | None) -> str:
        """FROM and WHERE, for the rows that have a cursor and meet the conditions."""
        # The condition on NULL is for tuples: their comparison can be true although a later part is NULL.
        has_cursor = (f"{column} IS NOT NULL" for column in self._columns)
        given = (condition for condition in (*conditions, *has_cursor) if condition is not None)
        return f"FROM {self._relation} WHERE {' AND '.join(given)}"

    def _range(self, after: Cursor | None, upto: Cursor) -> str:
        lower = self._start if after is None else self._compared(">", after)
        return self._rows(lower, self._compared("<=", upto))

    def _compared(self, operator: str, cursor: Cursor) -> str:
        dialect = self.database.dialect
        literals = [dialect.literal(*item) for item in zip(cursor.values, cursor.types, strict=True)]
        return dialect.compared(self._columns, operator, literals)

    def _cursors(self, rows: str, columns: Sequence[str]) -> list[Cursor]:
        """The cursors that ``rows``, a text from FROM on, gives in ``columns``."""
        # The columns themselves are selected too, because their types are needed.
        as_text = self.database.dialect.as_text
        texts = [column if as_text is None else as_text(column) for column in columns]
        named = [f"{text} AS flip27_text_{number}" for number, text in enumerate(texts)]
        select = ", ".join([*named, *columns])
        kinds, found = self.database.rows(f"SELECT {select} {rows}", columns=len(columns))
        types = tuple(map(self._kind, kinds[len(columns) :]))
        return [Cursor(values=tuple(map(text_of, row)), types=types) for row in found]

    def _kind(self, kind: str) -> str:
        """The type to store: numbers may become wider, and a column of SQLite may also have fractions."""
        if kind.startswith(("decimal", "numeric")):
            return "decimal"
        is_integer, is_float = kind.startswith(("int", "uint")), kind in ("float", "double", "halffloat")
        if self.database.dialect.name == "sqlite" and (is_integer or is_float):
            return "number"
        return "int64" if is_integer else "double" if is_float else kind

    def field(self, name: str) -> pa.Field | None:
        """The column with this name, or the only one whose name differs in case alone."""
        place = place_of_name(name, self.fields.names)
        return None if place is None else self.fields.field(place)

    def _column(self, name: str) -> str:
        field = self.field(name)
        if field is None:
            raise OptionError(
                f"option {opts.CURSOR_COLUMNS.name} contains {name!r}, which is not a column of {self.name}; "
                f"it has {', '.join(self.fields.names)}",
                remedy="name columns of the table; if the column was renamed or dropped, its positions are "
                "lost: start a new query with a startingCursor",
            )
        self._check_order(field.name)
        return str(field.name)

    def _check_order(self, name: str) -> None:
        if pa.types.is_dictionary(self.fields.field(name).type):
            raise OptionError(
                f"option {opts.CURSOR_COLUMNS.name} contains {name!r}, an ENUM, whose values are sorted by "
                "their declaration and compared with a position as texts: rows would be missing",
                remedy="with option query, select another column for the cursor: CAST(... AS VARCHAR), or on "
                "DuckDB enum_code(...)",
            )

    def _starting_condition(self, values: Sequence[str], zone: dt.tzinfo) -> str | None:
        if not values:
            return None
        dialect = self.database.dialect
        literals = []
        for value, name in zip(values, self.names, strict=False):
            kind = str(self.fields.field(name).type)
            stored = self._kind(kind)
            if kind.startswith("timestamp") and "tz=" in kind:
                value = with_zone(value, zone)
            try:
                literals.append(dialect.literal(dialect.given(value, stored), stored))
            except ValueError as error:
                raise OptionError(
                    f"option {opts.STARTING_CURSOR.name} contains {value!r}: {error}",
                    remedy=f"write a value of the column's type, {kind}",
                ) from None
        condition = dialect.compared(self._columns, ">=", literals)
        try:
            self.database.rows(f"SELECT 1 {self._rows(condition)} LIMIT 1")
        except DatabaseFailure as failure:
            if cause_of_failed_access(failure) is not None:
                raise
            raise OptionError(
                f"option {opts.STARTING_CURSOR.name} contains {', '.join(values)}, which cannot be compared "
                f"with the cursors of {self.name}: {failure.what}",
                remedy="write values of the types of the cursor columns",
            ) from None
        return condition


def _is_greatest(value: str, kind: str) -> bool:
    try:
        number = Decimal(value)  # because a numeric may be greater than any float
    except InvalidOperation:
        return False
    if number.is_nan():
        return True
    return number > 0 and not (math.isfinite(float(value)) if kind == "number" else number.is_finite())


class BrokenConnection(Exception):  # noqa: N818 - not an error yet
    """A statement failed on a connection that an earlier round had opened."""


class PolledTable:
    """The table on the connection of discovery, which is kept open between rounds for PostgreSQL.

    A database file is closed after each round, so that its writer can open it. ``end`` may be called on
    another thread.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._in_use = threading.Lock()
        self._has_ended = False
        self._table: CursorTable | None = None

    @contextmanager
    def opened(self) -> Iterator[CursorTable]:
        """The table, for one round.

        Raises:
            BrokenConnection: a statement failed on the connection of an earlier round.
        """
        with self._in_use:
            is_old = self._table is not None
            try:
                table = self._table = self._table or CursorTable(self._options)
                yield table
            except BaseException as error:
                self._close()
                if isinstance(error, DatabaseFailure) and is_old:
                    raise BrokenConnection from error
                raise
            if self._has_ended or table.database.dialect.name != "postgresql":
                self._close()

    def end(self) -> None:
        """Close the connection, at once or when the current round ends."""
        self._has_ended = True
        if self._in_use.acquire(blocking=False):
            self._close()
            self._in_use.release()

    def _close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None
