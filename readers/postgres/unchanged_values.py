"""Reads from the table the large values that are not in the log, because an update did not change them.

The table may have a newer value by then, or may not have the row: then the log has a later change of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    """The changes, with the table's current values for these rows; changes of deleted rows stay unchanged."""
    relation = changes.relation
    columns = [
        number for number, mask in enumerate(changes.unchanged) if mask is not None and (mask & rows).any()
    ]
    places = np.flatnonzero(rows)
    keys = [pc.cast(changes.after[column].take(pa.array(places)), pa.string()).to_pylist() for column in key]
    found = dict(_read(connection, relation, key, columns, keys))
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


def _read(
    connection: Connection,
    relation: Relation,
    key: Sequence[int],
    columns: Sequence[int],
    keys: Sequence[Sequence[str | None]],
) -> list[tuple[int, tuple[str | None, ...]]]:
    """The place of each key that exists in the table, and the texts of its row's columns."""
    types = connection.execute(
        "SELECT format_type(oid, modifier) FROM unnest(%s::bigint[]::oid[], %s::int[]) WITH ORDINALITY "
        "t(oid, modifier, place) ORDER BY place",
        [
            [relation.columns[column].type_oid for column in key],
            [relation.columns[column].type_modifier for column in key],
        ],
    ).fetchall()
    names = [quoted_with_parameters(relation.columns[column].name) for column in key]
    parts = range(len(key))
    listed = ", ".join(f"{quoted_with_parameters(relation.columns[column].name)}::text" for column in columns)
    same = " AND ".join(
        f"x.{name} = CAST(t.c{i} AS {kind})" for i, name, (kind,) in zip(parts, names, types, strict=True)
    )
    sql = (
        f"SELECT t.place - 1, {listed} FROM unnest({', '.join('%s::text[]' for _ in parts)}) WITH ORDINALITY "
        f"AS t({', '.join(f'c{i}' for i in parts)}, place) JOIN "
        f"{quoted_with_parameters(relation.schema, relation.name)} x ON {same}"
    )
    return [(row[0], tuple(row[1:])) for row in connection.execute(sql, list(keys))]
