"""Decides which changes of a window of the log are delivered, by their tables and the snapshots of chunks.

The range of a table's key to which a row belongs is found here for integers, and on the server for keys of
other types. What must not live here: reading the log, and making rows.

Large values that are not in the log, because an update did not change them, are read from the table. It may
have a newer value by then, or may not have the row: then the log has a later change of the row. The table is
found by its oid, as it may have another name by then. A column that it no longer has with the log's name and
type is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.catalog import (
    CurrentColumn,
    current_columns,
    find_operators,
    find_table,
    own_rows,
    present_key,
    renamed_label,
    table_of,
)
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection
from flip27_source.enumerators.postgres.server import await_visible
from flip27_source.enumerators.postgres.split import KeyColumn, LogWindow, TableRules
from flip27_source.enumerators.postgres.table_patterns import matched, quoted_with_parameters, with_parameters
from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.changes.rows import Op
from flip27_source.readers.postgres.delivered_changes import (
    DeliveredChanges,
    are_delivered,
    delivered_changes,
    is_truncated_between,
)
from flip27_source.readers.postgres.pgoutput import Changes
from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.scalars.text_bytes import Bools, Int64s

_INTEGERS = frozenset({"smallint", "integer", "bigint"})
PART_BYTES = 8 << 20
"""The size of the values that are read at once; a value that is longer is read alone."""


class WindowDelivery:
    """Finds the changes of a window that are delivered.

    Args:
        near: the 64-bit id of a recent transaction.
        side: returns a connection for queries while another one reads the window.
    """

    def __init__(
        self, window: LogWindow, options: Options, *, near: int, side: Callable[[], Connection]
    ) -> None:
        self._rules = {rules.table.oid: rules for rules in window.rules}
        self._known = set(window.known or ())
        self._also_by_name = bool(window.also_by_name) or window.known is None
        self._near = near
        self._side = side
        self._timeout_s = options[opts.SLOT_TIMEOUT]
        self._reads_all = options[opts.UNCHANGED_VALUES] == "read"
        self._keys = {table.oid: table.keys for table in window.keys or ()}
        patterns = options[opts.TABLES]
        self._patterns = patterns or ()

    def delivered(self, changes: Changes, truncated: dict[int, None]) -> DeliveredChanges | None:
        """The changes of one relation that are delivered; None if the query does not read the relation.

        Args:
            truncated: the oid is added if a TRUNCATE is seen by only some of the relation's chunks.
        """
        relation = changes.relation
        rules = self._rules.get(relation.oid)
        if rules is None and not self._is_known(relation):
            return None
        complete = delivered_changes(changes, key=self._key(relation), xid_near=self._near)
        if rules is None:
            return complete
        if is_truncated_between(complete, rules):
            truncated[relation.oid] = None
        cut_by = _indexes(relation, [column.name for column in rules.key])
        mask = are_delivered(complete, rules, cut_by, self._rank)
        return complete if mask.all() else complete.take(np.flatnonzero(mask))

    def filled(self, changes: DeliveredChanges) -> Iterator[DeliveredChanges]:
        """The changes in parts, with the large values that are read from the table."""
        key = self._key(changes.relation)
        rows = rows_to_read(changes, reads_all=self._reads_all)
        if not key or not rows.any():
            yield changes
        else:
            connection = self._side()
            await_visible(connection, changes.xid[rows], timeout_s=self._timeout_s)
            yield from with_values_read(connection, changes, key=key, rows=rows)

    def _is_known(self, relation: Relation) -> bool:
        # Tables are known by their oids, so a renamed table is still read.
        return relation.oid in self._known or (
            self._also_by_name and matched(self._patterns, relation.schema, relation.name)
        )

    def _rank(self, rules: TableRules, keys: Sequence[pa.Array]) -> Int64s:
        local = local_ranges(rules, keys)
        return ranges_on_server(self._side(), rules, keys) if local is None else local

    def _key(self, relation: Relation) -> tuple[int, ...]:
        """The indexes of the key's columns."""
        return _indexes(relation, self.key_names(relation))

    def key_names(self, relation: Relation) -> tuple[str, ...]:
        """The names of the columns that were the key at the time of the changes; empty if there was none."""
        if relation.replica_identity not in "fn":
            return tuple(column.name for column in relation.columns if column.is_key)
        names = {column.name for column in relation.columns}
        if relation.oid in self._rules:
            key = tuple(column.name for column in self._rules[relation.oid].key)
            # A table without a key when its chunk was planned may have one since then.
            if key and names.issuperset(key):
                return key
            if not key and relation.oid not in self._keys:
                return ()
        if relation.oid not in self._keys:  # planned by an older version, or only the log had this identity
            table = find_table(self._side(), relation.oid)
            self._keys[relation.oid] = (tuple(column.name for column in table.key) if table else (),)
        return next((key for key in self._keys[relation.oid] if names.issuperset(key)), ())


