"""The columns of a table or query as a schema of Spark, if the user gives none."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Any

import pyarrow as pa

from flip27_source.enumerators.sql.adbc import AdbcDatabase
from flip27_source.enumerators.sql.options import TABLE
from flip27_source.enumerators.sql.queries import probe, relation_of
from flip27_source.enumerators.sql.sqlalchemy_rows import SqlAlchemyDatabase
from flip27_source.options import Options
from flip27_source.readers.sql.column_types import UTC_TIMESTAMP, affinity, spark_type

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
    fields = database.fields(probe(relation, database.dialect))
    return pa.schema([pa.field(field.name, spark_type(field)) for field in fields])


def _of_sqlite(database: AdbcDatabase, relation: str, table: str | None) -> pa.Schema:
    """The columns with their declared types, if these imply one, otherwise with the types of the first rows.

    SQLite accepts values of any type in any column.
    """
    declared = {}
    if table is not None:
        plain = re.sub(r'^["`\[]|["`\]]$', "", table.rpartition(".")[2]).replace("'", "''")
        _, rows = database.rows(f"SELECT name, type FROM pragma_table_info('{plain}')")
        declared = {name: affinity(kind) for name, kind in rows}
    batches = database.batches(f"SELECT * FROM {relation} LIMIT {_SAMPLE_ROWS}", first_rows=_SAMPLE_ROWS)
    sample = next(batches, None)
    fields = database.fields(probe(relation, database.dialect)) if sample is None else sample.schema
    return pa.schema([(field.name, declared.get(field.name) or spark_type(field)) for field in fields])


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
    schema, _, name = table.rpartition(".")
    kinds = {}
    for column in database.columns(re.sub(r'["`\[\]]', "", name), re.sub(r'["`\[\]]', "", schema) or None):
        kind = _of_declared(column["type"])
        if kind is not None:
            kinds[column["name"]] = kind
    return kinds


def _of_declared(kind: Any) -> pa.DataType | None:
    try:
        of_python = kind.python_type
    except NotImplementedError:
        return None
    if of_python is decimal.Decimal:
        precision, scale = kind.precision, kind.scale
        if precision is None or not 0 <= (scale or 0) <= precision <= 38:
            return pa.string()
        return pa.decimal128(precision, scale or 0)
    if of_python is dt.datetime and getattr(kind, "timezone", False):
        return UTC_TIMESTAMP
    # The values of an array show its type; everything else is text.
    return None if of_python is list else _OF_PYTHON.get(of_python, pa.string())


def _of_values(values: tuple[Any, ...]) -> pa.DataType:
    """The type of some values. JSON objects and decimals are text: other decimals may have more digits."""
    try:
        kind = pa.array(values).type
    except pa.ArrowException:
        return pa.string()
    if pa.types.is_decimal(kind) or "struct" in str(kind):
        return pa.string()
    return spark_type(pa.field("value", kind))
