"""Decides which changes of a window of the log are delivered, by their tables and the snapshots of chunks.

The range of a table's key to which a row belongs is found here for integers, and on the server for keys of
other types. What must not live here: reading the log, and making rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.catalog import find_table
from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.split import KeyColumn, LogWindow, TableRules
from flip27_source.enumerators.postgres.table_patterns import matched
from flip27_source.options import Options
from flip27_source.readers.postgres.delivered_changes import (
    DeliveredChanges,
    are_delivered,
    delivered_changes,
    is_truncated_between,
)
from flip27_source.readers.postgres.message_blocks import Int64s
from flip27_source.readers.postgres.pgoutput import Changes
from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.postgres.unchanged_values import rows_to_read, with_values_read

_INTEGERS = frozenset({"smallint", "integer", "bigint"})


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
            yield from with_values_read(self._side(), changes, key=key, rows=rows)

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
            if names.issuperset(key):
                return key
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
    columns = range(len(rules.key))
    row = ", ".join(f"k.c{i}" for i in columns)
    bound = ", ".join(f"b.c{i}" for i in columns)
    names = ", ".join(f"c{i}" for i in columns)
    sql = (
        f"SELECT (SELECT count(*) FROM {_texts(columns)} AS t({names}), LATERAL (SELECT "
        f"{_typed(rules.key)}) AS b"
        f"({names}) WHERE ({bound}) <= ({row})) FROM {_texts(columns)} WITH ORDINALITY AS t({names}, place), "
        f"LATERAL (SELECT {_typed(rules.key)}) AS k({names}) ORDER BY place"
    )
    bounds = [[bound[i] for bound in rules.bounds] for i in columns]
    texts = [pc.cast(column, pa.string()).to_pylist() for column in keys]
    rows = connection.execute(sql, [*bounds, *texts]).fetchall()
    return np.array([row[0] for row in rows], dtype=np.int64)


def _texts(columns: Sequence[int]) -> str:
    return f"unnest({', '.join('%s::text[]' for _ in columns)})"


def _typed(key: Sequence[KeyColumn]) -> str:
    return ", ".join(
        f"CAST(t.c{i} AS {column.type})" + (f" COLLATE {column.collation}" if column.collation else "")
        for i, column in enumerate(key)
    )
