"""Converts a column of a file to the column of the schema, on every level.

``WIDENING`` has the conversions of every format: those of Spark, and a few that Spark does not support
(nanoseconds). None loses a value silently. Columns that already fit are not changed. Old dates in files that
do not name their calendar are refused: reading could shift them by days. No I/O.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.schemas.merging import is_bytes, is_shredded, is_text
from flip27_source.schemas.new_columns import INTEGER_DIGITS

_SINCE_1900 = dt.datetime(1900, 1, 1)
"""From this day on, Spark's old hybrid calendar and its current calendar agree in all time zones."""
_GREGORIAN_SINCE = dt.date(1582, 10, 15)

_UNION = {b"flip27": b"member of a union"}
_MEMBER = re.compile(r"member\d+", re.IGNORECASE)

IsType: TypeAlias = Callable[[pa.DataType], bool]
Cast: TypeAlias = Callable[[pa.Array, pa.DataType], pa.Array]


class MismatchError(Exception):
    """A column cannot be converted to the type of the schema; the caller adds the place to the message."""

    def __init__(
        self, problem: str, remedy: str = "give the column a type that can represent the values of the files"
    ) -> None:
        super().__init__(problem)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A conversion of the values of some flat types.

    Attributes:
        stored: True if the conversion supports this stored type.
        becomes: True if a stored type (first) converts to a target type (second).
        cast: does the conversion; raises ArrowInvalid if a value does not fit, as Arrow's own cast does.
    """

    stored: IsType
    becomes: Callable[[pa.DataType, pa.DataType], bool]
    cast: Cast = pa.Array.cast


Conversions: TypeAlias = tuple[Conversion, ...]
"""The first conversion that supports both types is used."""


def to(becomes: IsType, stored: IsType, cast: Cast = pa.Array.cast) -> Conversion:
    """The conversion of every type of ``stored`` to every type of ``becomes``."""
    return Conversion(stored=stored, becomes=lambda _, target: becomes(target), cast=cast)


def nulls(rows: int, field: pa.Field) -> pa.Array:
    """The nulls for a column that the file does not have."""
    if not field.nullable and rows:
        raise MismatchError("it is missing in the file, but NOT NULL in the schema")
    return pa.nulls(rows, field.type)


def converted(column: pa.Array, field: pa.Field, conversions: Conversions) -> pa.Array:
    """``column`` with the type of ``field``.

    Args:
        conversions: the conversions of the format, for every level.

    Raises:
        MismatchError: no conversion exists, a value does not fit, or a null is not allowed.
    """
    _refuse_nulls(column, field)
    if _same(column.type, field.type):
        return column
    try:
        return _converted(column, field.type, conversions)
    except pa.ArrowInvalid as error:
        raise MismatchError(f"a value does not fit {field.type}: {error}") from None


def _refuse_nulls(column: pa.Array, field: pa.Field) -> None:
    if not field.nullable and column.null_count:
        raise MismatchError("it contains a null, but is NOT NULL in the schema")


def _same(stored: pa.DataType, target: pa.DataType) -> bool:
    # Equality of Arrow types ignores names and nullability inside lists and maps.
    return bool(stored.equals(target, check_metadata=True) if types.is_nested(target) else stored == target)


def _converted(column: pa.Array, target: pa.DataType, conversions: Conversions) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    stored = column.type
    if _same(stored, target):
        return column
    if types.is_null(stored):
        return pa.nulls(len(column), target)
    for is_kind, convert in _NESTED:
        if is_kind(target):
            return convert(column, target, conversions)
    for conversion in conversions:
        if conversion.stored(stored) and conversion.becomes(stored, target):
            return conversion.cast(column, target)
    raise _no_conversion(stored, target)


def _no_conversion(stored: pa.DataType, target: pa.DataType) -> MismatchError:
    return MismatchError(f"the file contains {stored}, which cannot be converted to {target} of the schema")


def union_member(name: str, kind: pa.DataType) -> pa.Field:
    """The field of a union's branch in the struct that stands for the union."""
    return pa.field(name, kind, metadata=_UNION)


