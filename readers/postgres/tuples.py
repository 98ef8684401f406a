"""Tuples of one table as columns of texts, read by columns from their messages.

What must not live here: the types of values. Texts are binary arrays: the converter of a column validates
UTF-8 where its target is a string.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flip27_source.readers.postgres.message_blocks import Bools, Bytes, Int64s, MessageBlock
from flip27_source.readers.postgres.relations import Relation

_NULL, _UNCHANGED, _TEXT, _BINARY = (ord(kind) for kind in "nutb")
_SETTINGS = "pgoutput sends texts unless its option binary is true; do not set it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuples:
    """Tuples of one table.

    Attributes:
        texts: a ``pa.binary()`` array for each column: the values as the server writes them; null where the
            value is NULL or unchanged, or where there is no tuple.
        unchanged: for each column, true where a TOAST value did not change, so that the log does not contain
            it; None if that is nowhere the case.
    """

    texts: list[pa.Array]
    unchanged: list[Bools | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleRows:
    """The rows of a result that have a tuple.

    Attributes:
        total: the number of rows of the result.
        rows: the indexes of the rows, ascending; None: all of them.
        messages: the message of each of these rows, as its index in the block.
        starts: the position of each tuple in the block.
    """

    total: int
    rows: Int64s | None
    messages: Int64s
    starts: Int64s


def no_tuples(relation: Relation, total: int) -> Tuples:
    """The tuples of ``total`` rows without tuples."""
    nulls = pa.nulls(total, pa.binary())
    return Tuples(texts=[nulls] * len(relation.columns), unchanged=[None] * len(relation.columns))


def read_tuples(block: MessageBlock, relation: Relation, where: TupleRows) -> tuple[Tuples, Int64s]:
    """The tuples, and the position behind each of them.

    Raises:
        SplitReadError: a tuple is truncated, has another number of columns than its table, or has values
            that are not texts.
    """
    ends = block.ends[where.messages]
    at = _after_count(block, relation, where, ends)
    texts: list[pa.Array] = []
    unchanged: list[Bools | None] = []
    nulls = pa.nulls(where.total, pa.binary())
    for column in range(len(relation.columns)):
        # One number holds the kind of the value (a byte) and the length of its text (4 bytes).
        words = block.words[at]
        kinds = words.astype(np.uint8)
        lengths = (words >> np.uint64(8)).astype(np.uint32).byteswap().astype(np.int64)
        is_text = kinds == _TEXT
        if is_text.all():
            starts = at + 5
            at = starts + lengths
            _check_ends(block, relation, where, column, at, ends, starts)
            texts.append(_gathered(block, where, starts, at, None))
            unchanged.append(None)
            continue
        is_unchanged = kinds == _UNCHANGED
        _check_kinds(block, relation, where, column, kinds, at, ends)
        starts = at + np.where(is_text, 5, 1)
        previous, at = at, starts + np.where(is_text, lengths, 0)
        _check_ends(block, relation, where, column, at, ends, previous)
        texts.append(_gathered(block, where, starts, at, is_text) if is_text.any() else nulls)
        unchanged.append(_scattered(where, is_unchanged) if is_unchanged.any() else None)
    return Tuples(texts=texts, unchanged=unchanged), at


def _after_count(block: MessageBlock, relation: Relation, where: TupleRows, ends: Int64s) -> Int64s:
    """The position of the first column of each tuple."""
    after = where.starts + 2
    truncated = after > ends
    if truncated.any():
        first = int(truncated.argmax())
        what = f"a tuple of {relation} is truncated"
        raise block.error(int(where.messages[first]), what, at=int(where.starts[first]))
    counts = block.uint16_at(where.starts)
    wrong = counts != len(relation.columns)
    if wrong.any():
        first = int(wrong.argmax())
        what = f"a tuple of {relation} has {counts[first]} columns; its table has {len(relation.columns)}"
        raise block.error(int(where.messages[first]), what, at=int(where.starts[first]))
    return after


def _gathered(
    block: MessageBlock, where: TupleRows, starts: Int64s, ends: Int64s, is_text: Bools | None
) -> pa.Array:
    """The texts between these positions, one for each row of the result."""
    # An array over the whole block, of the texts and of the gaps between them: take() copies the texts alone.
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = block.data.size
    both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), block.data])
    return both.take(_indexes(where, len(starts), is_text))


def _indexes(where: TupleRows, count: int, is_text: Bools | None) -> pa.Array:
    """For each row of the result the index of its text among texts and gaps; null if there is none."""
    if where.rows is None and is_text is None:
        return _even_numbers(count)
    if where.rows is None:
        return pa.array(np.arange(0, 2 * count, 2), mask=~is_text)
    indexes = np.zeros(where.total, np.int64)
    indexes[where.rows] = np.arange(0, 2 * count, 2)
    return pa.array(
        indexes, mask=~_scattered(where, np.ones(count, np.bool_) if is_text is None else is_text)
    )


@functools.lru_cache(maxsize=1)  # the same for all columns of a table
def _even_numbers(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2))


def _scattered(where: TupleRows, mask: Bools) -> Bools:
    """A mask of the rows that have a tuple, as a mask of all rows."""
    if where.rows is None:
        return mask
    scattered = np.zeros(where.total, np.bool_)
    scattered[where.rows] = mask
    return scattered


def _check_kinds(
    block: MessageBlock,
    relation: Relation,
    where: TupleRows,
    column: int,
    kinds: Bytes,
    at: Int64s,
    ends: Int64s,
) -> None:
    wrong = (kinds != _TEXT) & (kinds != _NULL) & (kinds != _UNCHANGED)
    wrong |= at >= ends  # what is there belongs to the next message
    if not wrong.any():
        return
    first = int(wrong.argmax())
    named = f"column {relation.columns[column].name} of {relation}"
    place = int(at[first])
    if at[first] >= ends[first]:
        raise block.error(int(where.messages[first]), f"a tuple is truncated before {named}", at=place)
    if kinds[first] == _BINARY:
        what = f"the value of {named} is in binary form"
        raise block.error(int(where.messages[first]), what, at=place, remedy=_SETTINGS)
    what = f"the kind of the value of {named}, 0x{kinds[first]:02x}, is unknown"
    raise block.error(int(where.messages[first]), what, at=place)


def _check_ends(
    block: MessageBlock,
    relation: Relation,
    where: TupleRows,
    column: int,
    at: Int64s,
    ends: Int64s,
    starts: Int64s,
) -> None:
    truncated = at > ends
    if truncated.any():
        first = int(truncated.argmax())
        what = f"a tuple is truncated in column {relation.columns[column].name} of {relation}"
        raise block.error(int(where.messages[first]), what, at=int(starts[first]))
