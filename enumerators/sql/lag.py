"""How far rows are held back by their own time (option lag). Pure: no I/O, no clock.

Transactions do not commit in the order of the times of their rows. So rows wait until no open transaction is
expected to commit an older time.
"""

from __future__ import annotations

import datetime as dt
import re

DEFAULT_LAG_S = 10.0

_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:(?P<between>[ T])\d\d:\d\d(?::\d\d(?:\.(?P<digits>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def newest_allowed(
    text: str, kind: str, *, now: dt.datetime, lag_s: float | None, zone: dt.tzinfo
) -> str | None:
    """The greatest time that may be read, in the form of ``text``; None if rows are not held back.

    Args:
        text: the newest value of the first cursor column, as users write it.
        lag_s: None for the default.
        zone: the zone of times that have none.

    Raises:
        ValueError: a lag is set, and the value is not a time.
    """
    lag = dt.timedelta(seconds=DEFAULT_LAG_S if lag_s is None else lag_s)
    if lag and lag_s is not None and not is_time(text, kind):
        raise ValueError(f"{text!r} of type {kind} is not a time")
    if not lag or not is_time(text, kind):
        return None
    allowed = now - lag
    form = _TIME.fullmatch(text)
    if form is None or form["between"] is None:
        # A date is complete when its day is over. A year after 9999 or BC is held back nevertheless.
        return str(_local(allowed, zone).date() - dt.timedelta(days=1))
    return _in_form(form, allowed, zone)


def ahead_of(text: str, now: dt.datetime, zone: dt.tzinfo) -> dt.timedelta:
    """How far a time is ahead of the clock; zero for dates and texts that are not times."""
    form = _TIME.fullmatch(text)
    if form is None or form["between"] is None:
        return dt.timedelta()
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return dt.timedelta()
    return max(dt.timedelta(), (time if time.tzinfo is not None else time.replace(tzinfo=zone)) - now)


def with_zone(text: str, zone: dt.tzinfo) -> str:
    """A time with the offset that it has in ``zone``; unchanged if it has a zone, or is no time."""
    form = _TIME.fullmatch(text)
    if form is None or form["zone"] is not None:
        return text
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=zone).isoformat(sep=" ")
    except ValueError:
        return text


def is_time(text: str, kind: str) -> bool:
    """Whether a cursor column contains times: by its type, or because its text is a time."""
    if kind.startswith(("timestamp", "date")):
        return True
    return kind in ("string", "large_string", "string_view") and _TIME.fullmatch(text) is not None


def _local(time: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """The greatest local time below which no later moment is: the clock may be about to be put back."""
    local = time.astimezone(zone)
    while local.fold == 0 and local.replace(fold=1).utcoffset() != local.utcoffset():
        local = local.replace(second=0, microsecond=0) - dt.timedelta(microseconds=1)
    return local


def _in_form(form: re.Match[str], time: dt.datetime, zone: dt.tzinfo) -> str:
    suffix = form["zone"] or ""
    if suffix in ("", "Z"):
        local = _local(time, dt.UTC if suffix else zone)
    else:
        sign = -1 if suffix[0] == "-" else 1
        digits = suffix[1:].replace(":", "").ljust(4, "0")
        offset = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        local = time.astimezone(dt.timezone(sign * offset))
    text = local.strftime(f"%Y-%m-%d{form['between']}%H:%M:%S")
    if form["digits"]:
        text += f".{local.microsecond:06d}000"[: 1 + len(form["digits"])]
    return text + suffix
