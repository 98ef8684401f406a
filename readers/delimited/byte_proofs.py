"""Looks at all bytes of a block at once: proofs that take a fraction of the time of parsing it.

They only ever say that something is certain; where they do not, a closer look is needed. What is done then
is not known here. Without NumPy, which Spark's own Arrow support asks for too, nothing is certain.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flip27_source.readers.delimited.dialect import Dialect

try:
    import numpy as np
except ImportError:
    HAS_NUMPY = False
else:
    HAS_NUMPY = True

_NEWLINE = ord("\n")
_SLICE_BYTES = 1 << 19


def quotes_pair_up(data: bytes, dialect: Dialect) -> bool:
    """True when the quotes in ``data`` are, in turn, the first and the last byte of a quoted field.

    All of them: none is escaped (doubled, where that is how it is written, counts as an end and a start),
    and none is in a field that is not quoted. The proof goes from quote to quote: one is first in a field
    when a field ends before it, as long as the pairs before it hold; the next quote then ends the
    field when the field is over after it. What it leaves open is whether some pair has a newline inside.

    Args:
        data: lines, the last one ended by a newline too.
        dialect: has a quote character.
    """
    if not HAS_NUMPY:
        return False
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    if dialect.nul_is_special and b"\0" in data:
        return False
    # Elsewhere than before a quote or another one an escape character is a character like any other.
    if not dialect.doubles_quotes and escape in data and (escape * 2 in data or escape + quote in data):
        return False
    content = np.frombuffer(data, np.uint8)
    quotes = _positions(content, ord(quote))
    first, last = quotes[::2], quotes[1::2]
    if len(first) != len(last):
        return False
    if not dialect.empty_quotes_are_clean and (last - first == 1).any():
        return False
    # Before the first byte comes, as index -1, the last one: a newline as well.
    return _are_all_outside(content[first - 1], dialect) and _are_all_outside(content[last + 1], dialect)


def _are_all_outside(neighbours: np.ndarray[Any, np.dtype[np.uint8]], dialect: Dialect) -> bool:
    """True when each byte is one that fields end with, as seen from a quote."""
    outside = (neighbours == ord(dialect.sep)) | (neighbours == _NEWLINE)
    if dialect.doubles_quotes:
        # The end of a pair next to the start of another: a doubled quote, the field goes on.
        outside |= neighbours == ord(dialect.quote)
    return bool(outside.all())


def _positions(content: np.ndarray[Any, np.dtype[np.uint8]], byte: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Where ``byte`` is. First which eight bytes have one: it is listing that takes time."""
    mask = np.empty(_SLICE_BYTES, np.bool_)
    found = []
    for start in range(0, len(content), _SLICE_BYTES):
        part = content[start : start + _SLICE_BYTES]
        mask[len(part) :] = False
        np.equal(part, byte, out=mask[: len(part)])
        words = mask.view(np.uint64)
        used = np.flatnonzero(words != 0)
        within = np.flatnonzero(words[used].view(np.bool_))
        found.append(used[within >> 3] * 8 + (within & 7) + start)
    return np.concatenate(found)


def is_line_count(rows: int, data: bytes) -> bool:
    """True when ``data`` has ``rows`` lines, empty ones left out.

    A parser that leaves those out and has found so many rows has met no newline that it took for text in
    quotes: each row takes one outside, and the first one within quotes is not that of an empty line.
    """
    if not HAS_NUMPY:
        return False
    content = np.frombuffer(data, np.uint8)
    parts = (content[start : start + _SLICE_BYTES] for start in range(0, len(content), _SLICE_BYTES))
    lines = sum(int(np.count_nonzero(part == _NEWLINE)) for part in parts)
    if lines != rows:
        ends = content == _NEWLINE
        lines -= int(np.count_nonzero(ends[1:] & ends[:-1])) + int(ends[0])
    return lines == rows


def lie_between(content: pa.Buffer, low: bytes, high: bytes) -> bool:
    """True when no byte is below ``low`` or above ``high``."""
    if not HAS_NUMPY:
        return False
    values = np.frombuffer(content, np.uint8)
    return not values.size or bool(values.min() >= ord(low) and values.max() <= ord(high))
