"""Groups the changes of a block by table, so that the tuples of all tables are read in the same passes.

What must not live here: the bytes of tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flip27_source.readers.postgres.relations import Relation
from flip27_source.readers.scalars.text_bytes import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The places of the changes of one table."""

    relation: Relation
    places: slice


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByTable:
    """Changes in the order of the log, and the place of each change in an order by table.

    Tables with more columns come first, so the changes that have a certain column have the first places.

    Attributes:
        messages: the message of each change, as its index in the block.
        known: the tables.
        numbers: the table of each change, as an index of ``known``.
        widths: the number of columns of the table of each change.
        order: the change at each place; None if places are in the order of the log.
        places: the place of each change; None if places are in the order of the log.
        groups: the tables, ordered by their first change.
    """

    messages: Int64s
    known: Sequence[Relation]
    numbers: Int64s
    widths: Int64s
    order: Int64s | None
    places: Int64s | None
    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return len(self.messages)

    def relation(self, row: int) -> Relation:
        return self.known[int(self.numbers[row])]


def by_table(messages: Int64s, known: Sequence[Relation], numbers: Int64s) -> RowsByTable:
    """Group changes by table.

    Args:
        numbers: the table of each change as an index of ``known``; there is at least one change.
    """
    total = len(numbers)
    if (numbers == numbers[0]).all():
        group = Group(relation=known[int(numbers[0])], places=slice(0, total))
        widths = np.full(total, len(group.relation.columns))
        order = places = None
        groups = [group]
    else:
        widths = np.array([len(relation.columns) for relation in known])[numbers]
        order = np.lexsort((numbers, -widths))  # stable
        places = np.empty(total, np.int64)
        places[order] = np.arange(total)
        starts = [0, *(np.flatnonzero(np.diff(numbers[order])) + 1).tolist()]
        groups = [
            Group(relation=known[int(numbers[order[start]])], places=slice(start, stop))
            for start, stop in zip(starts, [*starts[1:], total], strict=True)
        ]
        groups.sort(key=lambda group: int(order[group.places.start]))
    return RowsByTable(
        messages=messages,
        known=known,
        numbers=numbers,
        widths=widths,
        order=order,
        places=places,
        groups=tuple(groups),
    )
