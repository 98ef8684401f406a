"""Reads the tuples in the messages of a block as columns of texts, column by column.

What must not live here: the types of values. Texts are binary arrays; the converter of a column validates
UTF-8 if its target is a string.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from flip27_source.readers.postgres.message_blocks import REPORT, MessageBlock
from flip27_source.readers.postgres.rows_by_table import Group, RowsByTable
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s, with_gaps

_NULL, _UNCHANGED, _TEXT, _BINARY = (ord(kind) for kind in "nutb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuples:
    """Tuples of one table; or of all tables of a block, with a row for each change's place.

    Attributes:
        texts: a ``pa.binary()`` array for each column, with the server's texts; null where the value is NULL
            or unchanged, or where there is no tuple. It may be a slice of a longer array.
        unchanged: for each column, true where a TOAST value did not change, so that the log does not contain
            it; None if the log contains all values.
    """

    texts: list[pa.Array]
    unchanged: list[Bools | None]

    def of(self, group: Group) -> Tuples:
        count = len(group.relation.columns)
        masks = [None if mask is None else mask[group.places] for mask in self.unchanged[:count]]
        return Tuples(
            texts=[texts[group.places] for texts in self.texts[:count]],
            unchanged=[mask if mask is not None and mask.any() else None for mask in masks],
        )


def no_tuples(tables: RowsByTable) -> Tuples:
    """The columns if no change has a tuple."""
    nulls = [nulls for _, _, nulls in _spans(tables)]
    return Tuples(texts=nulls, unchanged=[None] * len(nulls))


def read_tuples(
    block: MessageBlock, tables: RowsByTable, rows: Int64s, starts: Int64s
) -> tuple[Tuples, Int64s]:
    """The tuples, and the position after each of them.

    Args:
        rows: the indexes of the changes that have a tuple, in ascending order.
        starts: the position of each tuple in the block.
    """
    texts: list[pa.Array] = []
    unchanged: list[Bools | None] = []
    behind = np.empty(len(rows), np.int64)
    walk = _first_column(block, tables, rows, starts)
    for column, total, nulls in _spans(tables):
        if total < len(tables):
            walk = _without_narrow(walk, column, behind)
        values = _values(walk, column)
        walk = replace(walk, at=values.ends)
        texts.append(_gathered(walk, values, total, nulls))
        unchanged.append(None if values.is_unchanged is None else _placed(walk, values.is_unchanged, total))
    behind[walk.tuples] = walk.at
    return Tuples(texts=texts, unchanged=unchanged), behind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """The tuples that have the next column; the arrays have a value for each of them.

    Attributes:
        at: the position of the column.
        limits: the position after the message.
        widths: the number of columns of the table.
        rows: the change to which the tuple belongs.
        tuples: the index among all tuples.
        places: the change's place; None if every change has a tuple, and places are in the order of the log.
    """

    block: MessageBlock
    tables: RowsByTable
    at: Int64s
    limits: Int64s
    widths: Int64s
    rows: Int64s
    tuples: Int64s
    places: Int64s | None

    def check(
        self, wrong: Bools, at: Int64s, what: str, column: int | None = None, *, remedy: str = REPORT
    ) -> None:
        """Refuse the first tuple that ``wrong`` marks, with its table and column in ``what``."""
        if not wrong.any():
            return
        first = int(wrong.argmax())
        row = int(self.rows[first])
        relation = self.tables.relation(row)
        name = "" if column is None else relation.columns[column].name
        what = what.format(table=relation, column=name)
        raise self.block.error(int(self.tables.messages[row]), what, at=int(at[first]), remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """One column of the tuples.

    Attributes:
        starts: the position of each text.
        ends: the position after each text.
        is_text: true for texts; None if all values are texts.
        is_unchanged: true for unchanged values; None if there are none.
    """

    starts: Int64s
    ends: Int64s
    is_text: Bools | None = None
    is_unchanged: Bools | None = None


def _spans(tables: RowsByTable) -> Iterator[tuple[int, int, pa.Array]]:
    """Yield each column, the number of changes whose tables have it, and this number of nulls."""
    start = 0
    for width in sorted({len(group.relation.columns) for group in tables.groups}):
        total = int((tables.widths >= width).sum())
        nulls = pa.nulls(total, pa.binary())
        for column in range(start, width):
            yield column, total, nulls
        start = width


def _first_column(block: MessageBlock, tables: RowsByTable, rows: Int64s, starts: Int64s) -> _Walk:
    places = rows if tables.places is None else tables.places[rows]
    walk = _Walk(
        block=block,
        tables=tables,
        at=starts + 2,
        limits=block.ends[tables.messages[rows]],
        widths=tables.widths[rows],
        rows=rows,
        tuples=np.arange(len(rows)),
        places=None if tables.places is None and len(rows) == len(tables) else places,
    )
    walk.check(walk.at > walk.limits, starts, "a tuple of {table} is truncated")
    counts = block.uint16_at(starts)
    wrong = counts != walk.widths
    if wrong.any():
        first = int(wrong.argmax())
        what = f"a tuple of {{table}} has {counts[first]} columns; its table has {walk.widths[first]}"
        walk.check(wrong, starts, what)
    return walk


def _without_narrow(walk: _Walk, column: int, behind: Int64s) -> _Walk:
    """The tuples that have the column; the end positions of the others are stored in ``behind``."""
    has = walk.widths > column
    if has.all():
        return walk
    behind[walk.tuples[~has]] = walk.at[~has]
    kept = {name: getattr(walk, name)[has] for name in ("at", "limits", "widths", "rows", "tuples")}
    return replace(walk, **kept, places=None if walk.places is None else walk.places[has])


def _values(walk: _Walk, column: int) -> _Values:
    # One number holds the kind of the value (a byte) and the length of its text (4 bytes).
    words = walk.block.words[walk.at]
    kinds = words.astype(np.uint8)
    lengths = (words >> np.uint64(8)).astype(np.uint32).byteswap().astype(np.int64)
    is_text = kinds == _TEXT
    if is_text.all():
        starts = walk.at + 5
        values = _Values(starts=starts, ends=starts + lengths)
    else:
        _check_kinds(walk, column, kinds)
        starts = walk.at + np.where(is_text, 5, 1)
        is_unchanged = kinds == _UNCHANGED
        values = _Values(
            starts=starts,
            ends=starts + np.where(is_text, lengths, 0),
            is_text=is_text,
            is_unchanged=is_unchanged if is_unchanged.any() else None,
        )
    what = "a tuple is truncated in column {column} of {table}"
    walk.check(values.ends > walk.limits, walk.at, what, column)
    return values


def _gathered(walk: _Walk, values: _Values, total: int, nulls: pa.Array) -> pa.Array:
    """The texts, in the order of places."""
    count = len(values.starts)
    if not count or (values.is_text is not None and not values.is_text.any()):
        return nulls
    both = with_gaps(walk.block.data, values.starts, values.ends)
    if values.is_text is None and walk.places is None:
        return both.take(_even_numbers(count))
    indexes = np.arange(0, 2 * count, 2)
    if walk.places is not None:
        placed = np.zeros(total, np.int64)
        placed[walk.places] = indexes
        indexes = placed
    if values.is_text is None and count == total:
        return both.take(pa.array(indexes))
    is_text = np.ones(count, np.bool_) if values.is_text is None else values.is_text
    return both.take(pa.array(indexes, mask=~_placed(walk, is_text, total)))


@functools.lru_cache(maxsize=1)  # the same for all columns
def _even_numbers(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2))


def _placed(walk: _Walk, mask: Bools, total: int) -> Bools:
    """A mask of tuples, converted to a mask of places."""
    if walk.places is None:
        return mask
    placed = np.zeros(total, np.bool_)
    placed[walk.places] = mask
    return placed


def _check_kinds(walk: _Walk, column: int, kinds: Bytes) -> None:
    # Bytes after the end of the message belong to the next message.
    what = "a tuple is truncated before column {column} of {table}"
    walk.check(walk.at >= walk.limits, walk.at, what, column)
    what = "the value of column {column} of {table} is in binary form"
    remedy = "pgoutput sends texts unless its option binary is true; do not set this option"
    walk.check(kinds == _BINARY, walk.at, what, column, remedy=remedy)
    unknown = (kinds != _TEXT) & (kinds != _NULL) & (kinds != _UNCHANGED)
    walk.check(unknown, walk.at, "the value of column {column} of {table} is of an unknown kind", column)
