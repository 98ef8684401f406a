"""The columns of the DataFrame: those of the table, then those of the change."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.enumerators.postgres.catalog import CatalogTable, columns_of, find_tables
from flip27_source.enumerators.postgres.column_types import arrow_type
from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.options import CHANGE_FORMAT, TABLES
from flip27_source.errors import SchemaError
from flip27_source.options import Options

OP, BEFORE, UNCHANGED, TABLE = "_op", "_before", "_unchanged", "_table"
LSN, SEQ, XID, COMMITTED_AT = "_lsn", "_seq", "_xid", "_committed_at"

_POSITION = (
    pa.field(LSN, pa.int64(), nullable=False),
    pa.field(SEQ, pa.int64(), nullable=False),
    pa.field(XID, pa.int64()),
    pa.field(COMMITTED_AT, pa.timestamp("us", "UTC")),
)
ENVELOPE_SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("unchanged", pa.list_(pa.string())),
        *_POSITION,
    ]
)
DEBEZIUM_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("value", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        *_POSITION,
    ]
)


def change_schema(connection: Connection, options: Options) -> pa.Schema:
    """The columns for the format that the options choose."""
    if options[CHANGE_FORMAT] == "envelope":
        return ENVELOPE_SCHEMA
    if options[CHANGE_FORMAT] == "debezium":
        return DEBEZIUM_SCHEMA
    patterns = options.require(TABLES, why="the postgres source reads tables")
    tables = find_tables(connection, patterns)
    schemas = [typed_schema(connection, table) for table in tables]
    for table, schema in zip(tables, schemas, strict=True):
        if schema != schemas[0]:
            raise SchemaError(
                f"tables {tables[0].table} and {table.table} have different columns",
                remedy="set changeFormat=envelope for tables with different columns, or read each in a "
                "separate query",
            )
    return schemas[0]


def typed_schema(connection: Connection, table: CatalogTable) -> pa.Schema:
    """The columns of one table and of its changes."""
    columns = [
        pa.field(column.name, arrow_type(column.type)) for column in columns_of(connection, table.table.oid)
    ]
    old = (
        columns
        if table.replica_identity == "f"
        else [field for field in columns if field.name in table.identity]
    )
    # A struct needs a field: a table without an identity has inserts only, so its struct is always null.
    before = pa.struct(old or columns)
    schema = pa.schema(
        [
            *columns,
            pa.field(OP, pa.string(), nullable=False),
            pa.field(BEFORE, before),
            pa.field(UNCHANGED, pa.list_(pa.string())),
            *_POSITION,
            pa.field(TABLE, pa.string(), nullable=False),
        ]
    )
    names: dict[str, str] = {}
    for number, name in enumerate(schema.names):
        if name.lower() in names:
            other = name if number < len(columns) else f"the column {name} of its changes"
            raise SchemaError(
                f"table {table.table} has a column {names[name.lower()]}, which a DataFrame cannot have "
                f"together with {other}",
                remedy="set changeFormat=envelope, or rename the column of the table",
            )
        names[name.lower()] = name
    return schema
