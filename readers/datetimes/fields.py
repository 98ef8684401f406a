"""Resolves the fields of a text to a date or a time: Java's strict resolver, and Spark's defaults."""

from __future__ import annotations

from datetime import tzinfo

from flip27_source.readers.datetimes.calendars import DAY_US, civil_days, offset_us
from flip27_source.readers.datetimes.patterns import (
    CLOCK_HALF_HOUR,
    CLOCK_HOUR,
    DAY,
    DAY_OF_YEAR,
    HALF,
    HALF_HOUR,
    HOUR,
    MINUTE,
    MONTH,
    NANO,
    OFFSET,
    SECOND,
    YEAR,
    DateTimePattern,
    Fields,
    UnreadableError,
)

_EPOCH_YEAR = 1970
_LARGEST_YEAR = 999_999_999
_LARGEST_OFFSET_S = 18 * 3600
_LONG = range(-(2**63), 2**63)
_INSTANTS = range(-9_223_372_036_854_000_000, 2**63)
"""The instants that a pattern can give. Spark converts whole seconds first, so the earliest second, in the
year -290308, overflows."""
_RANGES = {
    MONTH: range(1, 13), DAY: range(1, 32), DAY_OF_YEAR: range(1, 367), HOUR: range(24),
    CLOCK_HOUR: range(1, 25), HALF_HOUR: range(12), CLOCK_HALF_HOUR: range(1, 13), MINUTE: range(60),
    SECOND: range(60), YEAR: range(-_LARGEST_YEAR, _LARGEST_YEAR + 1),
}  # fmt: skip


def days_by_pattern(text: str, pattern: DateTimePattern) -> int | None:
    """Days since the epoch; None if the text is malformed."""
    try:
        fields = _checked(pattern.fields(text))
        hour = _hour(fields)
        has_whole_date = YEAR in fields and (DAY_OF_YEAR in fields or {MONTH, DAY} <= fields.keys())
        if hour is not None and has_whole_date:
            _check_offset(fields)
        return _days(fields)
    except UnreadableError:
        return None


def micros_by_pattern(text: str, pattern: DateTimePattern, zone: tzinfo | None) -> int | None:
    """Microseconds since the epoch; None if the text is malformed.

    Args:
        zone: the zone of texts without an offset; None for a timestamp without a time zone.
    """
    try:
        fields = _checked(pattern.fields(text))
        if zone is None and OFFSET in fields:
            return None
        _check_offset(fields)
        clock_s = ((_hour(fields) or 0) * 60 + fields.get(MINUTE, 0)) * 60 + fields.get(SECOND, 0)
        local_us = _days(fields) * DAY_US + clock_s * 1_000_000 + fields.get(NANO, 0) // 1000
    except UnreadableError:
        return None
    if OFFSET in fields:
        micros = local_us - fields[OFFSET] * 1_000_000
    else:
        micros = local_us if zone is None else local_us - offset_us(local_us, zone)
    return micros if micros in (_LONG if zone is None else _INSTANTS) else None


def _checked(fields: Fields) -> Fields:
    for field, allowed in _RANGES.items():
        if field in fields and fields[field] not in allowed:
            raise UnreadableError
    return fields


def _check_offset(fields: Fields) -> None:
    if abs(fields.get(OFFSET, 0)) > _LARGEST_OFFSET_S:
        raise UnreadableError


def _days(fields: Fields) -> int:
    year, day_of_year = fields.get(YEAR, _EPOCH_YEAR), fields.get(DAY_OF_YEAR)
    by_month = civil_days(year, fields.get(MONTH, 1), fields.get(DAY, 1))
    if day_of_year is None:
        days = by_month
    else:
        first, next_first = civil_days(year, 1, 1), civil_days(year + 1, 1, 1)
        days = None if first is None else first + day_of_year - 1
        if days is None or next_first is None or days >= next_first:
            raise UnreadableError
        if not _agrees(fields, days, by_month):
            raise UnreadableError
    if days is None:
        raise UnreadableError
    return days


def _agrees(fields: Fields, days: int, by_month: int | None) -> bool:
    """True if a given month and day match ``days``."""
    if MONTH in fields and DAY in fields:
        return days == by_month
    year = fields.get(YEAR, _EPOCH_YEAR)
    months = [fields[MONTH]] if MONTH in fields else range(1, 13)
    days_of_month = [fields[DAY]] if DAY in fields else range(1, 32)
    return any(civil_days(year, month, day) == days for month in months for day in days_of_month)


def _hour(fields: Fields) -> int | None:
    """The hour of the day; None if the text has none."""
    hours = {fields[field] % size for field, size in ((HOUR, 24), (CLOCK_HOUR, 24)) if field in fields}
    half_hours = {fields[field] % 12 for field in (HALF_HOUR, CLOCK_HALF_HOUR) if field in fields}
    half = fields.get(HALF)
    if half_hours and half is not None:
        hours |= {half * 12 + hour for hour in half_hours}
        half_hours, half = set(), None
    if len(hours) > 1 or len(half_hours) > 1:
        raise UnreadableError
    if hours:
        (hour,) = hours
        if half_hours - {hour % 12} or half not in (None, hour // 12):
            raise UnreadableError
        return hour
    if half_hours:
        return half_hours.pop()
    return 12 if half == 1 else None
