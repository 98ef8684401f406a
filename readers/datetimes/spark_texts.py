"""Converts texts to dates and timestamps with the results of Spark's JSON and CSV readers.

Without ``dateFormat`` or ``timestampFormat``, Spark applies the rules of a cast from string, then tries
again without the letters ``GMT``. What lives here: Arrow's parser for columns that it reads as Spark does,
and a parser for single texts of any other format. What must not live here: patterns set by the user,
which are in ``formats``, and code that knows about files.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import OptionError
from flip27_source.time_zones import java_zone

_DAY_US = 86_400_000_000
_NAIVE = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS = 146_097
_ARROW_KNOWS_UNTIL_US = 2_114_380_800_000_000
"""1 January 2037: Arrow uses the transitions of a zone, but not the rule that applies after the last one."""
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

# Every matching text is a day of the calendar (29 February is left to the slow path), so a cast of
# matching texts cannot fail.
_DATE = (
    r"\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_CLOCK = r"[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_PLAIN_DATE = f"^{_DATE}$"
_PLAIN_TIMESTAMP = f"^{_DATE}(?:{_CLOCK})?$"
_ZONED_TIMESTAMP = rf"^{_DATE}{_CLOCK}(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)$"
_SHORTEST_ENDING_IN_Z = len("2020-01-01T00:00:00Z")

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_DATE_TEXT = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME_TEXT = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?"
_TIMESTAMP_TEXT = re.compile(
    rf"([+-]?)(\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_TIME_TEXT})?)?)?", re.ASCII | re.DOTALL
)
_HOUR_TEXT = re.compile(f"T{_TIME_TEXT}", re.ASCII | re.DOTALL)
_CLOCK_TEXT = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?", re.ASCII | re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


def parse_dates(strings: pa.Array, *, from_day_numbers: bool = False) -> tuple[pa.Array, pa.Array]:
    """Texts as ``date32``, and a mask of the texts that Spark calls malformed.

    Args:
        strings: texts; nulls stay null and are not malformed.
        from_day_numbers: also accept days since the epoch, as Spark's JSON (not CSV) reader does.
    """
    dates = _cast_or_none(strings, pa.date32(), _PLAIN_DATE)
    if dates is None:
        plain = _matches(strings, _PLAIN_DATE)
        rest = pc.and_(pc.is_valid(strings), pc.invert(plain))
        slow = [
            date_days(text, from_day_numbers=from_day_numbers) for text in strings.filter(rest).to_pylist()
        ]
        dates = pa.nulls(len(strings), pa.date32())
        dates = pc.replace_with_mask(dates, plain, strings.filter(plain).cast(pa.date32()))
        dates = pc.replace_with_mask(dates, rest, pa.array(slow, pa.int32()).cast(pa.date32()))
    return dates, lost(strings, dates)


def parse_timestamps(strings: pa.Array, time_zone: str | None) -> tuple[pa.Array, pa.Array]:
    """Texts as timestamps, and a mask of the texts that Spark calls malformed.

    Args:
        strings: texts; nulls stay null and are not malformed.
        time_zone: the zone of texts without a zone; the result is ``timestamp[us, UTC]``. None for
            ``timestamp_ntz``: a text with a zone is malformed, and the result is ``timestamp[us]``.
    """
    zone = None if time_zone is None else java_zone(time_zone)
    times = _cast_or_none(strings, _NAIVE, _PLAIN_TIMESTAMP)
    if times is not None:
        times = localised(times, zone)
    elif zone is None or (times := _zoned_or_none(strings)) is None:
        times = _timestamps_in_many_spellings(strings, zone)
    return times, lost(strings, times)


def _zoned_or_none(strings: pa.Array) -> pa.Array | None:
    """All texts as timestamps if each ends in Z and has seconds, which Spark requires."""
    all_in_z = pc.all(pc.ends_with(strings, "Z"), min_count=0).as_py()
    if not all_in_z or (pc.min(pc.binary_length(strings)).as_py() or 0) < _SHORTEST_ENDING_IN_Z:
        return None
    return _cast_or_none(strings, _UTC, _ZONED_TIMESTAMP)


def _timestamps_in_many_spellings(strings: pa.Array, zone: tzinfo | None) -> pa.Array:
    kind = _NAIVE if zone is None else _UTC
    times = pa.nulls(len(strings), kind)
    plain = _matches(strings, _PLAIN_TIMESTAMP)
    times = pc.replace_with_mask(times, plain, localised(strings.filter(plain).cast(_NAIVE), zone))
    rest = pc.and_(pc.is_valid(strings), pc.invert(plain))
    if zone is not None:
        zoned = _matches(strings, _ZONED_TIMESTAMP)
        times = pc.replace_with_mask(times, zoned, strings.filter(zoned).cast(_UTC))
        rest = pc.and_(rest, pc.invert(zoned))
    slow = [timestamp_us(text, zone) for text in strings.filter(rest).to_pylist()]
    return pc.replace_with_mask(times, rest, pa.array(slow, pa.int64()).cast(kind))


def _cast_or_none(strings: pa.Array, kind: pa.DataType, first: str) -> pa.Array | None:
    """Arrow's result for the whole column; None if Arrow rejects any text.

    It is tried only if the first text matches ``first``, because a rejection takes ten times as long as
    parsing. For ``date32`` and timestamps without a zone, Arrow accepts no text that Spark rejects or
    reads differently; tests compare the two over all formats.
    """
    if strings.null_count < len(strings):
        text = strings[0] if strings[0].is_valid else strings[pc.index(strings.is_valid(), True).as_py()]
        if not re.match(first, text.as_py(), re.ASCII):
            return None
    try:
        return strings.cast(kind)
    except pa.ArrowInvalid:
        return None


def _matches(strings: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(strings, pattern), False)


def lost(strings: pa.Array, values: pa.Array) -> pa.Array:
    """True where a text has no value."""
    if values.null_count == strings.null_count:
        return pa.repeat(pa.scalar(False), len(strings))
    return pc.and_(pc.is_valid(strings), pc.is_null(values))


def localised(times: pa.Array, zone: tzinfo | None) -> pa.Array:
    """Local times as instants. As in Java, the earlier of two instants is used, and gaps shift forward."""
    if zone is None:
        return times
    if not isinstance(zone, ZoneInfo):
        offset = pa.scalar(zone.utcoffset(None), pa.duration("us"))
        return pc.subtract(times, offset).cast(_UTC)
    if zone.key == "UTC":
        return times.cast(_UTC)
    instants = pc.assume_timezone(times, zone.key, ambiguous="earliest", nonexistent="earliest")
    in_gap = pc.not_equal(pc.local_timestamp(instants), times)
    by_python = pc.fill_null(
        pc.or_(in_gap, pc.greater_equal(times, pa.scalar(_ARROW_KNOWS_UNTIL_US, _NAIVE))), False
    )
    instants = instants.cast(_UTC)
    if not pc.any(by_python, min_count=0).as_py():
        return instants
    # Arrow moves times in a gap to its edge; Python keeps the offset from before the gap, as Java does.
    # Each distinct time is looked up once: times far in the future are usually all the same.
    local = times.filter(by_python).cast(pa.int64()).dictionary_encode()
    micros = pa.array([us - offset_us(us, zone) for us in local.dictionary.to_pylist()], pa.int64())
    return pc.replace_with_mask(instants, by_python, micros.take(local.indices).cast(_UTC))


def offset_us(local_us: int, zone: tzinfo) -> int:
    """The offset of a local time. Years outside Python's range are moved by whole cycles of 400
    years: before year 1 local mean time applies, after 9999 the rules repeat."""
    days, micros = divmod(local_us, _DAY_US)
    ordinal = days + _EPOCH_ORDINAL
    if not 0 < ordinal <= date.max.toordinal():
        ordinal = (ordinal - 1) % _DAYS_IN_400_YEARS + 1
        ordinal += 23 * _DAYS_IN_400_YEARS if days > 0 else 0
    local = datetime.fromordinal(ordinal) + timedelta(microseconds=micros)
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)


def date_days(text: str, *, from_day_numbers: bool = False, has_second_try: bool = True) -> int | None:
    """One text of ``parse_dates``; None if it is malformed.

    Args:
        has_second_try: also try the text without the letters GMT, and as a day number.
    """
    days = _calendar_date_days(text)
    if not has_second_try:
        return days
    if days is None and "GMT" in text:
        days = _calendar_date_days(text.replace("GMT", ""))
    if days is None and from_day_numbers and _WHOLE_NUMBER.fullmatch(text):
        number = int(text)
        days = days_from_hybrid_calendar(number) if number in _INT32 else None
    return days


def _calendar_date_days(text: str) -> int | None:
    match = _DATE_TEXT.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return civil_days(int(sign + year), int(month or 1), int(day or 1))


def civil_days(year: int, month: int, day: int) -> int | None:
    """Days since the epoch in the proleptic Gregorian calendar, any year; None if the day is invalid."""
    cycles, year_in_cycle = divmod(year, 400)
    try:
        ordinal = date(year_in_cycle + 400, month, day).toordinal()
    except ValueError:
        return None
    days = ordinal - _EPOCH_ORDINAL + (cycles - 1) * _DAYS_IN_400_YEARS
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


def timestamp_us(text: str, zone: tzinfo | None, *, has_second_try: bool = True) -> int | None:
    """One text of ``parse_timestamps``, in microseconds; None if it is malformed.

    Args:
        has_second_try: also try the text without the letters GMT.
    """
    micros = _cast_timestamp_us(text, zone)
    if micros is None and has_second_try and zone is not None and "GMT" in text:
        micros = _cast_timestamp_us(text.replace("GMT", ""), zone)
    return micros


def _cast_timestamp_us(text: str, session_zone: tzinfo | None) -> int | None:
    trimmed = text.strip(_BLANKS)
    fields = _TIMESTAMP_TEXT.fullmatch(trimmed)
    clock = None
    if fields is None:
        # The letter T must be the first character, before any blank.
        clock = _HOUR_TEXT.fullmatch(trimmed) if text[:1] == "T" else _CLOCK_TEXT.fullmatch(trimmed)
        if clock is None:
            return None
    hour, minute, second, fraction, zone_name = (fields or clock).groups()[-5:]  # type: ignore[union-attr]
    try:
        own_zone = None if zone_name is None else java_zone(zone_name.strip(_BLANKS[:-1]))
    except OptionError:
        return None
    if session_zone is None and (own_zone is not None or fields is None):
        return None
    zone = own_zone or session_zone
    if fields is None:
        today = datetime.now(zone).date()
        days: int | None = today.toordinal() - _EPOCH_ORDINAL
    else:
        sign, year, month, day = fields.groups()[:4]
        days = civil_days(int(sign + year), int(month or 1), int(day or 1))
    clock_us = _clock_us(int(hour or 0), int(minute or 0), int(second or 0), fraction or "")
    if days is None or clock_us is None:
        return None
    local_us = days * _DAY_US + clock_us
    micros = local_us if zone is None else local_us - offset_us(local_us, zone)
    return micros if micros in _INT64 else None


def _clock_us(hour: int, minute: int, second: int, fraction: str) -> int | None:
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
