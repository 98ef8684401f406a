"""Reads from the table the large values that are not in the log, because an update did not change them.

The table may have a newer value by then, or may not have the row: then the log has a later change of the row.
The table is found by its oid, as it may have another name by then. A column that it no longer has with the
log's name and type is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.catalog import current_columns, own_rows, table_of
from flip27_source.enumerators.postgres.table_patterns import quoted_with_parameters
from flip27_source.readers.postgres.delivered_changes import CREATE, Bools, DeliveredChanges
from flip27_source.readers.postgres.relations import Relation

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection


def rows_to_read(changes: DeliveredChanges, *, reads_all: bool) -> Bools:
    """True for the changes with missing values that are to be read from the table.

    An update that gives a row another key is delivered as a delete and an insert, and the values of the
    insert are always read. The row with the old key, which has these values, may not have been delivered:
    its chunk may have been read after the update.
    """
    masks = [mask for mask in changes.unchanged if mask is not None]
    if not masks:
        return np.zeros(len(changes), dtype=np.bool_)
    lacking: Bools = np.logical_or.reduce(masks)
    return lacking if reads_all else lacking & (changes.op == CREATE)


def with_values_read(
    connection: Connection, changes: DeliveredChanges, *, key: Sequence[int], rows: Bools
) -> DeliveredChanges:
    """The changes, with the table's current values for these rows.

    A change whose row or column the table no longer has stays as it is.
    """
    relation = changes.relation
    types = _current_types(connection, relation)
    columns = [
        number
        for number, mask in enumerate(changes.unchanged)
        if mask is not None and number in types and (mask & rows).any()
    ]
    table = table_of(connection, relation.oid)
    if table is None or not columns or not types.keys() >= set(key):
        return changes
    places = np.flatnonzero(rows)
    keys = [pc.cast(changes.after[column].take(pa.array(places)), pa.string()).to_pylist() for column in key]
    typed_key = [(relation.columns[column].name, types[column]) for column in key]
    names = [relation.columns[column].name for column in columns]
    found = dict(_read(connection, own_rows(connection, table), typed_key, names, keys))
    after, unchanged = list(changes.after), list(changes.unchanged)
    for at, column in enumerate(columns):
        mask = unchanged[column]
        assert mask is not None
        filled = mask.copy()
        values: list[bytes | None] = [None] * len(changes)
        for place, row in enumerate(places.tolist()):
            if filled[row] and place in found:
                text = found[place][at]
                values[row] = None if text is None else text.encode()
                filled[row] = False
        is_read = mask & ~filled
        after[column] = pc.if_else(pa.array(is_read), pa.array(values, pa.binary()), after[column])
        unchanged[column] = filled
    return replace(changes, after=after, unchanged=unchanged)


def _current_types(connection: Connection, relation: Relation) -> dict[int, str]:
    """SQL for the types of the relation's columns that the table still has, by their indexes."""
    current = current_columns(connection, relation.oid)
    return {
        number: current[column.name].type
        for number, column in enumerate(relation.columns)
        if column.name in current and current[column.name].type_oid == column.type_oid
    }


def _read(
    connection: Connection,
    table: str,
    key: Sequence[tuple[str, str]],
    columns: Sequence[str],
    keys: Sequence[Sequence[str | None]],
) -> list[tuple[int, tuple[str | None, ...]]]:
    """The place of each key that exists in the table, and the texts of its row's columns.

    Args:
        table: SQL for the table.
        key: the names of the key's columns, and SQL for their types.
        keys: the texts of the keys, one list for each column of the key.
    """
    parts = range(len(key))
    listed = ", ".join(f"x.{quoted_with_parameters(column)}::text" for column in columns)
    same = " AND ".join(
        f"x.{quoted_with_parameters(name)} = CAST(t.c{i} AS {kind})" for i, (name, kind) in enumerate(key)
    )
    sql = (
        f"SELECT t.place - 1, {listed} FROM unnest({', '.join('%s::text[]' for _ in parts)}) WITH ORDINALITY "
        f"AS t({', '.join(f'c{i}' for i in parts)}, place) JOIN {table} x ON {same}"
    )
    return [(row[0], tuple(row[1:])) for row in connection.execute(sql, list(keys))]
