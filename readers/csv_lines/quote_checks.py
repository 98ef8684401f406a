"""Proofs over all bytes of a block, in a fraction of the time that parsing takes.

A proof returns True only if its claim is certain; otherwise the caller must check further. What must not
live here: parsing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flip27_source.readers.csv_lines.dialect import Dialect
from flip27_source.readers.scalars.text_bytes import Bytes

_NEWLINE = ord("\n")
_SLICE_BYTES = 1 << 19


def quotes_pair_up(data: bytes, dialect: Dialect) -> bool:
    """True if the quotes in ``data`` alternately open and close a quoted field.

    No quote is escaped or inside an unquoted field; a doubled quote counts as a close and an open. The
    proof is by induction over the quotes: an odd quote opens a field if the byte before it ends a field,
    and the next quote closes the field if the byte after it ends a field. A newline between the two
    quotes remains possible.

    Args:
        data: lines; the last one also ends in a newline.
    """
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    if dialect.nul_is_special and b"\0" in data:
        return False
    # An escape character has its meaning only before a quote or another escape character.
    if not dialect.doubles_quotes and escape in data and (escape * 2 in data or escape + quote in data):
        return False
    content = np.frombuffer(data, np.uint8)
    quotes = _positions(content, ord(quote))
    first, last = quotes[::2], quotes[1::2]
    if len(first) != len(last):
        return False
    if not dialect.empty_quotes_are_clean and (last - first == 1).any():
        return False
    # Index -1, before the first byte, wraps to the last byte, which is a newline and so ends a field.
    return _are_all_outside(content[first - 1], dialect) and _are_all_outside(content[last + 1], dialect)


def _are_all_outside(neighbours: Bytes, dialect: Dialect) -> bool:
    """True if each byte next to a quote ends a field."""
    outside = (neighbours == ord(dialect.sep)) | (neighbours == _NEWLINE)
    if dialect.doubles_quotes:
        # A quote next to a quote is a doubled quote inside the field.
        outside |= neighbours == ord(dialect.quote)
    return bool(outside.all())


def _positions(content: Bytes, byte: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The positions of ``byte``. Listing is slow, so groups of eight bytes are filtered first."""
    mask = np.empty(_SLICE_BYTES, np.bool_)
    positions = []
    for start in range(0, len(content), _SLICE_BYTES):
        part = content[start : start + _SLICE_BYTES]
        mask[len(part) :] = False
        np.equal(part, byte, out=mask[: len(part)])
        words = mask.view(np.uint64)
        used = np.flatnonzero(words != 0)
        within = np.flatnonzero(words[used].view(np.bool_))
        positions.append(used[within >> 3] * 8 + (within & 7) + start)
    return np.concatenate(positions)


def is_line_count(rows: int, data: bytes) -> bool:
    """True if ``data`` has ``rows`` non-empty lines.

    If a parser that skips empty lines finds the same number of rows, no quoted field has a newline. Each
    row has one newline outside quotes, so a newline inside quotes would make more lines than rows.
    """
    content = np.frombuffer(data, np.uint8)
    parts = (content[start : start + _SLICE_BYTES] for start in range(0, len(content), _SLICE_BYTES))
    lines = sum(int(np.count_nonzero(part == _NEWLINE)) for part in parts)
    if lines != rows:
        ends = content == _NEWLINE
        lines -= int(np.count_nonzero(ends[1:] & ends[:-1])) + int(ends[0])
    return lines == rows
