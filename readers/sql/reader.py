"""The sql reader: the rows of a range of cursors, read on executors, and the columns of the table or query.

The driver has decided where each range ends, and nothing newer is read.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source.enumerators.sql.adbc import AdbcDatabase
from flip27_source.enumerators.sql.database import DatabaseFailure, StatementFailure
from flip27_source.enumerators.sql.log_position import lacks_rows
from flip27_source.enumerators.sql.options import APPEND_ONLY, TABLE, check_sql_options, table_parts
from flip27_source.enumerators.sql.split import SqlSplit
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase
from flip27_source.enumerators.sql.table import CursorTable, connected, fields_of, relation_of
from flip27_source.errors import AccessError, OptionError, SchemaError, SplitReadError
from flip27_source.options import Option, Options
from flip27_source.reader import SplitReader
from flip27_source.readers.sql.column_types import (
    UTC_TIMESTAMP,
    affinity,
    array_of,
    converted,
    selected,
    spark_type,
)
from flip27_source.schemas.inference import FindsSchema

_SAMPLE_ROWS = 1000
_OF_PYTHON: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us"),
}


def schema_of(database: AdbcDatabase | SqlAlchemyDatabase, options: Options) -> pa.Schema:
    """The columns, with types of Spark."""
    relation = relation_of(options)
    if isinstance(database, SqlAlchemyDatabase):
        return _of_rows(database, relation, options[TABLE])
    if database.dialect.name == "sqlite":
        return _of_sqlite(database, relation, options[TABLE])
    fields = fields_of(relation, database)
    return pa.schema([pa.field(field.name, spark_type(field)) for field in fields])


def _of_sqlite(database: AdbcDatabase, relation: str, table: str | None) -> pa.Schema:
    """The columns with their declared types, if these imply one, otherwise with the types of the first rows.

    SQLite accepts values of any type in any column.
    """
    declared = {}
    if table is not None:
        name = database.dialect.given(table_parts(table)[-1], "string")
        _, rows = database.rows(f"SELECT name, type FROM pragma_table_xinfo({name})")
        declared = {name: affinity(kind) for name, kind in rows}
    batches = database.batches(f"SELECT * FROM {relation} LIMIT {_SAMPLE_ROWS}", first_rows=_SAMPLE_ROWS)
    sample = next(batches, None) or pa.RecordBatch.from_pylist([], fields_of(relation, database))
    # The driver takes a column without a value for one of integers.
    kinds = (
        pa.string() if column.null_count == len(column) else spark_type(field)
        for field, column in zip(sample.schema, sample.columns, strict=True)
    )
    return pa.schema(
        [(name, declared.get(name) or kind) for name, kind in zip(sample.schema.names, kinds, strict=True)]
    )


def _of_rows(database: SqlAlchemyDatabase, relation: str, table: str | None) -> pa.Schema:
    declared = {} if table is None else _reflected(database, table)
    names, rows = database.named_rows(f"SELECT * FROM {relation} LIMIT {_SAMPLE_ROWS}")
    columns: Any = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.schema(
        [
            (name, declared.get(name) or _of_values(values))
            for name, values in zip(names, columns, strict=True)
        ]
    )


def _reflected(database: SqlAlchemyDatabase, table: str) -> dict[str, pa.DataType]:
    """The types of those columns of a table whose declared type has a counterpart in Spark."""
    *schema, name = table_parts(table, folds=database.dialect.name == "postgresql")
    otherwise = pa.string() if database.dialect.has_types else None
    kinds = {}
    for column in database.columns(name, ".".join(schema) or None):
        kind = _of_declared(column["type"], otherwise)
        if kind is not None:
            kinds[column["name"]] = kind
    return kinds


def _of_declared(kind: Any, otherwise: pa.DataType | None) -> pa.DataType | None:
    """The type of a declaration; None if the values show it, and ``otherwise`` if Spark has no such type."""
    try:
        of_python = kind.python_type
    except NotImplementedError:
        return None
    if of_python is decimal.Decimal:
        precision, scale = kind.precision, kind.scale
        if precision is None or not 0 <= (scale or 0) <= precision <= 38:
            return otherwise
        return pa.decimal128(precision, scale or 0)
    if of_python is dt.datetime and getattr(kind, "timezone", False) is True:  # 6 for DATETIME(6)
        return UTC_TIMESTAMP
    return None if of_python is list else _OF_PYTHON.get(of_python, otherwise)


def _of_values(values: tuple[Any, ...]) -> pa.DataType:
    """The type of some values. JSON objects and decimals are text: other decimals may have more digits.

    Values of several types are texts, or on SQLite perhaps blobs.
    """
    try:
        kind = pa.array(values).type
    except (pa.ArrowException, TypeError, OverflowError):
        return pa.binary() if any(isinstance(value, bytes) for value in values) else pa.string()
    if pa.types.is_decimal(kind) or "struct" in str(kind):
        return pa.string()
    return spark_type(pa.field("value", kind))


class SqlReader(FindsSchema, SplitReader[SqlSplit]):
    """Reads ranges of a table or query: Arrow batches of ADBC, or rows of SQLAlchemy."""

    options: ClassVar[tuple[Option[Any], ...]] = (APPEND_ONLY,)
    repeatable: ClassVar[bool] = False

    _table: CursorTable | None = None

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        check_sql_options(options)
        try:
            with closing(connected(options)) as database:
                return schema_of(database, options)
        except DatabaseFailure as failure:
            raise SchemaError(
                f"the columns cannot be looked up: {failure.what}", remedy=failure.remedy
            ) from None

    def read(self, split: SqlSplit) -> Iterator[pa.RecordBatch]:
        rows, failed = 0, f"the rows {_named(split)} cannot be read"
        try:
            table = self._opened()
            seen_at = split.log_position
            if seen_at is not None and lacks_rows(table.database, seen_at, split.cluster):
                raise _no_access(
                    f"{failed}: the server is a standby that has not replayed what the driver has seen yet",
                    "choose the primary in uri, such as with target_session_attrs=primary; or wait until the "
                    "standby has, which it never will if the database was restored to an earlier state",
                )
            for batch in self._batches(table, split):
                rows += batch.num_rows
                yield batch
        except DatabaseFailure as failure:
            # Without the table, as while it is replaced by another one, nothing is known about the range.
            if self._table is None or isinstance(failure, StatementFailure):
                raise _no_access(f"{failed}: {failure.what}", failure.remedy) from None
            raise SplitReadError(f"{failed}: {failure.what}", remedy=failure.remedy) from None
        if self.context.options[APPEND_ONLY] and rows != split.rows:
            raise SplitReadError(
                f"the range of {table.name} {_named(split)} has {rows} rows; it had {split.rows} when it was "
                "found, and option appendOnly is set",
                remedy="if rows change or are deleted, or several rows share a cursor, remove appendOnly; "
                "if rows were committed late, set a longer lag",
            )

    def close(self) -> None:
        if self._table is not None:
            self._table.close()

    def _opened(self) -> CursorTable:
        """The table, with one connection for all ranges of the task."""
        if self._table is None:
            options = self.context.options
            self._table = CursorTable(options)
            self._check_cases(self._table)
            known = {name.lower() for name in self.context.schema.names}
            if any(name.lower() not in known for name in self._table.fields.names):
                present = schema_of(self._table.database, options)
                self.context.check_new_columns(present, where=self._table.name)
        return self._table

    def _check_cases(self, table: CursorTable) -> None:
        """Refuse columns that cannot be added, because their names differ from others only in case."""
        if (self.context.options.get("schemaEvolutionMode") or "none") == "none":
            return
        names: dict[str, str] = {}
        for name in table.fields.names:
            other = names.setdefault(name.lower(), name)
            if other != name:
                raise OptionError(
                    f"{table.name} has the columns {other} and {name}, which Spark takes for one, so option "
                    "schemaEvolutionMode cannot add both",
                    remedy="rename one of them; or set schemaEvolutionMode to none, and give a schema",
                )

    def _batches(self, table: CursorTable, split: SqlSplit) -> Iterator[pa.RecordBatch]:
        schema, database = self.context.schema, table.database
        sources = [self._source(table, field.name) for field in schema]
        if isinstance(database, SqlAlchemyDatabase):
            # Only columns that are wanted as text are selected as text.
            sources = [
                source if pa.types.is_string(field.type) else source.with_type(field.type)
                for source, field in zip(sources, schema, strict=True)
            ]
        select = [
            selected(source, field.type, database.dialect)
            for source, field in zip(sources, schema, strict=True)
        ]
        sql = table.query(split.after, split.upto, select)
        if isinstance(database, SqlAlchemyDatabase):
            blocks = (list(zip(*block, strict=True)) for block in database.blocks(sql))
        else:
            # The rows are counted again, because rows with the last cursor may have made the range larger.
            is_sqlite = database.dialect.name == "sqlite"
            rows = table.count(split.after, split.upto) if is_sqlite else split.rows
            blocks = (batch.columns for batch in database.batches(sql, first_rows=rows))
        with closing(blocks):  # before the connection, also after an error
            for columns in blocks:
                arrays = [self._array(table, *pair) for pair in zip(schema, columns, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    def _source(self, table: CursorTable, name: str) -> pa.Field:
        """The table's column for a column of the DataFrame."""
        field = table.field(name)
        if field is None:
            raise _no_access(
                f"{table.name} has no column {name!r}; it has {', '.join(table.fields.names)}",
                "if the column was dropped or renamed, give a schema without it with .schema(...), or "
                "select it with option query",
            )
        return field

    def _array(self, table: CursorTable, field: pa.Field, values: pa.Array | Sequence[Any]) -> pa.Array:
        try:
            column = values if isinstance(values, pa.Array) else array_of(list(values), field.type)
            return converted(column, field.type, self.context.time_zone)
        except (ValueError, TypeError, pa.ArrowException) as error:
            other = "binary" if pa.types.is_string(field.type) else "string"
            raise SplitReadError(
                f"column {field.name} of {table.name} has a value that does not fit the type {field.type}: "
                f"{str(error)[:200]}",
                remedy=f"give the column a type that fits in .schema(...), such as {other}",
            ) from None


def _no_access(what: str, remedy: str | None) -> AccessError:
    return AccessError(what, remedy=f"{remedy}; nothing was quarantined or lost")


def _named(split: SqlSplit) -> str:
    start = "from the start" if split.after is None else f"after {split.after}"
    return f"{start} up to {split.upto}"
