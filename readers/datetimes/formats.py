"""How a reader converts texts to dates and timestamps: by the given patterns, or by Spark's defaults.

A text that does not match its pattern is malformed. With ``enableDateTimeParsingFallback``, it is then
parsed like a cast. By default, this fallback is on only without a pattern. Without ``dateFormat`` or
``timestampFormat``, Spark applies the rules of a cast from string, then tries again without the letters
``GMT``. Arrow's parser reads columns that it reads as Spark does. What must not live here: code that knows
about files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import OptionError
from flip27_source.options import Options
from flip27_source.readers.datetimes import options as opts
from flip27_source.readers.datetimes.calendars import (
    DAY_US,
    EPOCH_ORDINAL,
    civil_days,
    days_from_hybrid_calendar,
    localised,
    offset_us,
)
from flip27_source.readers.datetimes.columns import local_times
from flip27_source.readers.datetimes.fields import days_by_pattern, micros_by_pattern
from flip27_source.readers.datetimes.patterns import DateTimePattern
from flip27_source.readers.scalars.ordinary_texts import Spelling, read_one_by_one, read_texts, with_odd_texts
from flip27_source.readers.scalars.text_bytes import Bools
from flip27_source.time_zones import java_zone

_NAIVE = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

# Every matching text is a day of the calendar (29 February is left to the slow path), so a cast of
# matching texts cannot fail.
_DATE = (
    r"\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_CLOCK = r"[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_PLAIN_TIMESTAMP = f"{_DATE}(?:{_CLOCK})?"
_ZONED_TIMESTAMP = rf"{_DATE}{_CLOCK}(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)"
_SHORTEST_ENDING_IN_Z = len("2020-01-01T00:00:00Z")

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_DATE_TEXT = re.compile(
    r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?P<time>[ T].*)?)?)?", re.ASCII | re.DOTALL
)
_TIME_TEXT = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?"
_TIMESTAMP_TEXT = re.compile(
    rf"([+-]?)(\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_TIME_TEXT})?)?)?", re.ASCII | re.DOTALL
)
_HOUR_TEXT = re.compile(f"T{_TIME_TEXT}", re.ASCII | re.DOTALL)
_CLOCK_TEXT = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?", re.ASCII | re.DOTALL)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


def parse_dates(strings: pa.Array, *, from_day_numbers: bool = False, exact: bool = False) -> pa.Array:
    """Texts as ``date32``; texts that Spark calls malformed become null.

    Args:
        from_day_numbers: also accept days since the epoch, as Spark's JSON (not CSV) reader does.
        exact: a date with a time is malformed.
    """
    read_one = partial(date_days, from_day_numbers=from_day_numbers, exact=exact)
    return read_texts(strings, [_DATES], read_one, pa.date32())


def parse_timestamps(strings: pa.Array, time_zone: str | None) -> pa.Array:
    """Texts as timestamps; texts that Spark calls malformed become null.

    Args:
        time_zone: the zone of texts without a zone; the result is ``timestamp[us, UTC]``. None for
            ``timestamp_ntz``: a text with a zone is malformed, and the result is ``timestamp[us]``.
    """
    zone = None if time_zone is None else java_zone(time_zone)
    plain = Spelling(
        pattern=_PLAIN_TIMESTAMP,
        suits=_begins_with(_PLAIN_TIMESTAMP),
        read=lambda texts: localised(texts.cast(_NAIVE), zone),
    )
    kind, spellings = (_NAIVE, [plain]) if zone is None else (_UTC, [plain, _ZONED])
    return read_texts(strings, spellings, partial(timestamp_us, zone=zone), kind)


def _begins_with(pattern: str) -> Callable[[pa.Array], bool]:
    """Tests the first text of a column, because a rejection by Arrow takes ten times as long as parsing."""
    compiled = re.compile(pattern, re.ASCII)

    def suits(strings: pa.Array) -> bool:
        if strings.null_count == len(strings):
            return True
        text = strings[0] if strings[0].is_valid else strings[pc.index(strings.is_valid(), True).as_py()]
        return compiled.fullmatch(text.as_py()) is not None

    return suits


def _all_end_in_z(strings: pa.Array) -> bool:
    """True if each text ends in Z and has seconds, which Spark requires."""
    all_in_z = pc.all(pc.ends_with(strings, "Z"), min_count=0).as_py()
    return bool(all_in_z and (pc.min(pc.binary_length(strings)).as_py() or 0) >= _SHORTEST_ENDING_IN_Z)


# For dates and for timestamps without a zone, Arrow accepts no text that Spark rejects or reads differently;
# tests compare the two over all formats.
_DATES = Spelling(pattern=_DATE, suits=_begins_with(_DATE), read=lambda texts: texts.cast(pa.date32()))
_begins_zoned = _begins_with(_ZONED_TIMESTAMP)
_ZONED = Spelling(
    pattern=_ZONED_TIMESTAMP,
    suits=lambda texts: _all_end_in_z(texts) and _begins_zoned(texts),
    read=lambda texts: texts.cast(_UTC),
)


def date_days(
    text: str, *, from_day_numbers: bool = False, has_second_try: bool = True, exact: bool = False
) -> int | None:
    """One text of ``parse_dates``; None if it is malformed.

    Args:
        has_second_try: also try the text without the letters GMT, and as a day number.
        exact: a date with a time is malformed.
    """
    days = _calendar_date_days(text, exact)
    if not has_second_try:
        return days
    if days is None and "GMT" in text:
        days = _calendar_date_days(text.replace("GMT", ""), exact)
    if days is None and from_day_numbers and _WHOLE_NUMBER.fullmatch(text):
        number = int(text)
        days = days_from_hybrid_calendar(number) if number in _INT32 else None
    return days


def _calendar_date_days(text: str, exact: bool) -> int | None:
    match = _DATE_TEXT.fullmatch(text.strip(_BLANKS))
    if match is None or (exact and match["time"]):
        return None
    sign, year, month, day = match.groups()[:4]
    return civil_days(int(sign + year), int(month or 1), int(day or 1))


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
        days: int | None = today.toordinal() - EPOCH_ORDINAL
    else:
        sign, year, month, day = fields.groups()[:4]
        days = civil_days(int(sign + year), int(month or 1), int(day or 1))
    clock_us = _clock_us(int(hour or 0), int(minute or 0), int(second or 0), fraction or "")
    if days is None or clock_us is None:
        return None
    local_us = days * DAY_US + clock_us
    micros = local_us if zone is None else local_us - offset_us(local_us, zone)
    return micros if micros in _INT64 else None


def _clock_us(hour: int, minute: int, second: int, fraction: str) -> int | None:
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DateTimeFormats:
    """The patterns of one reader; None if a pattern is not set.

    Attributes:
        fallback: parse texts that do not match like a cast; None: only if there is no pattern.
        day_numbers: the fallback reads a number as days since the epoch, as Spark's JSON reader does.
        exact: without a pattern for it, a date with a time is malformed; Spark drops the time.
    """

    date: DateTimePattern | None = None
    timestamp: DateTimePattern | None = None
    timestamp_ntz: DateTimePattern | None = None
    fallback: bool | None = None
    day_numbers: bool = False
    exact: bool = False

    @classmethod
    def of(cls, options: Options, *, day_numbers: bool = False) -> DateTimeFormats:
        return cls(
            date=options[opts.DATE_FORMAT],
            timestamp=options[opts.TIMESTAMP_FORMAT],
            timestamp_ntz=options[opts.TIMESTAMP_NTZ_FORMAT],
            fallback=options[opts.DATETIME_FALLBACK],
            day_numbers=day_numbers,
        )

    def dates(self, strings: pa.Array) -> pa.Array:
        """Texts as ``date32``; malformed texts become null."""
        if self.date is None and self.fallback is not False:
            return parse_dates(strings, from_day_numbers=self.day_numbers, exact=self.exact)
        if self.date is None:
            return read_one_by_one(strings, self.date_days, pa.date32())
        times = local_times(strings, self.date)
        days = pa.array((times.micros // DAY_US).astype("int32")).cast(pa.date32())
        return _completed(strings, days, times.is_read & ~times.has_offset, self.date_days)

    def timestamps(self, strings: pa.Array, time_zone: str | None) -> pa.Array:
        """Texts as timestamps; malformed texts become null.

        Args:
            time_zone: the zone of texts without an offset; None for ``timestamp_ntz``.
        """
        pattern = self.timestamp_ntz if time_zone is None else self.timestamp
        if pattern is None and (self.fallback is not False or time_zone is None):
            return parse_timestamps(strings, time_zone)
        zone = None if time_zone is None else java_zone(time_zone)
        kind = _NAIVE if zone is None else _UTC

        def read(text: str) -> int | None:
            return self.timestamp_us(text, zone)

        if pattern is None:
            return read_one_by_one(strings, read, kind)
        times = local_times(strings, pattern)
        is_local = times.is_read & ~times.has_offset
        values = pa.array(times.micros).cast(_NAIVE)
        if zone is None:
            return _completed(strings, values, is_local, read)
        instants = values.cast(kind)
        if is_local.any():
            mask = pa.array(is_local)
            instants = pc.replace_with_mask(instants, mask, localised(values.filter(mask), zone))
        return _completed(strings, instants, times.is_read, read)

    def date_days(self, text: str) -> int | None:
        """One text of ``dates``, in days; None if it is malformed."""
        if self.date is None and self.fallback is False:
            return date_days(text, has_second_try=False, exact=self.exact)
        days = None if self.date is None else days_by_pattern(text, self.date)
        if days is None and (self.fallback or (self.fallback is None and self.date is None)):
            days = date_days(text, from_day_numbers=self.day_numbers, exact=self.exact)
        return days

    def timestamp_us(self, text: str, zone: tzinfo | None) -> int | None:
        """One text of ``timestamps``, in microseconds; None if it is malformed."""
        pattern = self.timestamp_ntz if zone is None else self.timestamp
        if pattern is None:
            return timestamp_us(text, zone, has_second_try=self.fallback is not False)
        micros = micros_by_pattern(text, pattern, zone)
        if micros is None and zone is not None and self.fallback:
            micros = timestamp_us(text.replace("GMT", ""), zone)
        return micros


def _completed(
    strings: pa.Array, values: pa.Array, is_read: Bools, read_one: Callable[[str], int | None]
) -> pa.Array:
    """``values`` where the texts were read, and elsewhere the result of ``read_one``."""
    good = pa.array(is_read)
    values = pc.if_else(good, values, pa.scalar(None, values.type))
    return with_odd_texts(values, pc.and_not(strings.is_valid(), good), strings, read_one)
