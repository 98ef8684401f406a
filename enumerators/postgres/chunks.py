"""How a table is cut into chunks: the SQL of a range of its key, and the walk that finds the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flip27_source.enumerators.postgres.catalog import own_rows
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from flip27_source.enumerators.postgres.table_patterns import quoted_with_parameters

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection


def key_range(
    key: Sequence[KeyColumn], lower: Sequence[str] | None, upper: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Conditions for keys of ``[lower, upper)``, and their parameters.

    The comparison is that of the key's index, whatever its types and collations are.
    """
    names = f"({', '.join(quoted_with_parameters(column.name) for column in key)})"
    values = f"({', '.join(f'%s::text::{column.type}' for column in key)})"
    conditions: list[str] = []
    parameters: list[str] = []
    for sign, bound in ((">=", lower), ("<", upper)):
        if bound is not None:
            conditions.append(f"{names} {sign} {values}".replace("%s::text", "CAST(%s AS text)"))
            parameters += bound
    return conditions, parameters


def where(conditions: Sequence[str], filter_sql: str | None) -> str:
    """The WHERE clause of these conditions and of the user's own; empty if there are none."""
    every = [*conditions, *([] if filter_sql is None else [f"({filter_sql.replace('%', '%%')}\n)"])]
    return f" WHERE {' AND '.join(every)}" if every else ""


def next_bound(
    connection: Connection,
    table: TableName,
    key: Sequence[KeyColumn],
    lower: Sequence[str] | None,
    *,
    rows: int,
    filter_sql: str | None,
) -> tuple[str, ...] | None:
    """The key that comes ``rows`` rows after ``lower`` (None: the first); None if there are not as many rows.

    It walks the index of the key, so all chunks together cost one pass over the index.
    """
    conditions, parameters = key_range(key, lower, None)
    columns = ", ".join(f"t.{quoted_with_parameters(column.name)}::text" for column in key)
    # With the table's name in front: a bare name would mean the text that is selected, and its order.
    order = ", ".join(f"t.{quoted_with_parameters(column.name)}" for column in key)
    sql = (
        f"SELECT {columns} FROM {own_rows(connection, table)} "
        f"t{where(conditions, filter_sql)} "
        f"ORDER BY {order} OFFSET {rows} LIMIT 1"
    )
    found = connection.execute(sql, parameters).fetchone()
    return None if found is None else tuple(found)
