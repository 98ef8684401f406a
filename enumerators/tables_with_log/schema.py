"""Which columns rows of changes have: what does not depend on the server. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.options import Options

SEQ, COMMITTED_AT = "_seq", "_committed_at"
ENVELOPE_FIELDS = (
    pa.field("table", pa.string(), nullable=False),
    pa.field("op", pa.string(), nullable=False),
    *(pa.field(name, pa.string()) for name in ("key", "before", "after")),
)
"""The columns of ``changeFormat=envelope`` that do not depend on the server."""


def position_fields(position: str, transaction: pa.Field) -> tuple[pa.Field, ...]:
    """The columns that order changes, and those of their transactions.

    Args:
        position: the name of the position in the log.
        transaction: the id of the transaction.
    """
    return (
        pa.field(position, pa.int64(), nullable=False),
        pa.field(SEQ, pa.int64(), nullable=False),
        transaction,
        pa.field(COMMITTED_AT, pa.timestamp("us", "UTC")),
    )


def is_inferred(options: Options) -> bool:
    """Whether the schema is that of the tables, and not the user's, which may have only some columns."""
    return options.get("schemaEvolutionMode") in ("addNewColumns", "failOnNewColumns")


def schema_of_all(tables: Sequence[tuple[object, pa.Schema]]) -> pa.Schema:
    """The schema of all of these tables, which has to be the same; of each its name and its schema."""
    (first, schema), *others = tables
    for table, other in others:
        if other != schema:
            raise SchemaError(
                f"tables {first} and {table} have different columns",
                remedy="set changeFormat=envelope for tables with different columns, or read each in a "
                "separate query",
            )
    return schema


def with_change(
    table: object, columns: Sequence[pa.Field], before: Sequence[pa.Field], of_server: Sequence[pa.Field]
) -> pa.Schema:
    """The columns of a table, then those of the change; a DataFrame ignores the case of their names.

    Args:
        before: the columns of the row before the change.
        of_server: the columns of the change that depend on the server.
    """
    of_change = [
        pa.field("_op", pa.string(), nullable=False),
        pa.field("_before", pa.struct(before)),
        *of_server,
        pa.field("_table", pa.string(), nullable=False),
    ]
    known = {field.name: f"the column {field.name} of the change" for field in of_change}
    for field in columns:
        other = known.setdefault(field.name.lower(), f"its column {field.name}")
        if other != f"its column {field.name}":
            raise SchemaError(
                f"table {table} has the column {field.name}, which a DataFrame cannot have together with "
                f"{other}",
                remedy='rename the column, or leave it out: add .schema("...") with the columns to read; or '
                "set changeFormat=envelope, whose rows are JSON",
            )
    return pa.schema([*columns, *of_change])
