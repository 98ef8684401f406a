"""Decides which changes of a window of the log are delivered, by their tables and the snapshots of chunks.

What must not live here: reading the log, and making rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.catalog import find_table
from flip27_source.enumerators.postgres.split import LogWindow, TableRules
from flip27_source.enumerators.postgres.table_patterns import matched
from flip27_source.options import Options
from flip27_source.readers.postgres.delivered_changes import (
    DeliveredChanges,
    delivered_changes,
    is_truncated_between,
    kept,
)
from flip27_source.readers.postgres.key_ranges import local_ranges, ranges_on_server
from flip27_source.readers.postgres.pgoutput import Changes
from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.postgres.unchanged_values import rows_to_read, with_values_read

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection


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
        self._keys: dict[int, tuple[str, ...]] = {}
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
        key = self._key(relation)
        found = delivered_changes(changes, key=key, xid_near=self._near)
        if rules is None:
            return found
        if is_truncated_between(found, rules):
            truncated[relation.oid] = None
        mask = kept(found, rules, key, self._rank)
        return found if mask.all() else found.take(np.flatnonzero(mask))

    def filled(self, found: DeliveredChanges) -> Iterator[DeliveredChanges]:
        """The changes in parts, with the large values that are read from the table."""
        key = self._key(found.relation)
        rows = rows_to_read(found, reads_all=self._reads_all)
        if not key or not rows.any():
            yield found
        else:
            yield from with_values_read(self._side(), found, key=key, rows=rows)

    def _is_known(self, relation: Relation) -> bool:
        # Tables are known by their oids, so a renamed table is still read.
        return relation.oid in self._known or (
            self._also_by_name and matched(self._patterns, relation.schema, relation.name)
        )

    def _rank(self, rules: TableRules, keys: Sequence[pa.Array]) -> Any:
        local = local_ranges(rules, keys)
        return ranges_on_server(self._side(), rules, keys) if local is None else local

    def _key(self, relation: Relation) -> tuple[int, ...]:
        """The indexes of the key's columns, in the order of the key."""
        numbers = {column.name: i for i, column in enumerate(relation.columns)}
        return tuple(numbers[name] for name in self.key_names(relation) if name in numbers)

    def key_names(self, relation: Relation) -> tuple[str, ...]:
        """The names of the key's columns, in the order of the key; empty if the table has no key."""
        if relation.oid in self._rules:
            return tuple(column.name for column in self._rules[relation.oid].key)
        if relation.replica_identity in "fn":
            return self._catalog_key(relation)
        return tuple(column.name for column in relation.columns if column.is_key)

    def _catalog_key(self, relation: Relation) -> tuple[str, ...]:
        if relation.oid not in self._keys:
            table = find_table(self._side(), relation.oid)
            self._keys[relation.oid] = tuple(column.name for column in table.key) if table is not None else ()
        return self._keys[relation.oid]
