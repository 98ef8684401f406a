"""Finds Spark's type for a column of a database, and converts the column's values to it. No I/O."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.column_types import PgType, arrow_type
from flip27_source.enumerators.sql.dialects import Dialect, text_of
from flip27_source.readers.columnar import conversions
from flip27_source.readers.datetimes.calendars import localised
from flip27_source.readers.schemas.merging import is_text
from flip27_source.schemas.ddl import type_name
from flip27_source.time_zones import java_zone

UTC_TIMESTAMP = pa.timestamp("us", "UTC")

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}
_AFFINITIES = (
    ("INT", pa.int64()),
    ("CHAR", pa.string()),
    ("CLOB", pa.string()),
    ("TEXT", pa.string()),
    ("BLOB", pa.binary()),
    ("REAL", pa.float64()),
    ("FLOA", pa.float64()),
    ("DOUB", pa.float64()),
)
_POSTGRESQL_AS_TEXT = frozenset({"money", "oid"})  # Arrow has them as signed integers
_DUCKDB_AS_TEXT = re.compile(r"\b(?:BIT|UHUGEINT)(?=[\[\]),]|$)")  # Arrow has them as binary and as signed
_FIRST_S = -62_135_596_800
_LAST_S = 253_402_300_799
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EXACT = 2**53
"""Every integer up to this one is a double."""
_EXACT_FLOAT = 2**24
_SHORTENED = r"^-?[0-9]\.[0-9]{6}e[+-][0-9]+$"


def spark_type(field: pa.Field) -> pa.DataType:
    """Spark's type for a column; string for types that Spark does not have."""
    metadata = field.metadata or {}
    named = _of_postgresql(field)
    if named == "oid":
        return pa.int64()
    if named == "numeric":
        return arrow_type(PgType(name="numeric", modifier=int(metadata.get(b"POSTGRESQL:typmod", b"-1"))))
    parts = list(_parts(field))
    # The dimensions of an array inside a composite value cannot be checked.
    has_arrays = bool(named) and pa.types.is_struct(field.type) and any(map(_is_array, parts))
    is_altered = any(_of_postgresql(part) in _POSTGRESQL_AS_TEXT for part in parts)
    if has_arrays or is_altered or _DUCKDB_AS_TEXT.search(metadata.get(b"DUCKDB:type", b"").decode()):
        return pa.string()
    return _known(field.type)


def _of_postgresql(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"POSTGRESQL:type", b"").decode())


def _is_array(field: pa.Field) -> bool:
    return bool(pa.types.is_list(field.type))


def _parts(field: pa.Field) -> Iterator[pa.Field]:
    """A column and the parts of its type, on every level."""
    yield field
    if pa.types.is_nested(field.type):
        for number in range(field.type.num_fields):
            yield from _parts(field.type.field(number))


def affinity(declared: str) -> pa.DataType | None:
    """The type that the declaration of a SQLite column implies; None if it implies none."""
    upper = declared.upper()
    return next((kind for part, kind in _AFFINITIES if part in upper), None)


def selected(field: pa.Field, target: pa.DataType, dialect: Dialect) -> str:
    """The SQL expression that selects a column: as text if text is wanted or Arrow has no type for it."""
    column = dialect.column(field.name)
    natural = spark_type(field)
    named = _of_postgresql(field)
    if named == "oid":
        column = f"CAST({column} AS bigint)"
    if named == "inet":
        # A cast to text would append a netmask to single addresses, which PostgreSQL's output omits.
        return f"CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END"
    if dialect.name == "sqlite":
        return _of_sqlite(column, target)
    wants_text = pa.types.is_string(target) or pa.types.is_string(natural)
    if dialect.cast_to_text is not None and wants_text and not is_text(field.type):
        return dialect.cast_to_text(column)
    if dialect.name == "postgresql" and pa.types.is_list(natural) and named != "int2vector":
        return _flat_array(column, field.name, target, dialect)
    return column


