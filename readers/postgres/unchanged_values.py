"""Reads from the table the large values that are not in the log, because an update did not change them.

The table may have a newer value by then, or may not have the row: then the log has a later change of the row.
The table is found by its oid, as it may have another name by then. A column that it no longer has with the
log's name and type is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.catalog import CurrentColumn, current_columns, own_rows, table_of
from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.table_patterns import quoted_with_parameters
from flip27_source.readers.postgres.delivered_changes import CREATE, DeliveredChanges
from flip27_source.readers.postgres.message_blocks import Bools, Int64s
from flip27_source.readers.postgres.relations import Relation

PART_BYTES = 8 << 20
"""The size of the values that are read at once; a value that is longer is read alone."""


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
) -> Iterator[DeliveredChanges]:
    """The changes in parts, with the table's current values for these rows.

    The values of a part have about :data:`PART_BYTES`: those of all changes may not fit into memory. A change
    whose row or column the table no longer has stays as it is.
    """
    for start, stop in _parts(connection, changes, key, rows):
        part = changes.take(np.arange(start, stop))
        yield _with_values(connection, part, key=key, rows=rows[start:stop])


def _parts(
    connection: Connection, changes: DeliveredChanges, key: Sequence[int], rows: Bools
) -> list[tuple[int, int]]:
    """The first change of each part, and the one after its last."""
    readable = _Readable.of(connection, changes, key, rows)
    sizes = np.zeros(len(changes), np.int64)
    if readable is not None and len(readable.places) > 1:
        for place, size in readable.query(connection, [f"({' + '.join(map(_size, readable.names))})"]):
            sizes[readable.places[place]] = size
    starts, total = [0], 0
    for row, size in enumerate(sizes.tolist()):
        if total and total + size > PART_BYTES:
            starts.append(row)
            total = 0
        total += size
    return list(pairwise([*starts, len(changes)]))


def _with_values(
    connection: Connection, changes: DeliveredChanges, *, key: Sequence[int], rows: Bools
) -> DeliveredChanges:
    readable = _Readable.of(connection, changes, key, rows)
    if readable is None:
        return changes
    current = {place: texts for place, *texts in readable.query(connection, map(_text, readable.names))}
    after, unchanged = list(changes.after), list(changes.unchanged)
    for at, column in enumerate(readable.columns):
        mask = unchanged[column]
        assert mask is not None
        filled = mask.copy()
        values: list[bytes | None] = [None] * len(changes)
        for place, row in enumerate(readable.places.tolist()):
            if filled[row] and place in current:
                text = current[place][at]
                values[row] = None if text is None else text.encode()
                filled[row] = False
        is_read = mask & ~filled
        after[column] = pc.if_else(pa.array(is_read), pa.array(values, pa.binary()), after[column])
        unchanged[column] = filled
    return replace(changes, after=after, unchanged=unchanged)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readable:
    """The values that the table still has.

    Attributes:
        table: SQL for the table.
        columns, names: the columns to read, as indexes and as names.
        key: the names of the key's columns, and the columns.
        places: the rows to read, as indexes of the changes.
        keys: the texts of their keys, one list for each column of the key.
    """

    table: str
    columns: Sequence[int]
    names: Sequence[str]
    key: Sequence[tuple[str, CurrentColumn]]
    places: Int64s
    keys: Sequence[Sequence[str | None]]

    @classmethod
    def of(
        cls, connection: Connection, changes: DeliveredChanges, key: Sequence[int], rows: Bools
    ) -> _Readable | None:
        """The missing values of these rows; None if none can be read."""
        relation = changes.relation
        current = _current_columns(connection, relation)
        columns = [
            number
            for number, mask in enumerate(changes.unchanged)
            if mask is not None and number in current and (mask & rows).any()
        ]
        table = table_of(connection, relation.oid)
        if table is None or not columns or not current.keys() >= set(key):
            return None
        places = np.flatnonzero(rows)
        return cls(
            table=own_rows(connection, table),
            columns=columns,
            names=[relation.columns[column].name for column in columns],
            key=[(relation.columns[column].name, current[column]) for column in key],
            places=places,
            keys=[
                pc.cast(changes.after[column].take(pa.array(places)), pa.string()).to_pylist()
                for column in key
            ],
        )

    def query(self, connection: Connection, selected: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """For each row that exists, its number in ``places`` and these SQL expressions."""
        texts = ", ".join("%s::text[]" for _ in self.key)
        names = ", ".join(f"c{number}" for number in range(len(self.key)))
        same = " AND ".join(
            f"x.{quoted_with_parameters(name)} = {column.cast(f't.c{number}')}"
            for number, (name, column) in enumerate(self.key)
        )
        sql = (
            f"SELECT t.place - 1, {', '.join(selected)} FROM unnest({texts}) WITH ORDINALITY "
            f"AS t({names}, place) JOIN {self.table} x ON {same}"
        )
        return iter(connection.execute(sql, list(self.keys)))


def _text(column: str) -> str:
    return f"x.{quoted_with_parameters(column)}::text"


def _size(column: str) -> str:
    # The server knows the length of a text without reading it.
    return f"coalesce(octet_length({_text(column)}), 0)::bigint"


def _current_columns(connection: Connection, relation: Relation) -> dict[int, CurrentColumn]:
    """Those of the relation's columns that the table still has with the same type, by their indexes."""
    current = current_columns(connection, relation.oid)
    return {
        number: current[column.name]
        for number, column in enumerate(relation.columns)
        if column.name in current and current[column.name].type_oid == column.type_oid
    }
