"""Refuses old dates in files that do not name their calendar: reading could shift them by days. No I/O."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.columnar.conversions import MismatchError

_SINCE_1900 = dt.datetime(1900, 1, 1)
"""From this day on, Spark's old hybrid calendar and its current calendar agree in all time zones."""
_GREGORIAN_SINCE = dt.date(1582, 10, 15)


def refuse_dates_of_spark_2(column: pa.Array, _field: pa.Field | None = None) -> pa.Array:
    """Check and return a column of a Parquet file from Spark 2, or from a later release in legacy mode."""
    return _since(column, _SINCE_1900.date(), "Spark 2 (rebase mode LEGACY)")


def refuse_dates_of_hive(column: pa.Array, _field: pa.Field | None = None) -> pa.Array:
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
