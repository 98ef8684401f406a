"""Days and times of the calendar as numbers since 1970-01-01, in any year and time zone."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

DAY_US = 86_400_000_000
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_DAYS_IN_400_YEARS = 146_097
_ARROW_KNOWS_UNTIL_US = 2_114_380_800_000_000
"""1 January 2037: Arrow uses the transitions of a zone, but not the rule that applies after the last one."""
_NAIVE, _UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_INT32 = range(-(2**31), 2**31)


def civil_days(year: int, month: int, day: int) -> int | None:
    """Days since the epoch in the proleptic Gregorian calendar, any year.

    None if the day is invalid, or its number has more than 32 bits.
    """
    cycles, year_in_cycle = divmod(year, 400)
    try:
        ordinal = date(year_in_cycle + 400, month, day).toordinal()
    except ValueError:
        return None
    days = ordinal - EPOCH_ORDINAL + (cycles - 1) * _DAYS_IN_400_YEARS
    return days if days in _INT32 else None


def days_from_hybrid_calendar(days: int) -> int | None:
    """Days since the epoch for a day number of Spark 1.5, which used the Julian calendar before
    15 October 1582. The calendar fields stay the same."""
    gregorian_start = -141_427
    if days >= gregorian_start:
        return days
    # From the Julian day number to the Julian calendar; years count from 1 March 4801 BC.
    shifted = days + 2_440_588 + 32_082
    quads, in_quad = divmod(shifted, 1461)
    year_in_quad = min(in_quad // 365, 3)
    day_of_year = in_quad - 365 * year_in_quad
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = (month_from_march + 2) % 12 + 1
    year = 4 * quads + year_in_quad - 4800 + (1 if month <= 2 else 0)
    first = civil_days(year, month, 1)
    return None if first is None else first + day - 1


def offset_us(local_us: int, zone: tzinfo, fold: int = 0) -> int:
    """The offset of a local time; ``fold`` as in Python. Years outside Python's range are moved by whole
    cycles of 400 years: before year 1 local mean time applies, after 9999 the rules repeat."""
    days, micros = divmod(local_us, DAY_US)
    ordinal = days + EPOCH_ORDINAL
    if not 0 < ordinal <= date.max.toordinal():
        ordinal = (ordinal - 1) % _DAYS_IN_400_YEARS + 1
        ordinal += 23 * _DAYS_IN_400_YEARS if days > 0 else 0
    local = datetime.fromordinal(ordinal) + timedelta(microseconds=micros)
    offset = local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)


def localised(times: pa.Array, zone: tzinfo | None, *, fold: int = 0) -> pa.Array:
    """Local times as instants. As in Java, the earlier of two instants is used, and gaps shift forward.

    Args:
        fold: 1 for the later of two instants; gaps shift back.
    """
    if zone is None:
        return times
    if not isinstance(zone, ZoneInfo):
        offset = pa.scalar(zone.utcoffset(None), pa.duration("us"))
        return pc.subtract(times, offset).cast(_UTC)
    if zone.key == "UTC":
        return times.cast(_UTC)
    ambiguous = "latest" if fold else "earliest"
    instants = pc.assume_timezone(times, zone.key, ambiguous=ambiguous, nonexistent="earliest")
    in_gap = pc.not_equal(pc.local_timestamp(instants), times)
    by_python = pc.fill_null(
        pc.or_(in_gap, pc.greater_equal(times, pa.scalar(_ARROW_KNOWS_UNTIL_US, _NAIVE))),
        pa.scalar(False, pa.bool_()),
    )
    instants = instants.cast(_UTC)
    if not pc.any(by_python, min_count=0).as_py():
        return instants
    # Arrow moves times in a gap to its edge; Python keeps the offset from before the gap, as Java does.
    # Each distinct time is looked up once: times far in the future are usually all the same.
    local = times.filter(by_python).cast(pa.int64()).dictionary_encode()
    micros = pa.array([us - offset_us(us, zone, fold) for us in local.dictionary.to_pylist()], pa.int64())
    return pc.replace_with_mask(instants, by_python, micros.take(local.indices).cast(_UTC))
