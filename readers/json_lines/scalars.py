"""Converts the texts of JSON scalars to Arrow arrays.

Arrow's casts accept numbers that JSON does not, and text between two quotes may be an invalid JSON
string. So the texts are validated first. What must not live here: finding the texts in a line.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.readers.json_lines.tokens import MAX_NUMBER_DIGITS
from flip27_source.readers.scalars.text_bytes import Bytes, Positions, TextBytes, bytes_of
from flip27_source.schemas.new_columns import MOST_DIGITS

_DECODER = json.JSONDecoder()
_MINUS, _POINT, _ZERO, _LARGE_E, _SMALL_E, _SMALL_N = b"-.0Een"
_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = b'"\\ '


class NotProvedError(Exception):
    """The fast path cannot prove that its result equals Spark's."""


def is_scalar(kind: pa.DataType) -> bool:
    """True for the types that ``scalars_of`` supports."""
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
        NotProvedError: some text has another type or is invalid JSON.
    """
    text_bytes = bytes_of(texts)
    leading = _leading(text_bytes)
    if (leading == _SMALL_N).any():
        texts = pc.if_else(
            pc.equal(texts, pa.scalar("null", pa.string())), pa.scalar(None, pa.string()), texts
        )
        text_bytes = bytes_of(texts.drop_null())
        leading = _leading(text_bytes)
    if pt.is_boolean(kind):
        true = pc.equal(texts, pa.scalar("true", pa.string()))
        if not all_true(pc.or_(true, pc.equal(texts, pa.scalar("false", pa.string())))):
            raise NotProvedError("not a boolean")
        return true
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    if pt.is_null(kind):
        raise NotProvedError("not null")
    _check_numbers(text_bytes, leading, kind)
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:  # out of range, or not a whole number
        raise NotProvedError(str(error)) from None


def all_true(mask: pa.Array) -> bool:
    """True if no value in ``mask`` is false; null does not count as false."""
    return bool(pc.all(mask, min_count=0).as_py())


def strings_of(texts: pa.Array, *, may_have_escapes: bool) -> pa.Array:
    """The text between the quotes of strings, with escapes replaced; null stays null.

    Text without escapes is not checked for valid UTF-8.

    Raises:
        NotProvedError: some text is not a valid JSON string.
    """
    content = bytes_of(texts).content
    if len(content) and content.min() < _FIRST_PRINTABLE:
        raise NotProvedError("a control character in a string")
    quotes = int(np.count_nonzero(content == _QUOTE))
    if may_have_escapes and (content == _BACKSLASH).any():
        escaped = pc.fill_null(pc.match_substring(texts, "\\"), pa.scalar(False, pa.bool_()))
        try:
            raw = texts.filter(escaped).to_pylist()
            texts = pc.replace_with_mask(texts, escaped, pa.array(map(_unescaped, raw), pa.string()))
        except ValueError as error:  # invalid UTF-8 before or after unescaping, or an invalid JSON string
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


def _leading(texts: TextBytes) -> Bytes:
    """The first byte of each text."""
    if (texts.lengths <= 0).any():
        raise NotProvedError("no value")
    return texts.content[texts.bounds[:-1]]


def _check_numbers(texts: TextBytes, leading: Bytes, kind: pa.DataType) -> None:
    """Refuse numbers that Arrow accepts and JSON does not.

    These have a plus sign, leading zeros, hexadecimal digits, or a point without a digit on each side,
    or are NaN or infinite. Decimals with exponents are refused too: 1e-2147483647 crashes pyarrow 26 with
    a segmentation fault.
    """
    content, ends = texts.content, texts.bounds[1:]
    first: Positions = texts.bounds[:-1]
    # Arrow's decimals overflow silently.
    longest = MOST_DIGITS - kind.scale if pt.is_decimal(kind) else MAX_NUMBER_DIGITS
    if (ends - first).max() > longest:
        raise NotProvedError("a long number")
    minus = leading == _MINUS
    if minus.any():
        first = first + minus
        if (first == ends).any():
            raise NotProvedError("a minus sign alone")
        leading = content[first]
    if not _are_digits(leading):
        raise NotProvedError("not a number")
    after_zero = np.flatnonzero(leading == _ZERO)
    after_zero = first[after_zero[ends[after_zero] - first[after_zero] > 1]] + 1
    if len(after_zero) and not np.isin(content[after_zero], (_POINT, _LARGE_E, _SMALL_E)).all():
        raise NotProvedError("a leading zero")
    if not pt.is_integer(kind):
        _check_fractions(texts, kind)


def _check_fractions(texts: TextBytes, kind: pa.DataType) -> None:
    if not _are_digits(texts.content[texts.bounds[1:] - 1]):
        raise NotProvedError("no digit at the end")
    content = texts.content.tobytes()
    if b"e" in content or b"E" in content:
        if pt.is_decimal(kind):
            raise NotProvedError("a decimal with an exponent")
        if b".e" in content or b".E" in content:
            raise NotProvedError("no digit before an exponent")


def _are_digits(some: Bytes) -> bool:
    return not np.any(some - np.uint8(_ZERO) > 9)