def _indexes(relation: Relation, names: Sequence[str]) -> tuple[int, ...]:
    """The indexes of these columns, in their order, without those that the relation does not have."""
    numbers = {column.name: i for i, column in enumerate(relation.columns)}
    return tuple(numbers[name] for name in names if name in numbers)


def local_ranges(rules: TableRules, keys: Sequence[pa.Array]) -> Int64s | None:
    """The number of each key's range, for a key of one integer; None for other keys."""
    if len(rules.key) != 1 or rules.key[0].type not in _INTEGERS:
        return None
    bounds = np.array([int(bound[0]) for bound in rules.bounds], dtype=np.int64)
    numbers = pc.cast(keys[0], pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    ranges: Int64s = np.searchsorted(bounds, numbers, side="right").astype(np.int64)
    return ranges


def ranges_on_server(connection: Connection, rules: TableRules, keys: Sequence[pa.Array]) -> Int64s:
    """The number of each key's range; the server compares the keys by the columns' types and collations."""
    key = present_key(connection, rules.key)
    renamed = renamed_label(connection, key)
    if renamed is not None:
        raise SplitReadError(f"table {rules.table}: {renamed}", remedy=START_AGAIN)
    columns = range(len(key))
    names = ", ".join(f"c{i}" for i in columns)
    # Bounds and keys are sorted together, because every key with every bound would be too many comparisons.
    sql = (
        "SELECT before FROM (SELECT place, count(*) FILTER (WHERE place <= %s) OVER (ORDER BY "
        f"{', '.join(f'k.c{i}' for i in columns)}) AS before "
        f"FROM unnest({', '.join('%s::text[]' for _ in columns)}) WITH ORDINALITY AS t({names}, place), "
        f"LATERAL (SELECT {_typed(key)}) AS k({names})) AS ranked WHERE place > %s ORDER BY place"
    )
    texts = [
        [*(bound[i] for bound in rules.bounds), *pc.cast(keys[i], pa.string()).to_pylist()] for i in columns
    ]
    count = len(rules.bounds)
    rows = connection.execute(sql, [count, *texts, count]).fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)


def _typed(key: Sequence[KeyColumn]) -> str:
    typed = ", ".join(
        f"CAST(t.c{i} AS {column.type})" + (f" COLLATE {column.collation}" if column.collation else "")
        for i, column in enumerate(key)
    )
    return with_parameters(typed)


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
    return lacking if reads_all else lacking & (changes.op == Op.CREATE)


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
        find_operators(connection, [current[column].type_oid for column in key])
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
    """The value as the log would have it, by the output function of its type: a cast strips blanks."""
    name = f"x.{quoted_with_parameters(column)}"
    return f"CASE WHEN num_nulls({name}) = 0 THEN format('%%s', {name}) END"


def _size(column: str) -> str:
    # The server knows the length of a text without reading it.
    return f"coalesce(octet_length(x.{quoted_with_parameters(column)}::text), 0)::bigint"


def _current_columns(connection: Connection, relation: Relation) -> dict[int, CurrentColumn]:
    """Those of the relation's columns that the table still has with the same type, by their indexes."""
    current = current_columns(connection, relation.oid)
    return {
        number: current[column.name]
        for number, column in enumerate(relation.columns)
        if column.name in current and current[column.name].type_oid == column.type_oid
    }
