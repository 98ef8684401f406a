"""The bytes of a column of texts as NumPy arrays, for proofs about all texts at once, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Bounds: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"
Int64s: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bools: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Positions: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True)
class TextBytes:
    """The bytes of texts, one after the other; text ``n`` is ``content[bounds[n] : bounds[n + 1]]``."""

    content: Bytes
    bounds: Bounds

    @property
    def lengths(self) -> Bounds:
        return np.diff(self.bounds)

    def lie_between(self, low: str, high: str) -> bool:
        """True if no byte is below ``low`` or above ``high``."""
        content = self.content
        return not content.size or bool(content.min() >= ord(low) and content.max() <= ord(high))


def bytes_of(texts: pa.Array) -> TextBytes:
    """The bytes of a string or binary array, without a copy; a null may have bytes too."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return TextBytes(np.zeros(0, np.uint8), np.zeros(1, np.int32))
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return TextBytes(content, bounds - bounds[0] if bounds[0] else bounds)


def array_of(kind: pa.DataType, content: Any, bounds: Bounds, validity: pa.Buffer | None = None) -> pa.Array:
    """The array of ``kind``, string or binary, with these bytes."""
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(bounds, np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)


def bounds_of(lengths: Any) -> Bounds:
    """The bounds of values with these lengths, one after the other: the first is 0."""
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def with_gaps(data: pa.Buffer, starts: Int64s, ends: Int64s) -> pa.BinaryArray:
    """The values ``data[start:end]``, ascending, at even indexes, and the gaps after them at odd ones.

    No byte is copied: take() copies only the values.
    """
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = data.size
    return pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), data])


def escaping(backslashes: Positions) -> Positions:
    """The backslashes that are not escaped: the first of each run of backslashes, the third, and so on."""
    begins_run = np.diff(backslashes, prepend=backslashes.dtype.type(-2)) != 1
    starts = np.maximum.accumulate(np.where(begins_run, backslashes, 0))
    unescaped: Positions = backslashes[(backslashes - starts) % 2 == 0]
    return unescaped
