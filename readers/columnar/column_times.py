"""What the event times of Parquet and ORC files have in common: the column, its days, and errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from flip27_source.errors import DiscoveryError
from flip27_source.event_time import EventTimeRange, local_range
from flip27_source.schemas.column_names import place_of_name

_DAY_US = 86_400_000_000


def place_of_column(path: str, names: Sequence[str], column: str) -> int:
    """The place of a column among those of a file, without regard to case if that is clear.

    Raises:
        DiscoveryError: there is no such column.
    """
    place = place_of_name(column, names)
    if place is None:
        raise DiscoveryError(
            f"{path} has no column {column} (option eventTimeColumn); its columns are {list(names[:30])}",
            remedy="set eventTimeColumn to a column of timestamps or dates that all files have; or set "
            "eventTimePattern, if the paths have dates; or leave the file out with pathGlobFilter, or with "
            "flip27 edit skip if it waits already",
        )
    return place


def range_of_days(earliest: int, latest: int, zone: dt.tzinfo) -> EventTimeRange:
    """The times of days, which are counted since 1970."""
    return local_range(earliest * _DAY_US, (latest + 1) * _DAY_US - 1, zone)


def no_statistics(path: str, column: str) -> DiscoveryError:
    """The error for a file that does not tell the times in its rows."""
    return DiscoveryError(
        f"{path} has no statistics of column {column} (option eventTimeColumn)",
        remedy="set eventTimePattern, if the paths have dates; or write the file again with "
        "statistics; or leave it out with pathGlobFilter",
    )


def dates_have_no_buckets(path: str, column: str) -> DiscoveryError:
    """The error for a column of days, which begin when their zone says."""
    return DiscoveryError(
        f"{path}: column {column} (option eventTimeColumn) has dates, and eventTimeBucket cuts files by "
        "single instants",
        remedy="set eventTimeColumn to a column of timestamps, or remove eventTimeBucket",
    )
