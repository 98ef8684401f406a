"""Times of records in splits and positions: numbers that a producer may have set to anything. Pure."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def datetime_or_none(milliseconds: int) -> dt.datetime | None:
    """The time so many milliseconds after 1970, UTC; None if its year is not in 1 to 9999."""
    try:
        return _EPOCH + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
