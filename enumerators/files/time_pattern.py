"""TimePattern: the dates in the paths of files. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

from flip27_source.errors import DiscoveryError
from flip27_source.event_time import EventTimeRange, local_range, microseconds_of

_MICROSECOND = dt.timedelta(microseconds=1)
_MOST_STARS = 2
"""With more of them, the time of a search grows with a high power of the length of a path."""


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A pattern of the dates in paths, such as ``dt=%Y-%m-%d/hour=%H``.

    Attributes:
        text: the pattern as it was given. smallest: its smallest unit, such as hour.
    """

    text: str
    smallest: str
    _expressions: tuple[re.Pattern[str], ...]

    @classmethod
    def parse(cls, text: str) -> TimePattern:
        """The pattern of an option's value.

        Raises:
            ValueError: with what is expected.
        """
        tokens = _TOKENS.findall(text)
        units = [_UNITS[token][0] for token in tokens if token in _UNITS]
        unknown = [one for one in tokens if one[0] == "%" and one != "%%" and one not in _UNITS]
        are_known = not unknown and tokens.count("*") <= _MOST_STARS
        if not (are_known and units and sorted(units, key=_NAMES.index) == _NAMES[: len(units)]):
            raise ValueError(
                "a pattern with %Y and all units down to the smallest of %m %d %H %M %S, each once, is "
                "expected, such as %Y/%m/%d or dt=%Y-%m-%d/hour=%H; * is any text without a slash, at most "
                "twice, and %% a percent sign"
            )
        between = ["*", *tokens, "*"]
        parts = [_expression_of(*three) for three in zip(between, tokens, between[2:], strict=False)]
        # Matches may overlap, and a star may stand for as much or as little text as possible: any other date
        # that the path may mean is found.
        found = "".join(parts)
        both = dict.fromkeys((found, found.replace(_STAR, f"{_STAR}?")))
        return cls(text, _NAMES[len(units) - 1], tuple(re.compile(f"(?={one})", re.DOTALL) for one in both))

    def times_in(self, path: str, zone: dt.tzinfo) -> EventTimeRange:
        """The times that the date in a path stands for: all of a day, for instance.

        Raises:
            DiscoveryError: the path has no such date, an invalid one, or several.
        """
        matches = (match.groupdict() for one in self._expressions for match in one.finditer(path))
        dates = {tuple((name, int(digits)) for name, digits in match.items()) for match in matches}
        try:
            if len(dates) != 1:
                raise ValueError("no date" if not dates else f"{len(dates)} different dates")
            begin = _begin_of(dict(dates.pop()))
            begin_us = microseconds_of(begin)
            return local_range(begin_us, begin_us + _length_us(begin, self.smallest) - 1, zone)
        except (ValueError, OverflowError) as error:
            raise DiscoveryError(
                f"{path} has no event time by the option eventTimePattern={self.text}: {error}",
                remedy="change the pattern so that each path has one date, or leave such files out with "
                "pathGlobFilter, or move them out of the path; flip27 edit skip leaves out one that "
                "waits already",
            ) from None

    def start_of(self, times: EventTimeRange, zone: dt.tzinfo) -> dt.datetime:
        """When the unit began in which some times of a file end, which may be those of a bucket of it."""
        count = _NAMES.index(self.smallest) + 1
        try:
            local = times.latest.astimezone(zone).timetuple()
            begin_us = microseconds_of(_begin_of(dict(zip(_NAMES[:count], local, strict=False))))
        except OverflowError:  # before year 1 or after year 9999
            return times.earliest
        return min(times.earliest, local_range(begin_us, begin_us, zone).earliest)


def _begin_of(parts: Mapping[str, int]) -> dt.datetime:
    return dt.datetime(**{"month": 1, "day": 1, **parts})  # type: ignore[arg-type]


def ends_a_day(times: EventTimeRange, zone: dt.tzinfo) -> bool:
    """Whether the largest time is the last microsecond of a day."""
    try:
        return times.latest.astimezone(zone).time() == dt.time.max
    except OverflowError:  # before year 1 or after year 9999
        return False


_UNITS = {
    "%Y": ("year", "[0-9]{4}"),
    "%m": ("month", "[0-9]{2}"),
    "%d": ("day", "[0-9]{2}"),
    "%H": ("hour", "[0-9]{2}"),
    "%M": ("minute", "[0-9]{2}"),
    "%S": ("second", "[0-9]{2}"),
}
_NAMES = [name for name, _ in _UNITS.values()]
_TOKENS = re.compile(r"%.?|\*|[^%*]+", re.DOTALL)


_STAR = "[^/]*"


def _expression_of(before: str, token: str, after: str) -> str:
    if token in _UNITS:
        name, digits = _UNITS[token]
        # A number is found as a whole: %Y%m%d is not in 1202401310.
        first, last = "(?<![0-9])" if before == "*" else "", "(?![0-9])" if after == "*" else ""
        return f"{first}(?P<{name}>{digits}){last}"
    return _STAR if token == "*" else re.escape("%" if token == "%%" else token)


def _length_us(begin: dt.datetime, unit: str) -> int:
    """How long the year, month, day, hour, minute or second is that begins then."""
    if unit == "year":
        return (begin.replace(year=begin.year + 1) - begin) // _MICROSECOND
    if unit == "month":
        return ((begin + dt.timedelta(days=31)).replace(day=1) - begin) // _MICROSECOND
    return dt.timedelta(**{f"{unit}s": 1}) // _MICROSECOND