def wanted_fields(target: pa.DataType | None) -> dict[str, pa.DataType] | None:
    """The types of a wanted struct's fields, by their names in lower case; None if all fields are wanted."""
    if not isinstance(target, pa.StructType):
        return None
    return {field.name.lower(): field.type for field in target}


def bits_of_sign_and_value(stored: pa.DataType) -> int:
    return int(stored.bit_width) + int(types.is_unsigned_integer(stored))


def _integer_becomes(stored: pa.DataType, target: pa.DataType) -> bool:
    bits = bits_of_sign_and_value(stored)
    if types.is_decimal(target):
        return int(target.precision - target.scale) >= INTEGER_DIGITS[stored.bit_width]
    if types.is_float64(target):
        return bits <= 33
    # Parquet stores no number in less than 32 bits. A narrower type only limits the values, which the
    # cast checks.
    return bool(types.is_signed_integer(target)) and (bits <= 32 or int(target.bit_width) >= bits)


def _decimal_becomes(stored: pa.DataType, target: pa.DataType) -> bool:
    whole_digits = stored.precision - stored.scale
    return (
        bool(types.is_decimal(target))
        and target.scale >= stored.scale
        and int(target.precision - target.scale) >= whole_digits
    )


def _cut_to_microseconds(column: pa.Array, target: pa.DataType) -> pa.Array:
    if column.type.unit == "ns":
        # Round down, also before 1970, as Java does when it truncates nanoseconds.
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(target)


def _struct(column: pa.Array, target: pa.DataType, conversions: Conversions) -> pa.Array:
    if not types.is_struct(column.type):
        raise _no_conversion(column.type, target)
    column = _without_offset(column)
    stored: dict[str, list[int]] = {}
    for index in range(column.type.num_fields):
        stored.setdefault(column.type.field(index).name.lower(), []).append(index)
    if is_shredded(column.type) and "typed_value" not in map(str.lower, target.names):
        raise MismatchError(
            "the file contains a shredded variant, which Arrow does not join", "use native reads"
        )
    _check_branches(column.type, target)
    children = []
    for field in target:
        indexes = stored.get(field.name.lower(), [])
        if len(indexes) > 1:
            raise MismatchError(f"field {field.name} occurs more than once, in different case")
        child = column.field(indexes[0]) if indexes else pa.nulls(len(column))
        children.append(_child(child, field, conversions, column))
    return pa.Array.from_buffers(target, len(column), column.buffers()[:1], children=children)


def _check_branches(stored: pa.StructType, target: pa.StructType) -> None:
    """Refuse to match unions whose branches differ: no field would match, and all values would be null."""
    is_union = any(field.metadata == _UNION for field in stored)
    pairs = [(stored, target)] if is_union or all(map(_MEMBER.fullmatch, target.names)) else []
    if is_union:
        of_target = {field.name.lower(): field.type for field in target}
        pairs += [(field.type, of_target.get(field.name)) for field in stored]
    for one, other in pairs:
        if not (types.is_struct(one) and other is not None and types.is_struct(other)):
            continue
        if one.num_fields and other.num_fields and not _names(one) & _names(other):
            raise MismatchError(
                f"it is a union with other branches: {one} has no field of {other}",
                "append new branches to a union at its end, or give the column the type of the new union: "
                "struct<member0, member1, ...>",
            )


def _names(kind: pa.StructType) -> set[str]:
    return {name.lower() for name in kind.names}


def _child(child: pa.Array, field: pa.Field, conversions: Conversions, parent: pa.Array) -> pa.Array:
    try:
        # A child of a null may be null even if the schema says NOT NULL.
        _refuse_nulls(child if field.nullable else child.filter(parent.is_valid()), field)
        return converted(child, field.with_nullable(True), conversions)
    except MismatchError as mismatch:
        raise MismatchError(f"field {field.name}: {mismatch}", mismatch.remedy) from None


