"""Gives the values of a column another type, exactly: each value is the same after a cast back. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def exactly(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values with another type.

    Raises:
        ArrowInvalid: the type cannot hold a value, or means something else.
        ArrowNotImplementedError: no value of these types is the same.
    """
    if values.type == target:
        return values
    if not types.is_string(target) and _meaning(values.type) not in ("text", _meaning(target)):
        raise pa.ArrowInvalid(f"a {values.type} means something else")
    found = _cast(values, target)
    back = _cast(found, values.type)
    if not back.equals(values):
        at = pc.index(pc.equal(back, values), False).as_py()
        raise pa.ArrowInvalid(f"{values[at]} would become {found[at]}")
    return found


def plain_texts(values: pa.Array) -> pa.Array:
    """The values as texts: of decimal numbers all digits, where Arrow writes some with an exponent."""
    texts = values.cast(pa.string())
    if types.is_decimal(values.type) and pc.any(pc.match_substring(texts, "E")).as_py():
        return pa.array([None if one is None else f"{one:f}" for one in values.to_pylist()], pa.string())
    return texts


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_string(target):
        return plain_texts(values)
    if any(map(types.is_decimal, (values.type, target))) and any(
        map(types.is_floating, (values.type, target))
    ):
        # Arrow's own cast does not always give the nearest number.
        values = values.cast(pa.string())
    if types.is_integer(values.type) and types.is_decimal(target):
        # From integers, Arrow makes only decimals that have room for all of them.
        values = values.cast(pa.decimal128(20, 0))
    return values.cast(target)


def _meaning(type: pa.DataType) -> str:
    """What values mean: a time of a calendar is no moment, and the number of neither is known."""
    if types.is_timestamp(type):
        return "local time" if type.tz is None else "moment"
    if types.is_temporal(type):
        return "local time"
    return "text" if types.is_string(type) else "value"
