"""Partition columns from the names of directories, with the types that Spark infers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyarrow import types

from flip27_source.options import Options
from flip27_source.readers.files.file_columns import HIVE_NULL, partitions_in
from flip27_source.readers.scalars.texts import decimal_type_of, is_double, is_whole
from flip27_source.schemas.new_columns import MOST_DIGITS, NoCommonTypeError, wider

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?")


def with_partitions(schema: pa.Schema, folders: Sequence[str], options: Options) -> pa.Schema:
    """``schema`` with partition columns at its end; one that it already has stays in its place."""
    columns: dict[str, pa.Field] = {}
    for name, values in partitions_in(folders, options).items():
        common = reduce(_wider_of_partitions, map(_type_of, values), pa.null())
        columns[name.lower()] = pa.field(name, pa.string() if types.is_null(common) else common)
    fields = [columns.pop(field.name.lower(), field) for field in schema]
    return pa.schema([*fields, *columns.values()])


def _type_of(value: str) -> pa.DataType:
    if value == HIVE_NULL:
        return pa.null()
    for kind in (pa.int32(), pa.int64()):
        if is_whole(value, kind):
            return kind
    decimal = decimal_type_of(value, most_zeros=MOST_DIGITS)
    if decimal is not None:
        return decimal
    if is_double(value):
        return pa.float64()
    for pattern, kind in ((_TIMESTAMP, pa.timestamp("us", "UTC")), (_DATE, pa.date32())):
        if pattern.fullmatch(value) and _is_moment(value):
            return kind
    return pa.string()


def _is_moment(value: str) -> bool:
    try:
        dt.datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _wider_of_partitions(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    pair = {one, other}
    if pair == {pa.date32(), pa.timestamp("us", "UTC")}:
        return pa.timestamp("us", "UTC")
    try:
        return wider(one, other)
    except NoCommonTypeError:
        return pa.string()
