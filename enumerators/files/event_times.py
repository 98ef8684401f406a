"""The event times of files: by dates in their paths, or by what their reader knows of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, OptionError, SplitReadError
from flip27_source.event_time import (
    MOST_BUCKETS,
    EventTimeRange,
    bucket_ranges,
    bucket_width_us,
    event_time_of,
)
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.reader import KnowsEventTimes, SplitReader
from flip27_source.source_options import EVENT_TIME_COLUMN, EVENT_TIME_ORDER, TIME_ZONE
from flip27_source.time_zones import java_zone

_THREADS = 16


def check_order(options: Options) -> None:
    """Refuse options that contradict each other.

    Raises:
        OptionError: eventTimeOrder is not set where it is needed, nothing tells the times of files, or
            another order is set.
    """
    pattern = options[opts.EVENT_TIME_PATTERN]
    if not options[EVENT_TIME_ORDER]:
        for option in (opts.EVENT_TIME_PATTERN, opts.EVENT_TIME_BUCKET):
            if options[option] is not None:
                raise OptionError(
                    f"option {option.name} is set, and eventTimeOrder is not",
                    remedy=f"set eventTimeOrder to true, or remove {option.name}",
                )
        return
    if options[opts.EVENT_TIME_BUCKET] is not None and options[EVENT_TIME_COLUMN] is None:
        raise OptionError(
            "option eventTimeBucket is set, and eventTimeColumn is not, which tells the rows of a bucket",
            remedy="set eventTimeColumn to the column of the watermark, or remove eventTimeBucket",
        )
    if options[opts.LATEST_FIRST]:
        raise OptionError(
            "options eventTimeOrder and latestFirst are both true",
            remedy="remove latestFirst: a watermark drops the rows of older files",
        )
    if pattern is None and options[EVENT_TIME_COLUMN] is None:
        raise OptionError(
            "option eventTimeOrder is true, and nothing tells the event times of a file",
            remedy="set eventTimePattern, such as dt=%Y-%m-%d, if the paths have dates, or eventTimeColumn "
            "for Parquet and ORC files",
        )


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Tells the event times of files.

    Attributes:
        known_by: what they are known by; if that changes, so do the times of files that were found before.
    """

    known_by: str
    _of: Callable[[FileSplit], EventTimeRange | None]
    _threads: int
    _column: str | None

    @classmethod
    def of(cls, options: Options, reader: type[SplitReader[Any]]) -> EventTimes | None:
        """The times that the options choose; None if files are read in another order.

        Raises:
            OptionError: the reader does not know the times in a file.
        """
        check_order(options)
        if not options[EVENT_TIME_ORDER]:
            return None
        name = options[TIME_ZONE] or "UTC"
        pattern, column = options[opts.EVENT_TIME_PATTERN], options[EVENT_TIME_COLUMN]
        if pattern is not None:
            zone = java_zone(name)
            return cls(f"{pattern.text} in {name}", lambda file: pattern.times_in(file.path, zone), 1, column)
        assert column is not None, "check_order has refused this"
        if not issubclass(reader, KnowsEventTimes):
            raise OptionError(
                f"option eventTimeOrder is true, and {reader.__qualname__} does not know the times of column "
                f"{column} in a file before it reads the file",
                remedy="set eventTimePattern: dates in the paths of the files; readers that know the times "
                "are parquet, orc, and your own with KnowsEventTimes",
            )
        knows: type[KnowsEventTimes] = reader
        return cls(
            f"column {column} in {name}",
            lambda file: knows.event_times(file, column, options),
            _THREADS,
            column,
        )

    def timed(self, files: Sequence[FileSplit]) -> list[FileSplit]:
        """The files with their event times.

        Raises:
            DiscoveryError: the times of a file cannot be known. AccessError: a file cannot be reached.
        """
        if self._threads == 1 or len(files) < 2:
            return [self._timed(file) for file in files]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="flip27-event-times") as threads:
            return list(threads.map(self._timed, files))

    def _timed(self, file: FileSplit) -> FileSplit:
        try:
            times = self._of(file)
        except AccessError:
            raise
        except SplitReadError as error:
            # The file is gone or bad: its task says so, by the options for that.
            LOG.warning("the event times of a file are not known, and it is read next: %s", error)
            times = None
        if file.bucket and times is not None and file.bucket.column == self._column:
            times = file.bucket.cut(times)
        return replace(file, event_time=times)


def in_buckets(file: FileSplit, options: Options) -> list[FileSplit]:
    """The file once for each bucket of its event times; none if it is not cut."""
    width_s, times = options[opts.EVENT_TIME_BUCKET], event_time_of(file)
    if width_s is None or times is None:
        return []
    column, given_us = options[EVENT_TIME_COLUMN], round(width_s * 1_000_000)
    assert column is not None, "check_order has refused this"
    width_us = bucket_width_us(times, given_us)
    if width_us > given_us:
        LOG.warning(
            "%s spans %d buckets of eventTimeBucket=%g s: at most %d of a file are read one by one, so its "
            "buckets are %g s long, which the watermark delay has to allow for",
            file.path,
            times.latest_us // given_us - times.earliest_us // given_us + 1,
            width_s,
            MOST_BUCKETS,
            width_us / 1_000_000,
        )
    buckets = bucket_ranges(times, width_us, column, options[TIME_ZONE])
    return [replace(file, bucket=bucket, event_time=part) for bucket, part in buckets]
