"""Columns that a source has and its recorded schema does not have, or has with a narrower type.

``wider`` gives the smallest type of Spark that holds the values of two types without a loss. Pure: no I/O.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

WIDENING_MODE = "addNewColumnsWithTypeWidening"
"""The schemaEvolutionMode that also widens the types of known columns."""
RECORDING_MODES = ("addNewColumns", WIDENING_MODE)
"""The values of schemaEvolutionMode with which the schema grows."""


def additions(schema: pa.Schema, found: pa.Schema, *, widens: bool = False) -> pa.Schema:
    """Columns that only ``found`` has, and columns whose structs have more fields in ``found``.

    Names are case-insensitive.

    Args:
        widens: also return columns whose values in ``found`` need a wider type; otherwise the types of
            common columns do not matter. A type that cannot be widened stays.
    """
    known = {field.name.lower(): field for field in schema}
    new = []
    for field in found:
        held = known.get(field.name.lower())
        kind = field.type if held is None else _grown(held.type, field.type, widens)
        if held is None or kind != held.type:
            new.append(pa.field(field.name if held is None else held.name, kind))
    return pa.schema(new)


def evolved(schema: pa.Schema, new: pa.Schema, *, widens: bool = False) -> pa.Schema:
    """``schema`` with ``additions``: existing columns keep their places, new columns come last."""
    fields = {field.name.lower(): field for field in schema}
    for field in additions(schema, new, widens=widens):
        fields[field.name.lower()] = field
    return pa.schema(list(fields.values()))


def _grown(held: pa.DataType, found: pa.DataType, widens: bool) -> pa.DataType:
    """``held`` with the fields that only ``found`` has, and with wider types if ``widens``."""
    if types.is_struct(held) and types.is_struct(found):
        grown = evolved(pa.schema(list(held)), pa.schema(list(found)), widens=widens)
        return held if grown == pa.schema(list(held)) else pa.struct(list(grown))
    if types.is_list(held) and types.is_list(found):
        value = _grown(held.value_type, found.value_type, widens)
        return held if value == held.value_type else pa.list_(value)
    if types.is_map(held) and types.is_map(found):
        key = _grown(held.key_type, found.key_type, widens) if widens else held.key_type
        item = _grown(held.item_type, found.item_type, widens)
        return held if (key, item) == (held.key_type, held.item_type) else pa.map_(key, item)
    if not widens:
        return held
    try:
        return wider(held, found)
    except NoCommonTypeError:
        return held


MOST_DIGITS = 38
"""The most digits of a decimal of Spark and Arrow, before and after the point together."""
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""The digits that Spark gives a decimal for an integer, by the integer's bits."""


class NoCommonTypeError(Exception):
    """No type of Spark can hold the values of both types."""


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The smallest type that holds the values of both; both are types of Spark.

    Raises:
        NoCommonTypeError: there is no such type.
    """
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    for is_kind, join in _JOINS:
        if is_kind(one) and is_kind(other):
            return join(one, other)
    if {one, other} <= _HELD_BY_DOUBLE:
        return pa.float64()
    raise NoCommonTypeError(f"{one} and {other}")


def _moments(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The common type of a date and a local timestamp; instants are not compatible with them."""
    if any(types.is_timestamp(kind) and kind.tz is not None for kind in (one, other)):
        raise NoCommonTypeError(f"{one} and {other}")
    return pa.timestamp("us")


def _decimal_for(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    whole, scale = (max(numbers) for numbers in zip(_digits(one), _digits(other), strict=True))
    if whole + scale > MOST_DIGITS:
        raise NoCommonTypeError(f"{one} and {other}")
    return pa.decimal128(whole + scale, scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """The digits before and after the point."""
    if types.is_integer(kind):
        return INTEGER_DIGITS[kind.bit_width], 0
    return kind.precision - kind.scale, kind.scale


def _structs(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    fields = {one.field(number).name.lower(): one.field(number) for number in range(one.num_fields)}
    for number in range(other.num_fields):
        field = other.field(number)
        first = fields.setdefault(field.name.lower(), field)
        fields[field.name.lower()] = pa.field(first.name, wider(first.type, field.type))
    return pa.struct(list(fields.values()))


def _maps(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return pa.map_(wider(one.key_type, other.key_type), wider(one.item_type, other.item_type))


_JOINS = (
    (types.is_struct, _structs),
    (types.is_map, _maps),
    (types.is_list, lambda one, other: pa.list_(wider(one.value_type, other.value_type))),
    (types.is_integer, lambda one, other: max(one, other, key=lambda kind: kind.bit_width)),
    (types.is_floating, lambda _one, _other: pa.float64()),
    (lambda kind: types.is_decimal(kind) or types.is_integer(kind), _decimal_for),
    (types.is_temporal, _moments),
)
_HELD_BY_DOUBLE = {pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()}
