"""Cuts tables into chunks by the integers at the beginning of their primary key."""

from __future__ import annotations

from collections.abc import Sequence

from flip27_source.enumerators.mysql.connection import Connection, rows_of
from flip27_source.enumerators.mysql.split import TableName
from flip27_source.enumerators.mysql.table_patterns import quoted
from flip27_source.snapshot_then_log.tables import Key

Uncut = tuple[TableName, tuple[str, ...], Key | None]
"""A table, the columns by which it is cut, and its last known bound."""


def next_bound(
    connection: Connection, table: TableName, key: Sequence[str], lower: Key | None, *, rows: int
) -> Key | None:
    """The key ``rows`` rows after ``lower`` (None: after the first key); None if there are not enough rows.

    Rows that agree in all of these columns belong to one chunk.
    """
    names = ", ".join(map(quoted, key))

    def first_key(condition: str, skipped: int) -> Key | None:
        sql = f"SELECT {names} FROM {quoted(table.schema, table.name)} WHERE {condition} ORDER BY {names}"
        found = rows_of(connection, f"{sql} LIMIT {skipped}, 1")
        return tuple(map(str, found[0])) if found else None

    bound = first_key("TRUE" if lower is None else at_least(key, lower), rows)
    if bound is None or bound != lower:
        return bound
    # More rows than a chunk has agree in these columns: the next chunk begins after them.
    return first_key(f"({at_least(key, bound)}) AND NOT ({' AND '.join(_equal(key, bound))})", 0)


def key_range(key: Sequence[str], lower: Key | None, upper: Key | None) -> str:
    """The rows of a chunk, as a condition of SQL; empty if the table is one chunk."""
    conditions = [] if lower is None else [f"({at_least(key, lower)})"]
    conditions += [] if upper is None else [f"NOT ({at_least(key, upper)})"]
    return " AND ".join(conditions)


def at_least(key: Sequence[str], bound: Key) -> str:
    """That a key is at least a bound; unlike ``(a, b) >= (1, 2)``, this uses the index of the key."""
    equal, last = _equal(key, bound), len(key) - 1
    after = [f"{quoted(name)} {'>=' if i == last else '>'} {int(bound[i])}" for i, name in enumerate(key)]
    return " OR ".join(f"({' AND '.join([*equal[:i], one])})" for i, one in enumerate(after))


def _equal(key: Sequence[str], bound: Key) -> list[str]:
    return [f"{quoted(name)} = {int(value)}" for name, value in zip(key, bound, strict=True)]
