"""The columns of the DataFrame: those of the table, then those of the change."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.enumerators.mysql.connection import Connection
from flip27_source.enumerators.mysql.options import CHANGE_FORMAT, DATABASE, TABLES
from flip27_source.enumerators.mysql.server import CatalogTable, find_tables
from flip27_source.errors import SchemaError
from flip27_source.options import Options

OP, BEFORE, TABLE, POS, SEQ = "_op", "_before", "_table", "_pos", "_seq"
GTID, COMMITTED_AT = "_gtid", "_committed_at"
CHANGE_COLUMNS = frozenset({OP, BEFORE, TABLE, POS, SEQ, GTID, COMMITTED_AT})

_POSITION = (
    pa.field(POS, pa.int64(), nullable=False),
    pa.field(SEQ, pa.int64(), nullable=False),
    pa.field(GTID, pa.string()),
    pa.field(COMMITTED_AT, pa.timestamp("us", "UTC")),
)
ENVELOPE_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        *_POSITION,
    ]
)


def change_schema(connection: Connection, options: Options) -> pa.Schema:
    """The columns for the format that the options choose."""
    if options[CHANGE_FORMAT] == "envelope":
        return ENVELOPE_SCHEMA
    patterns = options.require(TABLES, why="the mysql source reads tables")
    tables = find_tables(connection, patterns, database=options[DATABASE])
    if not tables:
        raise SchemaError("no table has a name of option tables", remedy='give the columns: .schema("...")')
    schemas = [typed_schema(table) for table in tables]
    for table, schema in zip(tables, schemas, strict=True):
        if schema != schemas[0]:
            raise SchemaError(
                f"tables {tables[0].table} and {table.table} have different columns",
                remedy="set changeFormat=envelope for tables with different columns, or read each in a "
                "separate query",
            )
    return schemas[0]


def typed_schema(table: CatalogTable) -> pa.Schema:
    """The columns of one table and of its changes."""
    columns = []
    for name, kind in table.columns.items():
        if kind.arrow is None:
            raise SchemaError(
                f"table {table.table} has the column {name} of the type {kind.name}, which the mysql source "
                "does not read",
                remedy='leave the column out: add .schema("...") with the columns to read',
            )
        columns.append(pa.field(name, kind.arrow))
    of_change = [
        pa.field(OP, pa.string(), nullable=False),
        pa.field(BEFORE, pa.struct(columns)),
        *_POSITION,
        pa.field(TABLE, pa.string(), nullable=False),
    ]
    known = {field.name for field in of_change}
    for name in table.columns:
        if name.lower() in known:
            raise SchemaError(
                f"table {table.table} has the column {name}, which a DataFrame cannot have together with the "
                "column of the change",
                remedy='leave it out: add .schema("...") with the columns to read; or set '
                "changeFormat=envelope, whose rows are JSON",
            )
    return pa.schema([*columns, *of_change])
