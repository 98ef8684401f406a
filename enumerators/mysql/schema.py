"""The columns of the DataFrame: those of the table, then those of the change."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from flip27_source.enumerators.mysql.column_types import UNREAD_CHARSETS
from flip27_source.enumerators.mysql.connection import Connection
from flip27_source.enumerators.mysql.errors import left_out
from flip27_source.enumerators.mysql.options import CHANGE_FORMAT, ON_SCHEMA_CHANGE
from flip27_source.enumerators.mysql.server import CatalogTable, find_tables, named_tables
from flip27_source.enumerators.tables_with_log import schema as shared
from flip27_source.errors import SchemaError
from flip27_source.options import Options

OP, BEFORE, TABLE, POS, GTID = "_op", "_before", "_table", "_pos", "_gtid"
CHANGE_COLUMNS = frozenset({OP, BEFORE, TABLE, POS, shared.SEQ, GTID, shared.COMMITTED_AT})

_POSITION = shared.position_fields(POS, pa.field(GTID, pa.string()))
ENVELOPE_SCHEMA = pa.schema([*shared.ENVELOPE_FIELDS, *_POSITION])


def change_schema(connection: Connection, options: Options) -> pa.Schema:
    """The columns for the format that the options choose."""
    if options[CHANGE_FORMAT] == "envelope":
        return ENVELOPE_SCHEMA
    tables = find_tables(connection, named_tables(connection, options))
    if not tables:
        raise SchemaError("no table has a name of option tables", remedy='give the columns: .schema("...")')
    return shared.schema_of_all([(one.table, schema_of(one, "typed")) for one in tables])


def check_types(table: CatalogTable, wanted: Collection[str], *, change_format: str) -> None:
    """Refuse columns that are wanted, and that the source does not read."""
    for name, kind in table.columns.items():
        if name not in wanted or kind.unread is None:
            continue
        remedy = (
            'leave the column out: add .schema("...") with the columns to read; or, if the column is new, '
            "set onSchemaChange=ignore"
        )
        if change_format == "envelope":
            remedy = f"set changeFormat=typed with a schema without the column; or {left_out(table.table)}"
        if kind.charset in UNREAD_CHARSETS:
            remedy = f"ALTER TABLE {table.table} CONVERT TO CHARACTER SET utf8mb4; or {remedy}"
        raise SchemaError(
            f"table {table.table} has the column {name} {kind.unread}, which the mysql source does not read",
            remedy=remedy,
        )


def has_all_columns(options: Options) -> bool:
    """Whether rows have all columns of their table, also those that it gets later."""
    return options[CHANGE_FORMAT] == "envelope" or (
        shared.is_inferred(options) and options[ON_SCHEMA_CHANGE] != "ignore"
    )


def schema_of(table: CatalogTable, change_format: str) -> pa.Schema:
    """The columns of one table and of its changes."""
    check_types(table, table.columns, change_format=change_format)
    if change_format == "envelope":
        return ENVELOPE_SCHEMA
    columns = [pa.field(name, kind.arrow) for name, kind in table.columns.items()]
    return shared.with_change(table.table, columns, columns, _POSITION)
