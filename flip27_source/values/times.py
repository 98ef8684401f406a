"""Times that a producer or a user may have set to anything. Pure."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def datetime_or_none(milliseconds: int | None, microseconds: int = 0) -> dt.datetime | None:
    """The time so long after 1970, UTC; None for None, and if its year is not in 1 to 9999."""
    if milliseconds is None:
        return None
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds, microseconds=microseconds)
    except OverflowError:
        return None


def event_time(text: object) -> dt.datetime | None:
    """An event time as tasks and enumerators report it, UTC if it has no zone; None if it is no time."""
    try:
        return in_utc(dt.datetime.fromisoformat(text), dt.UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def in_utc(moment: dt.datetime, zone: dt.tzinfo | None = None) -> dt.datetime:
    """The same moment in UTC; the first or last time that there is if its year is not in 1 to 9999 there.

    Args:
        zone: the zone of a moment that has none; by default that of this machine.
    """
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    try:
        return moment.astimezone(dt.UTC)
    except (OverflowError, ValueError):
        edge = dt.datetime.min if moment.year < 5000 else dt.datetime.max
        return edge.replace(tzinfo=dt.UTC)
