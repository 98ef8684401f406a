"""Finds Spark's type for a column of a database, and converts the column's values to it. No I/O."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.column_types import PgType, arrow_type
from flip27_source.enumerators.sql.dialects import Dialect, text_of
from flip27_source.readers.datetimes.calendars import DAY_US, localised
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
_POSTGRESQL_AS_TEXT = frozenset({"money"})
_FIRST_US = -62_135_596_800_000_000
_LAST_US = 253_402_300_799_999_999
_SHORTENED = r"^-?[0-9]\.[0-9]{6}e[+-][0-9]+$"


def spark_type(field: pa.Field) -> pa.DataType:
    """Spark's type for a column; string for types that Spark does not have."""
    metadata = field.metadata or {}
    named = metadata.get(b"POSTGRESQL:type", b"").decode()
    if named in _POSTGRESQL_AS_TEXT:
        return pa.string()
    if named == "oid":
        return pa.int64()
    if named == "numeric":
        return arrow_type(PgType(name="numeric", modifier=int(metadata.get(b"POSTGRESQL:typmod", b"-1"))))
    return _known(field.type)


def affinity(declared: str) -> pa.DataType | None:
    """The type that the declaration of a SQLite column implies; None if it implies none."""
    upper = declared.upper()
    return next((kind for part, kind in _AFFINITIES if part in upper), None)


def selected(field: pa.Field, target: pa.DataType, dialect: Dialect) -> str:
    """The SQL expression that selects a column: as text if text is wanted or Arrow has no type for it."""
    column = dialect.column(field.name)
    natural = spark_type(field)
    named = (field.metadata or {}).get(b"POSTGRESQL:type")
    if named == b"oid":
        column = f"CAST({column} AS bigint)"
    if named == b"inet":
        # A cast to text would append a netmask to single addresses, which PostgreSQL's output omits.
        return f"CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END"
    if dialect.name == "sqlite" and (pa.types.is_string(target) or pa.types.is_decimal(target)):
        # In a column that also has texts, the driver would write fractions with only six digits.
        return f"CASE typeof({column}) WHEN 'real' THEN quote({column}) ELSE {column} END"
    wants_text = pa.types.is_string(target) or pa.types.is_string(natural)
    if dialect.cast_to_text is not None and wants_text and not _is_text(field.type):
        return dialect.cast_to_text(column)
    return column


def converted(column: pa.Array, target: pa.DataType, time_zone: str) -> pa.Array:
    """A column of a result, converted to its type in the DataFrame.

    Raises:
        ValueError: a value does not fit; the message says which.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    _check_times(column)
    _check_fractions(column, target)
    if column.type.equals(target):
        return column
    if pa.types.is_timestamp(target):
        return _timestamps(column, target, time_zone)
    return column.cast(target)


def array_of(values: list[Any], target: pa.DataType) -> pa.Array:
    """The values that a Python driver returned, as a column; only text and nested values get the target type.

    Raises:
        ValueError, TypeError: the values have no common type.
    """
    if pa.types.is_string(target):
        return pa.array([value if value is None else as_text(value) for value in values], target)
    # The type of nested values cannot be inferred: an empty list does not show the type of its elements.
    return pa.array(values, target) if pa.types.is_nested(target) else pa.array(values)


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
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
    return kind if pa.types.is_string(known) and not _is_text(kind) else known


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_times(column: pa.Array) -> None:
    """Raise ValueError for years that Spark lacks, and for infinity, which looks like a year far away."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "us":
        numbers, first, last = column.cast(pa.int64()), _FIRST_US, _LAST_US
    elif pa.types.is_date32(column.type):
        numbers, first, last = column.cast(pa.int32()), _FIRST_US // DAY_US, _LAST_US // DAY_US
    else:
        return
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and (low < first or high > last):
        raise ValueError("a time is infinite, or its year is not between 1 and 9999")


def _check_fractions(column: pa.Array, target: pa.DataType) -> None:
    """Raise ValueError for fractions that SQLite's driver has shortened because the column also has texts."""
    if not (_is_text(column.type) and (pa.types.is_floating(target) or pa.types.is_integer(target))):
        return
    if pc.any(pc.match_substring_regex(column, _SHORTENED)).as_py():
        raise ValueError("the column has both fractions and texts")


def _timestamps(column: pa.Array, target: pa.DataType, time_zone: str) -> pa.Array:
    """Convert times to timestamps; times without a zone are in the session's time zone."""
    if _is_text(column.type):
        try:
            return column.cast(target)
        except pa.ArrowException:
            column = column.cast(pa.timestamp("us"))
    if not pa.types.is_timestamp(column.type):
        return column.cast(target)
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
