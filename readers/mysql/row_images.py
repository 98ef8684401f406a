"""Finds the values in the images of rows, for many events of a table at once: row by row, column by column.

Each step is one for all events: first their first rows, then their second, and so on. What must not live
here: the types of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from flip27_source.enumerators.mysql.event_blocks import numbers_at
from flip27_source.errors import SplitReadError
from flip27_source.readers.mysql.table_maps import LogColumn
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s

_Sizes = Sequence[tuple[int | None, int]]
"""Of each column the size and the prefix."""


class Values(NamedTuple):
    """One column of some images: where each value begins and ends, and which are NULL."""

    starts: Int64s
    ends: Int64s
    nulls: Bools

    def where(self, mask: Bools) -> Values:
        return self if mask.all() else Values(self.starts[mask], self.ends[mask], self.nulls[mask])


def find_images(
    data: Bytes, starts: Int64s, ends: Int64s, columns: Sequence[LogColumn]
) -> tuple[Int64s, Int64s, list[Values]]:
    """The images of the rows in ``data[start:end]`` of each event, in the order of the events.

    Returns:
        For each image the index of its event and its number in the event; and its columns.

    Raises:
        SplitReadError: an event does not end where its last image does.
    """
    sizes = [(column.size, column.prefix) for column in columns]
    events, begins = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    active = np.flatnonzero(starts < ends)
    at = starts[active]
    while len(active):
        events.append(active)
        begins.append(at)
        at = _columns_at(data, at, sizes)[1]
        if (at > ends[active]).any():
            raise SplitReadError("an event of the log is truncated: a row extends beyond its end")
        is_left = at < ends[active]
        active, at = active[is_left], at[is_left]
    of_event = np.concatenate(events)
    numbers = np.repeat(np.arange(len(events)) - 1, [len(each) for each in events])
    order = np.argsort(of_event, kind="stable")
    found, _ = _columns_at(data, np.concatenate(begins)[order], sizes)
    return of_event[order], numbers[order], found


def _columns_at(data: Bytes, at: Int64s, sizes: _Sizes) -> tuple[list[Values], Int64s]:
    """The values of the images that begin at these positions, and where the images end."""
    bitmap = np.arange((len(sizes) + 7) // 8)
    is_null = np.unpackbits(data[at + bitmap[:, None]], axis=0, bitorder="little").view(np.bool_)
    at = at + len(bitmap)
    found = []
    for (size, prefix), nulls in zip(sizes, is_null, strict=False):
        starts = at + prefix if size is None else at
        ends = starts + (numbers_at(data, at, prefix) if size is None else size)
        at = np.where(nulls, at, ends) if nulls.any() else ends
        found.append(Values(starts, ends, nulls))
    return found, at
