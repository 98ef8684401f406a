"""The basis of parsers of columns of texts, which parse ordinary texts together, and odd ones one by one.

What must not live here: the meaning of the texts, which belongs to ``values``, ``number_texts``,
``date_times`` and ``array_texts``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bools: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Parse: TypeAlias = Callable[[pa.Array], pa.Array]
"""Converts texts without nulls to values without nulls. Raises UnfitError."""

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Bounds: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"


class UnfitError(Exception):
    """The target cannot hold a value.

    Attributes:
        remedy: what the user can do; None if the remedy is the type string for the column.
    """

    def __init__(self, text: str, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason
        self.remedy = remedy


class NotOrdinaryError(Exception):
    """A column has texts that the fast path does not accept."""


@dataclass(frozen=True, slots=True)
class TextBytes:
    """The bytes of texts, one after the other; text ``n`` is ``content[bounds[n] : bounds[n + 1]]``."""

    content: Bytes
    bounds: Bounds

    @property
    def lengths(self) -> Bounds:
        """The number of bytes of each text."""
        return np.diff(self.bounds)


def bytes_of(texts: pa.Array) -> TextBytes:
    """The bytes of texts, none of which is null, without a copy."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return TextBytes(np.zeros(0, np.uint8), np.zeros(1, np.int32))
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    return TextBytes(content, bounds - bounds[0] if bounds[0] else bounds)


def array_of(kind: pa.DataType, content: Bytes, bounds: Bounds) -> pa.Array:
    """The array of ``kind``, string or binary, with these bytes."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)


def bounds_of(lengths: Any) -> Bounds:
    """The bounds of values with these lengths, one after the other: the first is 0."""
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def text_at(texts: pa.Array, row: int) -> str:
    """One text; bytes that are not UTF-8 are replaced."""
    value: bytes = texts[row : row + 1].view(pa.binary())[0].as_py()
    return value.decode("utf-8", "replace")


def refuse(texts: pa.Array, bad: Bools, reason: str, *, remedy: str | None = None) -> None:
    """Raise UnfitError for the first text that ``bad`` marks, if there is one."""
    if bad.any():
        raise UnfitError(text_at(texts, int(bad.argmax())), reason, remedy=remedy)


def lie_between(texts: pa.Array, low: str, high: str) -> bool:
    """True if no byte of the texts is below ``low`` or above ``high``."""
    content = bytes_of(texts).content
    return not content.size or bool(content.min() >= ord(low) and content.max() <= ord(high))


def parse_present(texts: pa.Array, parse: Parse, kind: pa.DataType) -> pa.Array:
    """The values of those texts that are not null; null for the others."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    if not texts.null_count:
        return parse(texts)
    return placed(parse(texts.drop_null()), np.asarray(texts.is_valid()))


def placed(values: pa.Array, mask: Bools) -> pa.Array:
    """An array with the values, in order, where the mask is true; null elsewhere."""
    return values if mask.all() else values.take(pa.array(np.cumsum(mask) - 1, mask=~mask))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinaryOrOdd:
    """Parser for a type whose texts are mostly ordinary.

    Attributes:
        fast: parses a column of ordinary texts. For other columns it raises NotOrdinaryError or
            pa.ArrowInvalid, or still returns the right values.
        ordinary: pattern of texts that ``fast`` accepts.
        slow: parses one text to an object that ``pa.array`` accepts for ``kind``; raises UnfitError.
    """

    kind: pa.DataType
    fast: Parse
    ordinary: str
    slow: Callable[[str], Any]

    def __call__(self, texts: pa.Array) -> pa.Array:
        try:
            return self.fast(texts)
        except (pa.ArrowInvalid, NotOrdinaryError):
            is_ordinary = pc.match_substring_regex(texts, rf"\A(?:{self.ordinary})\z")
        try:
            plain = self.fast(texts.filter(is_ordinary))
        except (pa.ArrowInvalid, NotOrdinaryError):
            return self._slowly(texts)
        odd = self._slowly(texts.filter(pc.invert(is_ordinary)))
        return interleaved(plain, odd, np.asarray(is_ordinary))

    def _slowly(self, texts: pa.Array) -> pa.Array:
        return pa.array([self.slow(text_at(texts, row)) for row in range(len(texts))], self.kind)


def interleaved(first: pa.Array, second: pa.Array, is_first: Bools) -> pa.Array:
    """The values of both arrays in their order, with those of ``first`` where ``is_first`` is true."""
    places = np.where(is_first, np.cumsum(is_first) - 1, len(first) + np.cumsum(~is_first) - 1)
    return pa.concat_arrays([first, second]).take(pa.array(places, pa.int64()))
