"""Texts of PostgreSQL's arrays, ``{1,NULL,"a b"}``, cut into lists of the texts of their elements.

What the elements mean belongs to ``values``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.readers.postgres.parsers import (
    Bounds,
    Bytes,
    Mask,
    TextBytes,
    UnfitError,
    array_of,
    bytes_of,
    interleaved,
)

_OPEN, _CLOSE, _QUOTE, _BACKSLASH = b'{}"\\'
_BOUNDS = re.compile(rb"(?:\[-?[0-9]+:-?[0-9]+\])+=")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def element_lists(texts: pa.Array, *, dimensions: int, delimiter: str) -> pa.Array:
    """Lists in lists, ``dimensions`` deep, of texts; NULL is null. Lower bounds are dropped.

    Args:
        texts: without nulls.

    Raises:
        UnfitError: an array has other dimensions, or a text is not an array.
    """
    is_plain = _are_plain(bytes_of(texts)) if dimensions == 1 else np.zeros(len(texts), np.bool_)
    if is_plain.all():
        plain = _plain_lists(texts, delimiter)
        if plain is not None:
            return plain
        is_plain = ~is_plain
    plain = _plain_lists(texts.filter(pa.array(is_plain)), delimiter)
    if plain is None:
        is_plain = np.zeros(len(texts), np.bool_)
        plain = pa.nulls(0, _list_type(1))
    odd = _odd_lists(texts.filter(pa.array(~is_plain)), dimensions, delimiter)
    return odd if dimensions > 1 else interleaved(plain, odd, is_plain)


def _list_type(dimensions: int, value: pa.DataType | None = None) -> pa.DataType:
    kind = value or pa.string()
    for _ in range(dimensions):
        kind = pa.list_(kind)
    return kind


def _are_plain(texts: TextBytes) -> Mask:
    """True for texts of one dimension without bounds, escapes, and braces within elements."""
    content, starts, ends = texts.content, texts.bounds[:-1], texts.bounds[1:]
    plain = np.ones(len(starts), np.bool_)
    for mark, places in ((_OPEN, starts), (_CLOSE, ends - 1)):
        found = np.flatnonzero(content == mark)
        if not np.array_equal(found, places):
            rows = np.searchsorted(ends, found, side="right")
            plain &= np.bincount(rows, minlength=len(starts)) == 1
            plain &= np.isin(places, found)
    escapes = np.flatnonzero(content == _BACKSLASH)
    plain[np.searchsorted(ends, escapes, side="right")] = False
    return plain


def _plain_lists(texts: pa.Array, delimiter: str) -> pa.Array | None:
    """The lists of plain texts; None if some text turns out to be malformed."""
    content = bytes_of(texts).content
    is_mark = (content == ord(delimiter)) | (content == _OPEN) | (content == _CLOSE)
    quotes = np.flatnonzero(content == _QUOTE)
    if len(quotes):
        if len(quotes) % 2:
            return None
        is_mark &= ~_quoted_bytes(content, quotes)
    marks = np.flatnonzero(is_mark)
    kinds = content[marks]
    openings = np.flatnonzero(kinds == _OPEN)
    if len(openings) != len(texts):
        return None
    begins = np.flatnonzero(kinds != _CLOSE)
    starts, ends = marks[begins] + 1, marks[begins + 1]
    is_empty_array = (starts == ends) & (kinds[begins] == _OPEN) & (kinds[begins + 1] == _CLOSE)
    kept = begins[~is_empty_array]
    starts, ends = starts[~is_empty_array], ends[~is_empty_array]
    if (starts == ends).any():
        return None
    is_quoted = content[starts] == _QUOTE
    if len(quotes):
        bounds = np.stack([starts[is_quoted], ends[is_quoted] - 1], axis=1).reshape(-1)
        if not np.array_equal(bounds, quotes):
            return None
    is_mark[quotes] = True
    elements = array_of(pa.string(), content[~is_mark], _running(ends - starts - 2 * is_quoted))
    elements = _with_nulls(elements, is_quoted)
    lists = np.searchsorted(kept, openings)
    offsets = np.append(lists, len(kept)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _quoted_bytes(content: Bytes, quotes: np.ndarray[Any, np.dtype[np.intp]]) -> Mask:
    """True from each opening quote up to its closing quote; ``quotes`` are their positions."""
    steps = np.zeros(len(content), np.int8)
    steps[quotes[::2]] = 1
    steps[quotes[1::2]] = -1
    inside: Mask = np.cumsum(steps, dtype=np.int8).view(np.bool_)
    return inside


def _running(lengths: np.ndarray[Any, Any]) -> Bounds:
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _with_nulls(elements: pa.Array, is_quoted: Mask) -> pa.Array:
    is_null = pc.equal(elements, "NULL")
    if not is_null.true_count:
        return elements
    is_null = pc.and_(is_null, pa.array(~is_quoted))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), elements)


def _odd_lists(texts: pa.Array, dimensions: int, delimiter: str) -> pa.Array:
    parser = _ArrayText(delimiter)
    rows = []
    for text in texts.view(pa.binary()).to_pylist():
        value, depth = parser.parse(text)
        if depth != dimensions and value:
            raise UnfitError(
                text.decode("utf-8", "replace"),
                f"it is an array of {depth} dimensions, and the type has {dimensions}",
                remedy="give the column the type string in the schema, or, if all its values have as many "
                "dimensions, an array type with them",
            )
        rows.append(value)
    return pa.array(rows, _list_type(dimensions, pa.binary())).view(_list_type(dimensions))


class _ArrayText:
    """A parser for any text of an array."""

    def __init__(self, delimiter: str) -> None:
        mark = re.escape(delimiter.encode())
        # One value or opening brace, or one delimiter or closing brace.
        self._before = re.compile(
            rb'(\{)|"((?:[^"\\]|\\.)*)"|((?:[^"{}\\' + mark + rb"]|\\.)+)|(\})", re.DOTALL
        )
        self._behind = re.compile(rb"(" + mark + rb")|(\})")

    def parse(self, text: bytes) -> tuple[list[Any], int]:
        """The nested lists, and how deep they are."""
        bounds = _BOUNDS.match(text)
        at = bounds.end() if bounds else 0
        outer: list[Any] = []
        stack = [outer]
        depths: set[int] = set()
        expects_value = True
        while at < len(text) and (len(stack) > 1 or not outer):
            found = (self._before if expects_value else self._behind).match(text, at)
            if found is None:
                break
            at = found.end()
            if found[0] == b"{" and expects_value:
                inner: list[Any] = []
                stack[-1].append(inner)
                stack.append(inner)
            elif found[0] == b"}" and len(stack) > 1 and not (expects_value and stack[-1]):
                stack.pop()
                expects_value = False
            elif not expects_value and found[1]:
                expects_value = True
            elif expects_value and len(stack) > 1 and found[0] != b"}":
                stack[-1].append(_element(found))
                depths.add(len(stack) - 1)
                expects_value = False
            else:
                break
        if len(stack) > 1 or len(outer) != 1 or at != len(text) or len(depths) > 1:
            raise UnfitError(text.decode("utf-8", "replace"), "it is not an array")
        return outer[0], max(depths, default=1)


def _element(found: re.Match[bytes]) -> bytes | None:
    quoted, bare = found[2], found[3]
    if quoted is not None:
        return _ESCAPED.sub(rb"\1", quoted)
    return None if bare.upper() == b"NULL" else _ESCAPED.sub(rb"\1", bare)
