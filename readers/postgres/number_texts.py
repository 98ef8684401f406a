"""Converts texts of PostgreSQL's integers, floats and numerics to Arrow's numbers without loss.

The only exception: a numeric that becomes a float is rounded to the nearest float.

Arrow's own casts are not sufficient: they read ``0x10`` as an integer, make numbers beyond a float's range
infinite, and let a decimal of 39 digits overflow silently.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.postgres.parsers import Parse, UnfitError, parser, refuse
from flip27_source.readers.scalars.text_bytes import bytes_of
from flip27_source.readers.scalars.texts import SAFE_DIGITS, arrow_can_scale, plain_decimal
from flip27_source.schemas.new_columns import MOST_DIGITS

_INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
_FLOATS = {"float4": pa.float32(), "float8": pa.float64()}
NUMBERS = _INTEGERS | _FLOATS.keys() | {"numeric"}
"""The names of the types whose values are parsed here."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]{1,3})?")
_SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})
_ENOUGH = Context(prec=100)
_EXACTLY = "no number of this type is equal to it"


def number_parser(name: str, kind: pa.DataType) -> Parse | None:
    """The parser of texts of the type ``name``; None if ``kind`` is not a type of numbers."""
    if types.is_decimal128(kind):
        return _decimals(kind)
    if types.is_signed_integer(kind):
        return partial(_integers_of_floats, name, kind) if name in _FLOATS else _integers(kind)
    if kind not in _FLOATS.values():
        return None
    if name in _FLOATS:
        return partial(_floats_of_floats, name, kind)
    if name in _INTEGERS:
        return partial(_floats_of_integers, kind)
    return partial(_floats, "float4" if kind == pa.float32() else "float8")  # the nearest of each numeric


def _integers(kind: pa.DataType) -> Parse:
    """The parser of integers, and of numerics that are whole numbers."""
    limit = 1 << (kind.bit_width - 1)

    def fast(texts: pa.Array) -> pa.Array:
        if (bytes_of(texts).content == ord(".")).any():
            texts = pc.replace_substring_regex(texts, r"\.0+$", "")
        return texts.cast(kind)

    def slow(text: str) -> int:
        number = _finite(text, kind)
        # Check the size first: a number may have a hundred thousand digits.
        if number.adjusted() > MOST_DIGITS or not -limit <= number < limit:
            raise UnfitError(text, _range_text(kind))
        if number != int(number):
            raise UnfitError(text, "the value is not a whole number")
        return int(number)

    digits = SAFE_DIGITS[kind.bit_width]
    return parser(kind, ordinary=rf"-?[0-9]{{1,{digits}}}(?:\.0+)?", fast=fast, slow=slow, suits=_is_plain)


def _is_plain(texts: pa.Array) -> bool:
    """True if there are only digits, minus, point and slash; Arrow refuses numbers with slashes."""
    return bytes_of(texts).lie_between("-", "9")


def _range_text(kind: pa.DataType) -> str:
    limit = 1 << (kind.bit_width - 1)
    return f"it is not between {-limit} and {limit - 1}"


def _integers_of_floats(name: str, kind: pa.DataType, texts: pa.Array) -> pa.Array:
    floats = np.asarray(_floats(name, texts)).astype(np.float64)
    limit = 2.0 ** (kind.bit_width - 1)
    in_range = (floats >= -limit) & (floats < limit)
    refuse(texts, ~in_range, _range_text(kind))
    refuse(texts, floats != np.floor(floats), "the value is not a whole number")
    return pa.array(floats.astype(kind.to_pandas_dtype()))


def _floats(name: str, texts: pa.Array) -> pa.Array:
    """The values of a float column, in the column's precision."""
    kind = _FLOATS[name]
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        is_number = pc.match_substring_regex(texts, rf"\A(?:{_NUMBER.pattern}|NaN|-?Infinity)\z")
        refuse(texts, ~np.asarray(is_number), "it is not a number")
        raise
    odd = ~np.isfinite(np.asarray(values))
    if odd.any():
        odd &= ~np.asarray(pc.is_in(texts, pa.array(sorted(_SPECIAL))))
        refuse(texts, odd, f"it is beyond the range of a {kind}, or not a number")
    return values


def _floats_of_floats(name: str, kind: pa.DataType, texts: pa.Array) -> pa.Array:
    # The text of a float4 has only the digits that distinguish it from other float4s, so reading it as a
    # double would give another number.
    values = _floats(name, texts)
    if values.type == kind:
        return values
    exact = np.asarray(values)
    with np.errstate(over="ignore"):
        result = exact.astype(kind.to_pandas_dtype())
    remedy = "give the column the type double or string in the schema"
    refuse(texts, (result != exact) & ~np.isnan(exact), _EXACTLY, remedy=remedy)
    return pa.array(result)


def _floats_of_integers(kind: pa.DataType, texts: pa.Array) -> pa.Array:
    exact = np.asarray(_integers(pa.int64())(texts))
    result = exact.astype(kind.to_pandas_dtype())
    # The largest integers are rounded to 2**63, which is not a bigint.
    is_same = result < 2.0**63
    is_same[is_same] = result[is_same].astype(np.int64) == exact[is_same]
    refuse(texts, ~is_same, _EXACTLY, remedy="give the column the type bigint in the schema")
    return pa.array(result)


def _decimals(kind: pa.DataType) -> Parse:
    return parser(
        kind,
        ordinary=plain_decimal(kind),
        fast=lambda texts: texts.cast(kind),
        slow=lambda text: _decimal(text, kind),
        suits=lambda texts: _is_plain(texts) and arrow_can_scale(texts, kind.scale),
    )


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    number = _finite(text, kind)
    if number and number.adjusted() >= kind.precision - kind.scale:
        raise UnfitError(
            text, f"it has more than {kind.precision - kind.scale} digits before the decimal point"
        )
    result = number.quantize(Decimal(1).scaleb(-kind.scale), context=_ENOUGH)
    if result != number:
        raise UnfitError(text, f"it has more than {kind.scale} digits after the decimal point")
    return result


def _finite(text: str, kind: pa.DataType) -> Decimal:
    if text in _SPECIAL:
        kinds = "integers" if types.is_integer(kind) else "decimals"
        remedy = "give the column the type string or double in the schema"
        raise UnfitError(text, f"{kinds} have no such value", remedy=remedy)
    if not _NUMBER.fullmatch(text):
        raise UnfitError(text, "it is not a number")
    return Decimal(text)
