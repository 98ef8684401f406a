"""How a table is cut into chunks: the SQL of a range of its key, and how the bounds are found.

A table without a key is cut by the physical locations of its rows (ctid) if all chunks are read in one
snapshot: a row that is updated in the meantime stays where the snapshot sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from flip27_source.enumerators.postgres.catalog import (
    own_rows,
    present_columns,
    present_key,
    renamed_label,
    table_of,
)
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection, row_of
from flip27_source.enumerators.postgres.split import KeyColumn, TableName
from flip27_source.enumerators.postgres.table_patterns import quoted_with_parameters, with_parameters
from flip27_source.errors import DiscoveryError
from flip27_source.snapshot_then_log.tables import Cut, Key

CTID = KeyColumn(name="ctid", type="tid")
"""The physical location of a row in its table: a block, and a number in the block."""

Uncut = tuple[TableName, tuple[KeyColumn, ...], Key | None]
"""A table of which bounds are missing, its key, and its last bound."""

_SAME_ORDER = {"smallint": "integer", "bigint": "integer", "character varying": "text"}
_SAME_ORDER |= {"character": "bpchar", '"bit"': "bit"}
_ROWS_PER_BLOCK = 80
"""Assumed for a table that was never analysed."""

# A chunk has the blocks with the same numbers of every partition.
_BLOCKS = """
SELECT coalesce(max(pg_relation_size(c.oid)) / current_setting('block_size')::int, 0)::bigint,
       sum(greatest(c.reltuples, 0))::bigint, sum(c.relpages)::bigint,
       count(*) FILTER (WHERE c.relkind = 'r'), count(*)
FROM pg_class c
WHERE c.relkind <> 'p' AND (
    c.oid = %(oid)s::bigint::oid
    OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s::bigint::oid::regclass)))
"""


def key_range(
    key: Sequence[KeyColumn], lower: Sequence[str] | None, upper: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """SQL conditions for the keys in ``[lower, upper)``, and their parameters.

    They compare keys as the key's index does, whatever its types and collations are.
    """
    names = f"({', '.join(quoted_with_parameters(column.name) for column in key)})"
    values = f"({', '.join(f'CAST(%s AS text)::{with_parameters(column.type)}' for column in key)})"
    conditions: list[str] = []
    parameters: list[str] = []
    for sign, bound in ((">=", lower), ("<", upper)):
        if bound is not None:
            conditions.append(f"{names} {sign} {values}")
            parameters += bound
    return conditions, parameters


def altered_key(connection: Connection, table: TableName, key: Sequence[KeyColumn]) -> str | None:
    """Why values of the key may have another order than those by which the table was cut into chunks."""
    if key == (CTID,):
        return None
    renamed = renamed_label(connection, key)
    if renamed is not None:
        return f"table {table}: {renamed}"
    present = present_columns(connection, table.oid, [column.name for column in key])
    for column in key:
        now = present.get(column.name)
        order, before = "missing" if now is None else _order(now), _order(column)
        if order != before:
            return (
                f"the column {column.name} of table {table} was {before} when the table was cut into chunks, "
                f"and is {order} now"
            )
    return None


def _order(column: KeyColumn) -> str:
    """What gives the values of a column their order; a state of an older release has lengths of types."""
    kind = re.sub(r"\(.*?\)", "", column.type)
    return _SAME_ORDER.get(kind, kind) + (f" COLLATE {column.collation}" if column.collation else "")


def where(conditions: Sequence[str], filter_sql: str | None) -> str:
    """The WHERE clause for these conditions and the user's condition; empty if there are none."""
    every = [*conditions, *([] if filter_sql is None else [f"({with_parameters(filter_sql)}\n)"])]
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
    """The key ``rows`` rows after ``lower`` (None: after the first key); None if there are not enough rows.

    The query walks the index of the key, so all chunks together cost one pass over the index.
    """
    conditions, parameters = key_range(key, lower, None)
    # Without an alias, because the user's condition may contain the table's name.
    names = [quoted_with_parameters(table.schema, table.name, column.name) for column in key]
    columns = ", ".join(f"{name}::text" for name in names)
    # Qualified, because a bare name would mean the selected text, which has another order.
    sql = (
        f"SELECT {columns} FROM {own_rows(connection, table)}{where(conditions, filter_sql)} "
        f"ORDER BY {', '.join(names)} OFFSET {rows} LIMIT 1"
    )
    bound = connection.execute(sql, parameters).fetchone()
    return None if bound is None else tuple(bound)


def block_bounds(connection: Connection, table: TableName, *, rows: int) -> tuple[tuple[str, ...], ...]:
    """The row locations that cut a table into chunks of about ``rows`` rows."""
    blocks, known_rows, known_blocks, heaps, parts = row_of(connection, _BLOCKS, {"oid": table.oid})
    if not blocks or heaps < parts:
        return ()  # a partition on another server has no blocks
    per_block = known_rows / known_blocks if known_rows and known_blocks else _ROWS_PER_BLOCK
    step = max(1, int(rows / (per_block * parts)))
    return tuple((f"({block},0)",) for block in range(step, blocks, step))


def cuts(
    connection: Connection,
    tables: Iterable[Uncut],
    *,
    rows: int,
    filter_sql: str | None,
    has_time: Callable[[], bool],
) -> Iterator[Cut]:
    """The next bounds of the tables, as long as there is time; each chunk has ``rows`` rows.

    A table for which no time is left has no cut: whether bounds follow is not known.

    Raises:
        DiscoveryError: the key of a table was altered since the first bounds were found.
    """
    for table, stored, lower in tables:
        key = present_key(connection, stored)
        if key == (CTID,):
            places = tuple((bound, rows) for bound in block_bounds(connection, table, rows=rows))
            yield Cut(table_id=table.oid, lower=lower, bounds=places, is_end=True)
            continue
        present = table_of(connection, table.oid)
        if present is None:
            yield Cut(table_id=table.oid, lower=lower, bounds=(), is_end=True)
            continue
        altered = altered_key(connection, present, key)
        if altered is not None:
            raise DiscoveryError(altered, remedy=f"{START_AGAIN}; or leave the table out with option tables")
        after = partial(next_bound, connection, present, key, rows=rows, filter_sql=filter_sql)
        found = Cut.after(table.oid, lower, rows=rows, next_bound=after, has_time=has_time)
        if found is not None:
            yield found