def _of_sqlite(column: str, target: pa.DataType) -> str:
    """The expression that keeps each value, although the driver gives a column the type of all its values."""
    if pa.types.is_string(target) or pa.types.is_binary(target) or pa.types.is_decimal(target):
        # In a column that also has texts or blobs, one driver would write fractions with only six digits, and
        # the other one has no type for integers among them. SQLite's versions quote infinity differently.
        real = f"WHEN 'real' THEN replace(quote({column}), '9.0e+999', 'Inf')"
        return f"CASE typeof({column}) {real} WHEN 'integer' THEN quote({column}) ELSE {column} END"
    if pa.types.is_integer(target):
        whole = f"typeof({column}) = 'real' AND {column} = CAST({column} AS INTEGER)"
        return f"CASE WHEN {whole} THEN CAST({column} AS INTEGER) ELSE {column} END"
    if pa.types.is_floating(target):
        inexact = f"typeof({column}) = 'integer' AND {column} NOT BETWEEN -{_EXACT} AND {_EXACT}"
        return f"CASE WHEN {inexact} THEN {column} || ' as a double' ELSE {column} END"
    return column


def _flat_array(column: str, name: str, target: pa.DataType, dialect: Dialect) -> str:
    """The expression that fails for an array of other dimensions, which the driver would flatten."""
    depth = str(target).count("list<")
    what = dialect.literal(
        f"column {name} has an array with more dimensions than its type, or with a lower bound other than 1, "
        "which Spark lacks; give the column the type string in .schema(...): ",
        "string",
    )
    fails = f"CAST({what} || CAST({column} AS text) AS integer)"
    other = f"array_dims({column}) !~ '^(\\[1:[0-9]+\\]){{{depth}}}$'"
    return f"CASE WHEN {other} THEN CASE {fails} WHEN 0 THEN {column} END ELSE {column} END"


def converted(column: pa.Array, target: pa.DataType, time_zone: str) -> pa.Array:
    """A column of a result, converted to its type in the DataFrame.

    Raises:
        ValueError: a value does not fit; the message says which.
    """
    _check_values(column)
    to_any = conversions.to(lambda _: True, lambda _: True, partial(_flat, time_zone=time_zone))
    try:
        result = conversions.converted(column, pa.field("", target), (to_any,))
    except conversions.MismatchError as error:
        raise ValueError(str(error)) from None
    _check_values(result)
    for leaf in conversions.leaves_in(result):
        if pa.types.is_string(leaf.type):
            leaf.validate(full=True)  # SQLite's texts may have any bytes
    return result


def array_of(values: list[Any], target: pa.DataType) -> pa.Array:
    """The values that a Python driver returned, as a column; only text and maps get the target type.

    Raises:
        ValueError, TypeError: the values have no common type.
    """
    if pa.types.is_string(target):
        return pa.array([value if value is None else as_text(value) for value in values], target)
    # Times of an array get their zone in ``converted``. A map cannot be inferred.
    return pa.array(values, target) if pa.types.is_map(target) else pa.array(values)


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return text_of(value.astimezone(dt.UTC))
    return text_of(value)


def _known(kind: pa.DataType) -> pa.DataType:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else UTC_TIMESTAMP
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        kind = pa.struct([field.with_type(_nested(field.type)) for field in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_nested(kind.key_type), _nested(kind.item_type))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_nested(kind.value_type))
    try:
        type_name(kind)
    except ValueError:
        return pa.string()
    return kind


def _nested(kind: pa.DataType) -> pa.DataType:
    """The type of a part of a nested type; a type that Spark lacks stays: the whole column becomes text."""
    known = _known(kind)
    return kind if pa.types.is_string(known) and not is_text(kind) else known


def _check_values(column: pa.Array) -> None:
    """Raise ValueError for values at any depth that Spark lacks although their Arrow type has them.

    Infinity of databases looks like a year far away.
    """
    for leaf in conversions.leaves_in(column):
        if pa.types.is_decimal(leaf.type):
            ends = pc.min_max(leaf).as_py().values()
            if any(end is not None and len(end.as_tuple().digits) > leaf.type.precision for end in ends):
                raise ValueError(f"a number has more than {leaf.type.precision} digits")
        if pa.types.is_date(leaf.type):
            leaf = leaf.cast(pa.timestamp("s"), safe=False)
        if pa.types.is_timestamp(leaf.type):
            per_second = _PER_SECOND[leaf.type.unit]
            ends = pc.min_max(leaf.cast(pa.int64()))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            first = max(_FIRST_S * per_second, 2 - 2**63)
            last = min((_LAST_S + 1) * per_second - 1, 2**63 - 2)
            if low is not None and (low < first or high > last):
                raise ValueError("a time is infinite, or its year is not between 1 and 9999")


