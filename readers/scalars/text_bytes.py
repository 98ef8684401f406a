"""The bytes of a column of texts as NumPy arrays, for proofs about all texts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Bounds: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"


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
