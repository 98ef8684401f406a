"""Reads ordinary texts together and odd texts one by one, with the results in the order of the texts.

Arrow reads a column many times faster than Python reads its texts, but not all texts as Spark or PostgreSQL
mean them. What must not live here: the meaning of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Pieces: TypeAlias = "Sequence[tuple[pa.Array, Sequence[pa.Array]]]"
"""Rows in pieces: the number of each row, in ascending order within a piece, and the columns of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """Ordinary texts of a type, which are read together.

    Attributes:
        pattern: matches the texts (RE2).
        read: converts a column of such texts and nulls; may raise ArrowInvalid.
        suits: a quick check that ``read`` is worth trying with a whole column. For a column that passes it,
            ``read`` raises ArrowInvalid or returns the right values, even if some text is odd.
    """

    pattern: str
    read: Callable[[pa.Array], pa.Array]
    suits: Callable[[pa.Array], bool]


def read_texts(
    texts: pa.Array, spellings: Sequence[Spelling], read_one: Callable[[str], Any], kind: pa.DataType
) -> pa.Array:
    """The values of ``texts``; nulls stay null.

    Args:
        spellings: tried in this order.
        read_one: the value of any other text, as ``pa.array`` accepts it for ``kind``.
    """
    for spelling in spellings:
        try:
            if spelling.suits(texts):
                return spelling.read(texts)
        except pa.ArrowInvalid:
            continue
    values = pa.nulls(len(texts), kind)
    odd = texts.is_valid()
    for spelling in spellings:
        matches = pc.match_substring_regex(texts, rf"\A(?:{spelling.pattern})\z")
        ordinary = pc.and_(odd, pc.fill_null(matches, pa.scalar(False, pa.bool_())))
        try:
            values = pc.replace_with_mask(values, ordinary, spelling.read(texts.filter(ordinary)))
        except pa.ArrowInvalid:
            continue
        odd = pc.and_not(odd, ordinary)
    return with_odd_texts(values, odd, texts, read_one)


def with_odd_texts(
    values: pa.Array, odd: pa.Array, texts: pa.Array, read_one: Callable[[str], Any]
) -> pa.Array:
    """``values``, with those of the odd texts from ``read_one``."""
    if not odd.true_count:
        return values
    return pc.replace_with_mask(values, odd, read_one_by_one(texts.filter(odd), read_one, values.type))


def read_one_by_one(texts: pa.Array, read_one: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """The values of ``texts`` from ``read_one``, which is called once for equal texts; nulls stay null.

    Bytes that are not UTF-8 are replaced.
    """
    distinct = texts.dictionary_encode()
    contents = distinct.dictionary.view(pa.binary()).to_pylist()
    values = pa.array([read_one(content.decode("utf-8", "replace")) for content in contents], kind)
    return values.take(distinct.indices)


def unreadable(texts: pa.Array, values: pa.Array) -> pa.Array | None:
    """A mask of the texts without a value; None if there are none."""
    if values.null_count == texts.null_count:
        return None
    return pc.and_(pc.is_valid(texts), pc.is_null(values))


def in_row_order(pieces: Pieces) -> tuple[pa.Array, list[pa.Array]]:
    """The rows of all pieces, by their numbers; rows with the same number stay in order."""
    numbers = pa.concat_arrays([numbers for numbers, _ in pieces])
    order = pc.array_sort_indices(numbers)
    columns = zip(*(columns for _, columns in pieces), strict=True)
    return numbers.take(order), [pa.concat_arrays(parts).take(order) for parts in columns]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; a single chunk is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
