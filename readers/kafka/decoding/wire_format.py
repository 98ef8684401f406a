"""The wire format of schema registries: a zero byte, the id of the schema in four bytes, then the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEADER_BYTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """The values of a block without their headers.

    Attributes:
        rows: the rows of the values of each schema, by the schema's id.
        payloads: the bytes after the header, for each value of the block; empty if the value is too short.
        failures: why a value has no header, by its row.
    """

    rows: Mapping[int, pa.Array]
    payloads: pa.Array
    failures: Mapping[int, str]


def unframed(values: pa.Array) -> Framed:
    """Separate the headers from the values of a block; null values are in no group."""
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0))
    there = np.asarray(values.is_valid())
    starts = _starts(values)
    long_enough = there & (lengths >= HEADER_BYTES)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    is_framed = long_enough.copy()
    is_framed[long_enough] = data[starts[long_enough]] == 0
    rows = np.flatnonzero(is_framed)
    digits = data[starts[rows][:, None] + np.arange(1, HEADER_BYTES)].astype(np.int64)
    ids = digits @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    failures = {
        int(
            row
        ): f"it has no header of a schema registry: it starts with 0x{values[int(row)].as_py()[:5].hex()}"
        for row in np.flatnonzero(there & ~is_framed)
    }
    groups = {int(number): pa.array(rows[ids == number]) for number in np.unique(ids)}
    # Without a stop position, pyarrow computes a negative size for short values.
    longest = int(lengths.max()) if len(lengths) else 0
    payloads = pc.binary_slice(values, HEADER_BYTES, max(longest, HEADER_BYTES))
    return Framed(rows=groups, payloads=payloads, failures=failures)


def message_path(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes of a Protobuf payload's message type in its file, and the position of the message.

    Raises:
        ValueError: the payload does not begin with valid indexes.
    """
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), at
    path = []
    for _ in range(count):
        number, at = _varint(payload, at)
        path.append(number)
    return tuple(path), at


def _starts(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    offsets = np.frombuffer(values.buffers()[1] or b"", np.int32)
    return offsets[values.offset : values.offset + len(values)].astype(np.int64)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag encoding, and the position after it."""
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            found = (number >> 1) ^ -(number & 1)
            if found < 0:
                break
            return found, at
        shift += 7
    raise ValueError("its header of message types is invalid")
