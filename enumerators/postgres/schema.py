"""The columns of the DataFrame: those of the table, then those of the change."""

from __future__ import annotations

import pyarrow as pa

from flip27_source.enumerators.postgres.catalog import CatalogTable, columns_of, find_tables
from flip27_source.enumerators.postgres.column_types import arrow_type
from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.options import CHANGE_FORMAT, TABLES
from flip27_source.enumerators.tables_with_log.schema import (
    COMMITTED_AT,
    ENVELOPE_FIELDS,
    SEQ,
    position_fields,
    schema_of_all,
    with_change,
)
from flip27_source.options import Options

OP, BEFORE, UNCHANGED, TABLE = "_op", "_before", "_unchanged", "_table"
LSN, XID = "_lsn", "_xid"
CHANGE_COLUMNS = frozenset({OP, BEFORE, UNCHANGED, TABLE, LSN, SEQ, XID, COMMITTED_AT})

_POSITION = position_fields(LSN, pa.field(XID, pa.int64()))
ENVELOPE_SCHEMA = pa.schema([*ENVELOPE_FIELDS, pa.field("unchanged", pa.list_(pa.string())), *_POSITION])
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
    return schema_of_all([(one.table, typed_schema(connection, one)) for one in tables])


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
    unchanged = pa.field(UNCHANGED, pa.list_(pa.string()))
    return with_change(table.table, columns, old or columns, [unchanged, *_POSITION])
