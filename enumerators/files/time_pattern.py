"""TimePattern: the dates in the paths of files. Pure."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from flip27_source.errors import DiscoveryError
from flip27_source.event_time import EventTimeRange

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A pattern of the dates in paths, such as ``dt=%Y-%m-%d/hour=%H``.

    Attributes:
        text: the pattern as it was given. smallest: its smallest unit, such as hour.
    """

    text: str
    smallest: str
    _expression: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> TimePattern:
        """The pattern of an option's value.

        Raises:
            ValueError: with what is expected.
        """
        tokens = _TOKENS.findall(text)
        units = [_UNITS[token][0] for token in tokens if token in _UNITS]
        unknown = [one for one in tokens if one[0] == "%" and one != "%%" and one not in _UNITS]
        if unknown or not units or sorted(units, key=_NAMES.index) != _NAMES[: len(units)]:
            raise ValueError(
                "a pattern with %Y and all units down to the smallest of %m %d %H %M %S, each once, is "
                "expected, such as %Y/%m/%d or dt=%Y-%m-%d/hour=%H; * is any text without a slash, %% a "
                "percent sign"
            )
        # A number is found as a whole: %Y%m%d is not in 1202401310.
        before = "(?<![0-9])" if tokens[0] in _UNITS else ""
        after = "(?![0-9])" if tokens[-1] in _UNITS else ""
        expression = before + "".join(map(_expression_of, tokens)) + after
        return cls(text, _NAMES[len(units) - 1], re.compile(expression, re.DOTALL))

    def times_in(self, path: str, zone: dt.tzinfo) -> EventTimeRange:
        """The times that the date in a path stands for: all of a day, for instance.

        Raises:
            DiscoveryError: the path has no such date, an invalid one, or several.
        """
        matches = (match.groupdict() for match in self._expression.finditer(path))
        dates = {tuple((name, int(digits)) for name, digits in match.items()) for match in matches}
        try:
            if len(dates) != 1:
                raise ValueError("no date" if not dates else f"{len(dates)} different dates")
            first = {"month": 1, "day": 1, **dict(dates.pop())}
            begin = dt.datetime(**first)  # type: ignore[arg-type]
            end_us = _us(_next(begin, self.smallest), zone)
            return EventTimeRange(earliest_us=_us(begin, zone), latest_us=end_us - 1)
        except (ValueError, OverflowError) as error:
            raise DiscoveryError(
                f"{path} has no event time by the option eventTimePattern={self.text}: {error}",
                remedy="change the pattern so that each path has one date, or leave such files out with "
                "pathGlobFilter, or move them out of the path",
            ) from None


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


def _expression_of(token: str) -> str:
    if token in _UNITS:
        name, digits = _UNITS[token]
        return f"(?P<{name}>{digits})"
    return "[^/]*" if token == "*" else re.escape("%" if token == "%%" else token)


def _next(begin: dt.datetime, unit: str) -> dt.datetime:
    """The begin of the next year, month, day, hour, minute or second."""
    if unit == "year":
        return begin.replace(year=begin.year + 1)
    if unit == "month":
        return (begin + dt.timedelta(days=31)).replace(day=1)
    return begin + dt.timedelta(**{f"{unit}s": 1})


def _us(local: dt.datetime, zone: dt.tzinfo) -> int:
    return (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND
