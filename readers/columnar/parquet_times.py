"""The smallest and largest time in a column of a Parquet file, by the statistics in its footer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq

from flip27_source.errors import DiscoveryError
from flip27_source.event_time import EventTimeBucket, EventTimeRange
from flip27_source.readers.columnar.column_times import (
    dates_have_no_buckets,
    no_statistics,
    place_of_column,
    range_of_days,
)

_PER_SECOND = {"milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


def times_in_footer(
    path: str, metadata: pq.FileMetaData, column: str, zone: dt.tzinfo, *, by_instants: bool = False
) -> EventTimeRange | None:
    """The times in a column; None if no row has one.

    Args:
        zone: of dates. Spark takes a timestamp without a zone as it is, and so does its watermark.
        by_instants: dates are refused, because the files are cut by single instants.

    Raises:
        DiscoveryError: there is no such column of times, or a row group has no statistics of it.
    """
    number = place_of_column(path, _names(metadata), column)
    unit = _unit_of(path, metadata.schema.column(number), column)
    if unit is None and by_instants:
        raise dates_have_no_buckets(path, column)
    bounds = list(_bounds(path, metadata, number, column))
    if not bounds:
        return None
    earliest, latest = min(low for low, _ in bounds), max(high for _, high in bounds)
    if unit is None:
        return range_of_days(earliest, latest, zone)
    return _range(earliest, latest, unit)


def times_of_groups(metadata: pq.FileMetaData, bucket: EventTimeBucket) -> list[EventTimeRange | None]:
    """The times of each row group, by its statistics; None: they are not known."""
    unknown: list[EventTimeRange | None] = [None] * metadata.num_row_groups
    names = _names(metadata)
    name = bucket.name_among(names)
    if name is None:
        return unknown
    kind = _kind_of(metadata.schema.column(names.index(name)))
    if kind["Type"] != "Timestamp":
        return unknown
    chunks = (metadata.row_group(group).column(names.index(name)) for group in range(len(unknown)))
    statistics = (chunk.statistics for chunk in chunks)
    return [
        _range(one.min_raw, one.max_raw, _PER_SECOND[kind["timeUnit"]]) if one and one.has_min_max else None
        for one in statistics
    ]


def _range(earliest: int, latest: int, unit: int) -> EventTimeRange:
    return EventTimeRange(earliest * 1_000_000 // unit, -(-latest * 1_000_000 // unit))


def _names(metadata: pq.FileMetaData) -> list[str]:
    return [metadata.schema.column(number).path for number in range(len(metadata.schema))]


def _kind_of(column: pq.ColumnSchema) -> Any:
    return json.loads(column.logical_type.to_json())


def _unit_of(path: str, column: pq.ColumnSchema, name: str) -> int | None:
    """The parts of a second that values count; None if they are days."""
    kind = _kind_of(column)
    if kind["Type"] == "Date":
        return None
    if kind["Type"] == "Timestamp":
        return _PER_SECOND[kind["timeUnit"]]
    raise DiscoveryError(
        f"{path}: column {name} (option eventTimeColumn) is stored as {column.physical_type} "
        f"({kind['Type']}), which has no statistics of times",
        remedy="set eventTimeColumn to a column of timestamps or dates, or eventTimePattern if the paths "
        "have dates; Spark writes timestamps with statistics if spark.sql.parquet.outputTimestampType is "
        "TIMESTAMP_MICROS, not INT96",
    )


def _bounds(path: str, metadata: pq.FileMetaData, number: int, column: str) -> Iterator[tuple[int, int]]:
    """The smallest and largest number of each row group that has one."""
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(number)
        statistics = chunk.statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min_raw, statistics.max_raw
        elif chunk.num_values and (
            statistics is None or not statistics.has_null_count or statistics.null_count < chunk.num_values
        ):
            raise no_statistics(path, column)
