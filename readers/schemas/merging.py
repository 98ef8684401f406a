"""Converts schemas of files to Spark's types, and merges several schemas into one for all files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types

from flip27_source.errors import SchemaError

_MOST_DIGITS = 38
_LONG_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


class NoCommonTypeError(Exception):
    """No type of Spark can hold the values of both types."""


def spark_type(kind: pa.DataType, *, naive_is_utc: bool = False) -> pa.DataType:
    """Spark's type for a type of a file; the null type stays, on every level.

    Args:
        naive_is_utc: timestamps without a zone are instants to Spark, as in ORC and INT96 of Parquet.

    Raises:
        NoCommonTypeError: Spark has no such type.
    """
    inner = _stored_as(kind)
    if inner is not None:
        return spark_type(inner, naive_is_utc=naive_is_utc)
    if types.is_nested(kind):
        return _nested(kind, naive_is_utc)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC") if naive_is_utc or kind.tz is not None else pa.timestamp("us")
    if types.is_decimal(kind) and kind.precision <= _MOST_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    found = next((wanted for is_kind, wanted in _OTHERS if is_kind(kind)), kind if kind in _KEPT else None)
    if found is None:
        raise NoCommonTypeError(f"Spark has no type for {kind}")
    return found


def _stored_as(kind: pa.DataType) -> pa.DataType | None:
    """The type of the wrapped values, if the type wraps another one."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if types.is_dictionary(kind) else None


def _nested(kind: pa.DataType, naive_is_utc: bool) -> pa.DataType:
    def inner(child: pa.DataType) -> pa.DataType:
        return spark_type(child, naive_is_utc=naive_is_utc)

    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, inner(field.type)) for field in fields])
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type), inner(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(inner(kind.value_type))
    raise NoCommonTypeError(f"Spark has no type for {kind}")


_KEPT = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()}
_OTHERS = (
    (types.is_null, pa.null()),
    (types.is_uint8, pa.int16()),
    (types.is_uint16, pa.int32()),
    (types.is_uint32, pa.int64()),
    (types.is_uint64, pa.decimal128(20, 0)),
    (types.is_float16, pa.float32()),
    (types.is_date, pa.date32()),
    (lambda kind: types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind),
     pa.string()),
    (lambda kind: types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
     or types.is_fixed_size_binary(kind), pa.binary()),
)  # fmt: skip


def without_null_type(schema: pa.Schema, wanted: pa.DataType) -> pa.Schema:
    """``schema`` with ``wanted`` in place of the null type."""
    return pa.schema([pa.field(field.name, _without_null_type(field.type, wanted)) for field in schema])


def _without_null_type(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if types.is_null(kind):
        return wanted
    if types.is_struct(kind):
        return pa.struct(list(without_null_type(pa.schema(list(kind)), wanted)))
    if types.is_list(kind):
        return pa.list_(_without_null_type(kind.value_type, wanted))
    if types.is_map(kind):
        return pa.map_(_without_null_type(kind.key_type, wanted), _without_null_type(kind.item_type, wanted))
    return kind


def merged(found: Iterable[tuple[str, pa.Schema]], known: pa.Schema | None) -> pa.Schema:
    """One schema with the columns of all files, by name without regard to case.

    Args:
        found: a path and the schema there.
        known: columns with given types; their types in the files may differ.

    Raises:
        SchemaError: the types of a column in two files have no common type; the error names both files.
    """
    given = {field.name.lower() for field in known or ()}
    columns: dict[str, pa.Field] = {}
    seen_in: dict[str, str] = {}
    for path, schema in found:
        for field in schema:
            key = field.name.lower()
            other = columns.setdefault(key, field)
            if key not in given:
                columns[key] = pa.field(other.name, _widened(other, field, (seen_in.get(key, path), path)))
            seen_in.setdefault(key, path)
    return pa.schema(list(columns.values()))


def _widened(one: pa.Field, other: pa.Field, paths: tuple[str, str]) -> pa.DataType:
    try:
        return wider(one.type, other.type)
    except NoCommonTypeError:
        raise SchemaError(
            f"column {one.name} is {one.type} in {paths[0]} and {other.type} in {paths[1]}",
            remedy=f'set its type with .option("schemaHints", "{one.name} string"), or the whole schema',
        ) from None


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


def _integers(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return one if one.bit_width > other.bit_width else other


def _moments(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The common type of a date and a local timestamp; instants are not compatible with them."""
    if any(types.is_timestamp(kind) and kind.tz is not None for kind in (one, other)):
        raise NoCommonTypeError(f"{one} and {other}")
    return pa.timestamp("us")


def _has_digits(kind: pa.DataType) -> bool:
    return bool(types.is_decimal(kind) or types.is_integer(kind))


def _decimal_for(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    whole, scale = (max(numbers) for numbers in zip(_digits(one), _digits(other), strict=True))
    if whole + scale > _MOST_DIGITS:
        raise NoCommonTypeError(f"{one} and {other}")
    return pa.decimal128(whole + scale, scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """The digits before and after the point."""
    if types.is_integer(kind):
        return _LONG_DIGITS[kind.bit_width], 0
    return kind.precision - kind.scale, kind.scale


def _structs(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    fields = {one.field(number).name.lower(): one.field(number) for number in range(one.num_fields)}
    for number in range(other.num_fields):
        field = other.field(number)
        first = fields.setdefault(field.name.lower(), field)
        fields[field.name.lower()] = pa.field(first.name, wider(first.type, field.type))
    return pa.struct(list(fields.values()))


def _lists(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return pa.list_(wider(one.value_type, other.value_type))


def _maps(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return pa.map_(wider(one.key_type, other.key_type), wider(one.item_type, other.item_type))


_JOINS = (
    (types.is_struct, _structs),
    (types.is_map, _maps),
    (types.is_list, _lists),
    (types.is_integer, _integers),
    (types.is_floating, lambda _one, _other: pa.float64()),
    (_has_digits, _decimal_for),
    (types.is_temporal, _moments),
)
_HELD_BY_DOUBLE = {pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()}
