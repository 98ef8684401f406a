"""Converts texts of PostgreSQL's bytea in the form ``\\x0aff`` to binary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flip27_source.readers.postgres.parsers import array_of, refuse
from flip27_source.readers.scalars.text_bytes import Bounds, bytes_of

_NO_BYTE, _PREFIX = 0x100, 0x200
_REASON = "it is not a bytea in hexadecimal form"


def _byte_of_pair() -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    """A table from two characters, read as one number in the machine's byte order, to the byte they mean."""
    table = np.full(1 << 16, _NO_BYTE, np.uint16)
    pairs = [f"{byte:02x}".encode() for byte in range(256)]
    table[np.frombuffer(b"".join(pairs), np.uint16)] = np.arange(256)
    table[np.frombuffer(rb"\x", np.uint16)] = _PREFIX
    return table


_BYTE_OF_PAIR = _byte_of_pair()


def parse_hex(texts: pa.Array) -> pa.Array:
    """The bytes that the texts represent."""
    laid_out = bytes_of(texts)
    lengths = laid_out.lengths
    refuse(texts, (lengths < 2) | (lengths % 2 != 0), _REASON)
    found = _BYTE_OF_PAIR[laid_out.content.view(np.uint16)]
    bounds = laid_out.bounds >> 1
    prefixes = bounds[:-1]
    refuse(texts, found[prefixes] != _PREFIX, _REASON)
    is_byte = found < _NO_BYTE
    others = np.flatnonzero(~is_byte)
    if len(others) > len(prefixes):
        refuse(texts, np.bincount(np.searchsorted(bounds, others, side="right") - 1) > 1, _REASON)
    content = found[is_byte].astype(np.uint8)
    numbers: Bounds = np.arange(len(bounds), dtype=np.int32)
    return array_of(pa.binary(), content, bounds - numbers)
