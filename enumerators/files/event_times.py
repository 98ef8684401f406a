"""The event times of files: by dates in their paths, or by what their reader knows of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from flip27_source.enumerators.files import options as opts
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import AccessError, OptionError, SplitReadError
from flip27_source.event_time import EventTimeRange
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
        if pattern is not None:
            raise OptionError(
                "option eventTimePattern is set, and eventTimeOrder is not",
                remedy="set eventTimeOrder to true, or remove eventTimePattern",
            )
        return
    if options[opts.LATEST_FIRST]:
        raise OptionError(
            "options eventTimeOrder and latestFirst are both true",
            remedy="remove latestFirst: a watermark drops the rows of older files",
        )
    if pattern is None and options[EVENT_TIME_COLUMN] is None:
        raise OptionError(
            "option eventTimeOrder is true, and nothing tells the event times of a file",
            remedy="set eventTimePattern, such as dt=%Y-%m-%d, if the paths have dates, or eventTimeColumn "
            "for Parquet files",
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
            return cls(f"{pattern.text} in {name}", lambda file: pattern.times_in(file.path, zone), 1)
        assert column is not None, "check_order has refused this"
        if not issubclass(reader, KnowsEventTimes):
            raise OptionError(
                f"option eventTimeOrder is true, and {reader.__qualname__} does not know the times of column "
                f"{column} in a file before it reads the file",
                remedy="set eventTimePattern: dates in the paths of the files; readers that know the times "
                "are parquet, and your own with KnowsEventTimes",
            )
        knows: type[KnowsEventTimes] = reader
        return cls(
            f"column {column} in {name}", lambda file: knows.event_times(file, column, options), _THREADS
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
        return replace(file, event_time=times)