def _list(column: pa.Array, target: pa.DataType, conversions: Conversions) -> pa.Array:
    stored = column.type
    if types.is_large_list(stored) or types.is_fixed_size_list(stored):
        column = column.cast(pa.list_(stored.value_field))
    elif not types.is_list(stored):
        raise _no_conversion(stored, target)
    column = _without_offset(column)
    values = converted(column.values, target.value_field, conversions)
    return pa.Array.from_buffers(target, len(column), column.buffers()[:2], children=[values])


def _map(column: pa.Array, target: pa.DataType, conversions: Conversions) -> pa.Array:
    if not types.is_map(column.type):
        raise _no_conversion(column.type, target)
    column = _without_offset(column)
    keys = converted(column.keys, target.key_field, conversions)
    items = converted(column.items, target.item_field, conversions)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return pa.Array.from_buffers(target, len(column), column.buffers()[:2], children=[entries])


def _without_offset(column: pa.Array) -> pa.Array:
    # A slice shares its buffers; concatenating it with an empty slice copies only its rows.
    return pa.concat_arrays([column[:0], column]) if column.offset else column


_Nested: TypeAlias = Callable[[pa.Array, pa.DataType, Conversions], pa.Array]

_NESTED: tuple[tuple[Callable[[pa.DataType], bool], _Nested], ...] = (
    (types.is_struct, _struct),
    (types.is_map, _map),
    (types.is_list, _list),
)

WIDENING: Conversions = (
    Conversion(stored=types.is_integer, becomes=_integer_becomes),
    Conversion(stored=types.is_decimal, becomes=_decimal_becomes),
    # With or without a zone, a timestamp keeps its clock time in UTC, in any session time zone.
    to(types.is_timestamp, types.is_timestamp, _cut_to_microseconds),
    to(lambda kind: types.is_float32(kind) or types.is_float64(kind), types.is_float16),
    to(types.is_float64, types.is_float32),
    to(types.is_date32, types.is_date64),
    to(lambda kind: types.is_timestamp(kind) and kind.tz is None, types.is_date),
    to(
        lambda kind: types.is_binary(kind) or types.is_string(kind),
        lambda kind: is_text(kind) or is_bytes(kind),
    ),
)
"""The conversions of every format."""


def refuse_dates_of_spark_2(column: pa.Array) -> pa.Array:
    """Check and return a column of a Parquet file from Spark 2, or from a later release in legacy mode."""
    return _since(column, _SINCE_1900.date(), "Spark 2 (rebase mode LEGACY)")


def refuse_dates_of_hive(column: pa.Array) -> pa.Array:
    """Check and return a column of an ORC file, whose dates may be Julian or Gregorian."""
    return _since(column, _GREGORIAN_SINCE, "Hive")


def _since(column: pa.Array, first_date: dt.date, calendar: str) -> pa.Array:
    for leaf in dates_in(column):
        first = first_date if types.is_date(leaf.type) else _SINCE_1900
        if pc.less(pc.min(leaf), pa.scalar(first, leaf.type)).as_py():
            raise MismatchError(
                f"it contains dates before {first.year} in the calendar of {calendar}, which is not "
                "supported",
                "use native reads",
            )
    return column


def dates_in(column: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps of a column, on every level."""
    return (leaf for leaf in leaves_in(column) if types.is_date(leaf.type) or types.is_timestamp(leaf.type))


def leaves_in(column: pa.Array) -> Iterator[pa.Array]:
    """The flat columns of a column, on every level."""
    kind = column.type
    if types.is_map(kind):
        yield from leaves_in(column.keys)
        yield from leaves_in(column.items)
    elif types.is_struct(kind):
        for child in column.flatten():
            yield from leaves_in(child)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        yield from leaves_in(column.flatten())
    else:
        yield column