def _flat(column: pa.Array, target: pa.DataType, time_zone: str) -> pa.Array:
    """A flat column of another type, as Spark casts it, but never another value."""
    kind = column.type
    _check_fractions(column, target)
    if pa.types.is_timestamp(target):
        return _timestamps(column, target, time_zone)
    if pa.types.is_date(target) and pa.types.is_timestamp(kind):
        column = _timestamps(column, pa.timestamp("us"), time_zone)
    elif pa.types.is_temporal(kind) != pa.types.is_temporal(target):
        _refuse_other(kind, target)
    if {"decimal", "float"} == {_family(kind), _family(target)}:
        column = column.cast(pa.string())  # Arrow's own cast rounds, and not always to the nearest number
    result = column.cast(target)
    if pa.types.is_floating(target):
        _check_whole_numbers(column, result)
    if pa.types.is_boolean(target) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        others = column.filter(pc.not_equal(column, result.cast(kind)))
        if len(others):
            raise ValueError(f"{others[0]} is neither 0 nor 1")
    return result


def _family(kind: pa.DataType) -> str | None:
    return "decimal" if pa.types.is_decimal(kind) else "float" if pa.types.is_floating(kind) else None


def _check_whole_numbers(column: pa.Array, result: pa.Array) -> None:
    """Raise ValueError for a whole number that a floating type rounds, and for one that is too great."""
    great = pc.greater_equal(pc.abs(result), _EXACT_FLOAT if result.type == pa.float32() else _EXACT)
    kept = result.filter(great)
    results = zip(kept.to_pylist(), kept.cast(pa.string()).to_pylist(), strict=True)
    for value, (exact, shortest) in zip(column.filter(great).to_pylist(), results, strict=True):
        text = str(value).strip()
        number = Decimal(text)
        if number.is_finite() != math.isfinite(exact):
            raise ValueError(f"{value} is too great for {result.type}")
        # A double may be the shortest text of a real, as a text with an exponent is that of a double.
        is_float = isinstance(value, float)
        nearest = Decimal(shortest if is_float or "e" in text.lower() else exact)
        # A greater double is no count, and rounded already.
        is_whole = number == number.to_integral_value() and not (is_float and abs(value) > _EXACT)
        if is_whole and nearest != number:
            raise ValueError(f"{value} would be rounded to {nearest}")


def _refuse_other(kind: pa.DataType, target: pa.DataType) -> None:
    """Only texts are both times and other values: the unit of a number is not known."""
    if not (is_text(kind) or pa.types.is_string(target)):
        raise ValueError(f"{kind} is not converted to {target}; convert it with option query")


def _check_fractions(column: pa.Array, target: pa.DataType) -> None:
    """Raise ValueError for fractions that SQLite's driver has shortened because the column also has texts."""
    if not (is_text(column.type) and (pa.types.is_floating(target) or pa.types.is_integer(target))):
        return
    if pc.any(pc.match_substring_regex(column, _SHORTENED)).as_py():
        raise ValueError("the column has both fractions and texts")


def _timestamps(column: pa.Array, target: pa.DataType, time_zone: str) -> pa.Array:
    """Convert times to timestamps; times without a zone are in the session's time zone."""
    if is_text(column.type):
        try:
            return column.cast(target)
        except pa.ArrowException:
            column = column.cast(pa.timestamp("us"))
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"{column.type} is not converted to a time; convert it with option query")
    column = column.cast(pa.timestamp("us", column.type.tz))
    if column.type.tz is None and target.tz is not None:
        return localised(column, java_zone(time_zone)).cast(target)
    if column.type.tz is not None and target.tz is None:
        zone = java_zone(time_zone)
        if isinstance(zone, ZoneInfo):
            return pc.local_timestamp(column.cast(pa.timestamp("us", zone.key)))
        offset = pa.scalar(zone.utcoffset(None), pa.duration("us"))
        return pc.add(pc.local_timestamp(column.cast(UTC_TIMESTAMP)), offset)
    return column.cast(target)
