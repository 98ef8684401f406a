"""The texts of JSON's scalars as Arrow arrays.

Arrow's casts take more for a number than JSON has, and what is between two quotes need not be a
string of JSON; here it is proved first. What must not live here: where the texts come from.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.readers.json_lines.tokens import MAX_NUMBER_DIGITS

_Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_Positions: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_MOST_DECIMAL_DIGITS = 38
_DECODER = json.JSONDecoder()
_MINUS, _POINT, _ZERO, _LARGE_E, _SMALL_E, _SMALL_N = b"-.0Een"
_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = b'"\\ '


class NotProvedError(Exception):
    """Something is not known to be read as Spark reads it."""


def is_scalar(kind: pa.DataType) -> bool:
    """True for the types that ``scalars_of`` gives."""
    return bool(
        pt.is_boolean(kind)
        or pt.is_signed_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or pt.is_decimal128(kind)
        or pt.is_null(kind)
    )


def scalars_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """``texts``, none of which is null, as ``kind``; the text ``null`` is null.

    Raises:
        NotProvedError: some text is something else, or not JSON.
    """
    laid_out = _LaidOut(texts)
    if (laid_out.leading == _SMALL_N).any():
        texts = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
        laid_out = _LaidOut(texts.drop_null())
    if pt.is_boolean(kind):
        true = pc.equal(texts, "true")
        if not all_true(pc.or_(true, pc.equal(texts, "false"))):
            raise NotProvedError("not a boolean")
        return true
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    if pt.is_null(kind):
        raise NotProvedError("not null")
    _check_numbers(laid_out, kind)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:  # out of range, or not a whole number
        raise NotProvedError(str(error)) from None


def all_true(mask: pa.Array) -> bool:
    """True when nothing in ``mask`` is false; nulls are not."""
    return bool(pc.all(mask, min_count=0).as_py())


def strings_of(texts: pa.Array, *, may_have_escapes: bool) -> pa.Array:
    """What stands between the quotes of strings, with its escapes replaced; null stays null.

    What has no escapes is not checked to be UTF-8.

    Raises:
        NotProvedError: some text is not a string of JSON.
    """
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(content) and content.min() < _FIRST_PRINTABLE:
        raise NotProvedError("a control character in a string")
    quotes = int(np.count_nonzero(content == _QUOTE))
    if may_have_escapes and (content == _BACKSLASH).any():
        escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
        try:
            raw = texts.filter(escaped).to_pylist()
            texts = pc.replace_with_mask(texts, escaped, pa.array(map(_unescaped, raw), pa.string()))
        except ValueError as error:  # not UTF-8, before or after, or not a string of JSON
            raise NotProvedError(str(error)) from None
        quotes -= sum(text.count('"') for text in raw)
    if quotes:
        raise NotProvedError("a quote in a string")
    return texts


def _unescaped(text: str) -> Any:
    plain, end = _DECODER.raw_decode(f'"{text}"')
    if end < len(text) + 2:
        raise ValueError("a quote in a string")
    return plain


class _LaidOut:
    """Texts as numpy sees them; none is null.

    Attributes:
        content: the bytes of all texts.
        starts, ends: where in it each text starts and ends.
        leading: the first byte of each text.
    """

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, content = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        self.starts, self.ends = bounds[:-1], bounds[1:]
        if (self.ends <= self.starts).any():
            raise NotProvedError("no value")
        self.content: _Bytes = np.frombuffer(content or b"", np.uint8)
        self.leading = self.content[self.starts]


def _check_numbers(texts: _LaidOut, kind: pa.DataType) -> None:
    """Refuse what Arrow takes for a number and JSON does not.

    That is a plus sign, zeros before other digits, hexadecimal digits, NaN, infinities, and a point
    without a digit on each side. Exponents of decimals are refused too: pyarrow 26 ends the process
    with a segmentation fault for 1e-2147483647.
    """
    content, leading = texts.content, texts.leading
    first: _Positions = texts.starts
    # Arrow's decimals overflow unnoticed.
    longest = _MOST_DECIMAL_DIGITS - kind.scale if pt.is_decimal(kind) else MAX_NUMBER_DIGITS
    if (texts.ends - first).max() > longest:
        raise NotProvedError("a long number")
    minus = leading == _MINUS
    if minus.any():
        first = first + minus
        if (first == texts.ends).any():
            raise NotProvedError("a minus sign alone")
        leading = content[first]
    if not _are_digits(leading):
        raise NotProvedError("not a number")
    after_zero = np.flatnonzero(leading == _ZERO)
    after_zero = first[after_zero[texts.ends[after_zero] - first[after_zero] > 1]] + 1
    if len(after_zero) and not np.isin(content[after_zero], (_POINT, _LARGE_E, _SMALL_E)).all():
        raise NotProvedError("a leading zero")
    if not pt.is_integer(kind):
        _check_fractions(texts, kind)


def _check_fractions(texts: _LaidOut, kind: pa.DataType) -> None:
    if not _are_digits(texts.content[texts.ends - 1]):
        raise NotProvedError("no digit at the end")
    content = texts.content.tobytes()
    if b"e" in content or b"E" in content:
        if pt.is_decimal(kind):
            raise NotProvedError("a decimal with an exponent")
        if b".e" in content or b".E" in content:
            raise NotProvedError("no digit before an exponent")


def _are_digits(some: _Bytes) -> bool:
    return not np.any(some - np.uint8(_ZERO) > 9)
