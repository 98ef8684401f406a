"""Refuses old dates in files that do not name their calendar: reading could shift them by days. No I/O."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.columnar.conversions import MismatchError

_PROLEPTIC_SINCE = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
"""From this day on, Spark's old hybrid calendar and its current calendar agree in all time zones."""
_GREGORIAN_SINCE = dt.date(1582, 10, 15)
_ZONES_SINCE = dt.datetime(1900, 1, 1)


def refuse_dates_of_spark_2(column: pa.Array, _field: pa.Field | None = None) -> pa.Array:
    """Check and return a column of a Parquet file from Spark 2, or from a later release in legacy mode."""
    for leaf in dates_in(column):
        earliest = pc.min(leaf.cast(pa.timestamp("us", "UTC"))).as_py()
        if earliest is not None and earliest < _PROLEPTIC_SINCE:
            raise MismatchError(
                "it contains dates before 1900 in the calendar of Spark 2 (rebase mode LEGACY), which is "
                "not supported"
            )
    return column


def refuse_dates_of_hive(column: pa.Array, _field: pa.Field | None = None) -> pa.Array:
    """Check and return a column of an ORC file, whose dates may be Julian or Gregorian."""
    for leaf in dates_in(column):
        limit = _GREGORIAN_SINCE if types.is_date(leaf.type) else _ZONES_SINCE
        if pc.less(pc.min(leaf), pa.scalar(limit, leaf.type)).as_py():
            raise MismatchError(
                f"it contains dates before {limit.year} in the calendar of Hive, which is not supported"
            )
    return column


def dates_in(column: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps of a column, on every level."""
    kind = column.type
    if types.is_date(kind) or types.is_timestamp(kind):
        yield column
    elif types.is_map(kind):
        yield from dates_in(column.keys)
        yield from dates_in(column.items)
    elif types.is_struct(kind):
        for child in column.flatten():
            yield from dates_in(child)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        yield from dates_in(column.flatten())
