"""The columns of the DataFrame: those of the table, then those of the change."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.enumerators.mysql.connection import Connection
from flip27_source.enumerators.mysql.options import CHANGE_FORMAT, DATABASE, TABLES
from flip27_source.enumerators.mysql.server import CatalogTable, find_tables
from flip27_source.enumerators.tables_with_log.schema import schema_of_all, with_change
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
    return schema_of_all([(one.table, typed_schema(one)) for one in tables])


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
    return with_change(table.table, columns, of_change)
