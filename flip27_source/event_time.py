"""EventTimeRange: the event times in a split, and the order of splits by them. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import msgspec

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


class EventTimeRange(msgspec.Struct, frozen=True, array_like=True):
    """The event times of the rows in a split.

    A split has one as the attribute or property ``event_time``, which is None if no row has a time. It may be
    wider than the rows, never narrower.

    Attributes:
        earliest_us, latest_us: the smallest and largest time, in microseconds since the epoch (UTC).
    """

    earliest_us: int
    latest_us: int

    @property
    def earliest(self) -> dt.datetime:
        """The smallest time, in UTC."""
        return _moment(self.earliest_us)

    @property
    def latest(self) -> dt.datetime:
        """The largest time, in UTC."""
        return _moment(self.latest_us)

    @property
    def middle_2us(self) -> int:
        """The middle, times two: by the middles splits are put in order."""
        return self.earliest_us + self.latest_us


def microseconds_of(moment: dt.datetime) -> int:
    """A time in microseconds since the epoch; one without a zone is in UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH.replace(tzinfo=dt.UTC)) // (
        _MICROSECOND
    )


def _moment(microseconds: int) -> dt.datetime:
    """A time; one beyond the years 1 to 9999 is the nearest of these."""
    try:
        return _EPOCH.replace(tzinfo=dt.UTC) + microseconds * _MICROSECOND
    except OverflowError:
        return (dt.datetime.min if microseconds < 0 else dt.datetime.max).replace(tzinfo=dt.UTC)


def local_range(earliest_us: int, latest_us: int, zone: dt.tzinfo) -> EventTimeRange:
    """The times between two local ones, in microseconds; where clocks change, it is as wide as they allow."""
    return EventTimeRange(min(_in_utc(earliest_us, zone)), max(_in_utc(latest_us, zone)))


def _in_utc(local_us: int, zone: dt.tzinfo) -> Iterator[int]:
    """A local time in UTC: with the offset before and after a change of the clocks."""
    for fold in (0, 1):
        try:
            local = (_EPOCH + dt.timedelta(microseconds=local_us)).replace(tzinfo=zone, fold=fold)
            offset = local.utcoffset() or dt.timedelta()
        except OverflowError:  # before year 1 or after year 9999
            offset = dt.timedelta()
        yield local_us - offset // _MICROSECOND


def event_time_of(split: Any) -> EventTimeRange | None:
    """The event times of a split; None if it has none, or if they are not known."""
    times = getattr(split, "event_time", None)
    return times if isinstance(times, EventTimeRange) else None


def place_of(split: Any) -> float:
    """Where a split is in event-time order; one without times is first, because its place does not matter.

    Two splits lose least in the order of their middles: between them, the watermark has to be delayed by the
    latest time of the first less the earliest of the second, and that is smaller than the other way round
    exactly if the middle of the first is the smaller one.
    """
    times = event_time_of(split)
    return float("-inf") if times is None else times.middle_2us
