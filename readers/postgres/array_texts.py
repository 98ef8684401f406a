"""Splits texts of PostgreSQL's arrays, such as ``{1,NULL,"a b"}``, into lists of the texts of their elements.

What must not live here: the meaning of the elements, which belongs to ``values``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.readers.postgres.parsers import UnfitError
from flip27_source.readers.scalars.ordinary_texts import in_row_order
from flip27_source.readers.scalars.text_bytes import (
    Bools,
    Positions,
    TextBytes,
    array_of,
    bounds_of,
    bytes_of,
    escaping,
)

_OPEN, _CLOSE, _QUOTE, _BACKSLASH = b'{}"\\'
_BOUNDS = re.compile(rb"(?:\[-?[0-9]+:-?[0-9]+\])+=")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def element_lists(texts: pa.Array, *, dimensions: int, delimiter: str) -> pa.Array:
    """The arrays as lists of texts, nested ``dimensions`` deep; NULL is null, and lower bounds are dropped.

    Raises:
        UnfitError: an array has other dimensions, or a text is not an array.
    """
    if dimensions > 1:
        return _odd_lists(texts, dimensions, delimiter)
    marks = _marks_of(bytes_of(texts), delimiter)
    is_plain = marks.are_plain()
    if not is_plain.all():
        marks = _marks_of(bytes_of(texts.filter(pa.array(is_plain))), delimiter)
    plain = _plain_lists(marks)
    if plain is None:
        return _odd_lists(texts, dimensions, delimiter)
    if is_plain.all():
        return plain
    odd = _odd_lists(texts.filter(pa.array(~is_plain)), dimensions, delimiter)
    pieces = [
        (pa.array(np.flatnonzero(mask)), [lists]) for mask, lists in ((is_plain, plain), (~is_plain, odd))
    ]
    _, [lists] = in_row_order(pieces)
    return lists


def nested_lists(texts: pa.Array, *, delimiter: str) -> list[Any]:
    """The arrays as nested lists of texts, of any number of dimensions; lower bounds are dropped."""
    parser = _ArrayText(delimiter)
    return [_decoded(parser.parse(text)[0]) for text in texts.view(pa.binary()).to_pylist()]


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return value if value is None else value.decode()


def _list_type(dimensions: int, value: pa.DataType | None = None) -> pa.DataType:
    kind = value or pa.string()
    for _ in range(dimensions):
        kind = pa.list_(kind)
    return kind


@dataclass(frozen=True, slots=True)
class _Marks:
    """The characters that give texts of arrays their structure.

    Attributes:
        texts: the texts; the positions are only right if all of them are well-formed.
        escapes: positions of backslashes that escape the next byte.
        quotes: positions of quotes that are not escaped.
        structure: positions of braces and delimiters outside quotes.
    """

    texts: TextBytes
    escapes: Positions
    quotes: Positions
    structure: Positions

    def are_plain(self) -> Bools:
        """True for texts whose structure is that of an array with one dimension and no bounds."""
        content, starts, ends = self.texts.content, self.texts.bounds[:-1], self.texts.bounds[1:]
        kinds = content[self.structure]
        plain = np.ones(len(starts), np.bool_)
        for mark, places in ((_OPEN, starts), (_CLOSE, ends - 1)):
            marked = self.structure[kinds == mark]
            if not np.array_equal(marked, places):
                rows = np.searchsorted(ends, marked, side="right")
                plain &= np.bincount(rows, minlength=len(starts)) == 1
                plain &= np.isin(places, marked)
        return plain


def _marks_of(texts: TextBytes, delimiter: str) -> _Marks:
    """The marks of texts. After a text with an unpaired quote, later texts look quoted, so none is plain."""
    content = texts.content
    is_structure = (content == ord(delimiter)) | (content == _OPEN) | (content == _CLOSE)
    escapes = escaping(np.flatnonzero(content == _BACKSLASH))
    quotes = np.flatnonzero(content == _QUOTE)
    if len(escapes):
        is_escaped = np.zeros(len(content) + 1, np.bool_)
        is_escaped[escapes + 1] = True
        is_structure &= ~is_escaped[:-1]
        quotes = quotes[~is_escaped[quotes]]
    if len(quotes):
        # Inside from each opening quote up to its closing quote.
        steps = np.zeros(len(content), np.int8)
        steps[quotes[::2]] = 1
        steps[quotes[1::2]] = -1
        is_structure &= ~np.cumsum(steps, dtype=np.int8).view(np.bool_)
    return _Marks(texts, escapes, quotes, np.flatnonzero(is_structure))


def _plain_lists(marks: _Marks) -> pa.Array | None:
    """The lists of plain texts; None if some text turns out to be malformed."""
    content, structure = marks.texts.content, marks.structure
    kinds = content[structure]
    begins = np.flatnonzero(kinds != _CLOSE)
    starts, ends = structure[begins] + 1, structure[begins + 1]
    is_empty_array = (starts == ends) & (kinds[begins] == _OPEN) & (kinds[begins + 1] == _CLOSE)
    elements_begin = begins[~is_empty_array]
    starts, ends = starts[~is_empty_array], ends[~is_empty_array]
    if (starts == ends).any():
        return None
    is_quoted = content[starts] == _QUOTE
    bounds = np.stack([starts[is_quoted], ends[is_quoted] - 1], axis=1).reshape(-1)
    if not np.array_equal(bounds, marks.quotes):
        return None
    is_content = np.ones(len(content), np.bool_)
    for removed in (structure, marks.quotes, marks.escapes):
        is_content[removed] = False
    lengths = ends - starts - 2 * is_quoted
    if len(marks.escapes):
        lengths -= np.searchsorted(marks.escapes, ends) - np.searchsorted(marks.escapes, starts)
    elements = array_of(pa.string(), content[is_content], bounds_of(lengths))
    is_null = pc.equal(elements, "NULL")
    if is_null.true_count:
        is_null = pc.and_(is_null, pa.array(~is_quoted))
        elements = pc.if_else(is_null, pa.scalar(None, pa.string()), elements)
    opened = np.searchsorted(elements_begin, np.flatnonzero(kinds == _OPEN))
    offsets = np.append(opened, len(elements_begin)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), elements)


def _odd_lists(texts: pa.Array, dimensions: int, delimiter: str) -> pa.Array:
    parser = _ArrayText(delimiter)
    rows = []
    for text in texts.view(pa.binary()).to_pylist():
        value, depth = parser.parse(text)
        if depth != dimensions and value:
            raise UnfitError(
                text.decode("utf-8", "replace"),
                f"the array has {depth} dimension{'s' if depth > 1 else ''}, but the type has {dimensions}",
                remedy="give the column the type string in the schema, or, if all its arrays have the same "
                "number of dimensions, an array type with this number",
            )
        rows.append(value)
    return pa.array(rows, _list_type(dimensions, pa.binary())).view(_list_type(dimensions))


class _ArrayText:
    """Parses the text of any array."""

    def __init__(self, delimiter: str) -> None:
        mark = re.escape(delimiter.encode())
        plain = rb'[^"{}\\' + mark + rb"]"
        in_quotes = rb'"([^"\\]*(?:\\.[^"\\]*)*)"'
        bare = rb"(" + plain + rb"+(?:\\." + plain + rb"*)*|(?:\\." + plain + rb"*)+)"
        # An opening brace, a value with or without quotes, or a closing brace.
        self._before = re.compile(rb"(\{)|" + in_quotes + rb"|" + bare + rb"|(\})", re.DOTALL)
        self._behind = re.compile(rb"(" + mark + rb")|(\})")

    def parse(self, text: bytes) -> tuple[list[Any], int]:
        """The nested lists, and the number of their dimensions."""
        bounds = _BOUNDS.match(text)
        at = bounds.end() if bounds else 0
        outer: list[Any] = []
        stack = [outer]
        depths: set[int] = set()
        expects_value = True
        while at < len(text) and (len(stack) > 1 or not outer):
            match = (self._before if expects_value else self._behind).match(text, at)
            if match is None:
                break
            at = match.end()
            if match[0] == b"{" and expects_value:
                inner: list[Any] = []
                stack[-1].append(inner)
                stack.append(inner)
            elif match[0] == b"}" and len(stack) > 1 and not (expects_value and stack[-1]):
                if not stack.pop() and len(stack) > 1:
                    depths.add(len(stack))
                expects_value = False
            elif not expects_value and match[1]:
                expects_value = True
            elif expects_value and len(stack) > 1 and match[0] != b"}":
                stack[-1].append(_element(match))
                depths.add(len(stack) - 1)
                expects_value = False
            else:
                break
        if len(stack) > 1 or len(outer) != 1 or at != len(text) or len(depths) > 1:
            raise UnfitError(text.decode("utf-8", "replace"), "it is not an array")
        return outer[0], max(depths, default=1)


def _element(match: re.Match[bytes]) -> bytes | None:
    quoted, bare = match[2], match[3]
    if quoted is not None:
        return _ESCAPED.sub(rb"\1", quoted)
    return None if bare.upper() == b"NULL" else _ESCAPED.sub(rb"\1", bare)
