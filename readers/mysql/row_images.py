"""Finds the values in the images of rows, for many events of a table at once: row by row, column by column.

Each step is one for all events: first their first rows, then their second, and so on. What must not live
here: the types of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flip27_source.errors import SplitReadError
from flip27_source.readers.mysql.table_maps import LogColumn
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s

PADDING = bytes(32)
"""Bytes after the last image, so that the widest number can be read at its end, where a NULL has no bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """One column of the images: the position and the size of each value, and where it is NULL."""

    starts: Int64s
    sizes: Int64s
    nulls: Bools

    def take(self, rows: Int64s) -> Values:
        return Values(starts=self.starts[rows], sizes=self.sizes[rows], nulls=self.nulls[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images in some events, in the order of the events.

    Attributes:
        events: the index of the event of each image.
        numbers: the number of the image in its event.
    """

    events: Int64s
    numbers: Int64s
    columns: list[Values]


def find_images(data: Bytes, starts: Int64s, ends: Int64s, columns: Sequence[LogColumn]) -> Images:
    """The images of the rows in ``data[start:end]`` of each event.

    Raises:
        SplitReadError: an event does not end where its last image does.
    """
    found: list[list[tuple[Int64s, Int64s, Bools]]] = [[] for _ in columns]
    events: list[Int64s] = []
    active = np.flatnonzero(starts < ends)
    at = starts[active]
    while len(active):
        events.append(active)
        bits = at
        at = at + (len(columns) + 7) // 8
        for number, column in enumerate(columns):
            nulls = (data[bits + number // 8] >> (number % 8) & 1).astype(np.bool_)
            if column.size is None:
                sizes = numbers_at(data, at, column.prefix)
                begin = at + column.prefix
            else:
                sizes, begin = np.full(len(at), column.size, np.int64), at
            found[number].append((begin, sizes, nulls))
            at = np.where(nulls, at, begin + sizes)
        if (at > ends[active]).any():
            raise SplitReadError("an event of the log is truncated: a row extends beyond its end")
        is_left = at < ends[active]
        active, at = active[is_left], at[is_left]
    of_event = np.concatenate(events) if events else np.empty(0, np.int64)
    numbers = np.repeat(np.arange(len(events)), [len(each) for each in events])
    order = np.lexsort((numbers, of_event))
    values = [
        Values(
            starts=np.concatenate([part[0] for part in parts])[order],
            sizes=np.concatenate([part[1] for part in parts])[order],
            nulls=np.concatenate([part[2] for part in parts])[order],
        )
        for parts in found
        if parts
    ]
    return Images(events=of_event[order], numbers=numbers[order], columns=values)


def numbers_at(data: Bytes, at: Int64s, size: int, *, is_big_endian: bool = False) -> Int64s:
    """The unsigned numbers of ``size`` bytes at these positions; those of eight bytes wrap around."""
    found = np.zeros(len(at), np.int64)
    for byte in range(size):
        shift = 8 * (size - 1 - byte if is_big_endian else byte)
        found |= data[at + byte].astype(np.int64) << shift
    return found
