"""How a reader converts texts to dates and timestamps: by the given patterns, or by Spark's defaults.

A text that does not match its pattern is malformed. With ``enableDateTimeParsingFallback``, it is then
parsed like a cast. By default, this fallback is on only without a pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.options import Options
from flip27_source.readers.datetimes import options as opts
from flip27_source.readers.datetimes.calendars import DAY_US, localised
from flip27_source.readers.datetimes.columns import Mask, local_times
from flip27_source.readers.datetimes.fields import days_by_pattern, micros_by_pattern
from flip27_source.readers.datetimes.patterns import DateTimePattern
from flip27_source.readers.datetimes.spark_texts import date_days, parse_dates, parse_timestamps, timestamp_us
from flip27_source.readers.scalars.ordinary_texts import read_one_by_one, with_odd_texts
from flip27_source.time_zones import java_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class DateTimeFormats:
    """The patterns of one reader; None if a pattern is not set.

    Attributes:
        fallback: parse texts that do not match like a cast; None: only if there is no pattern.
        day_numbers: the fallback reads a number as days since the epoch, as Spark's JSON reader does.
    """

    date: DateTimePattern | None = None
    timestamp: DateTimePattern | None = None
    timestamp_ntz: DateTimePattern | None = None
    fallback: bool | None = None
    day_numbers: bool = False

    @classmethod
    def of(cls, options: Options, *, day_numbers: bool = False) -> DateTimeFormats:
        """The formats that the options define."""
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
            return parse_dates(strings, from_day_numbers=self.day_numbers)
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
        kind = pa.timestamp("us") if zone is None else pa.timestamp("us", "UTC")

        def read(text: str) -> int | None:
            return self.timestamp_us(text, zone)

        if pattern is None:
            return read_one_by_one(strings, read, kind)
        times = local_times(strings, pattern)
        is_local = times.is_read & ~times.has_offset
        values = pa.array(times.micros).cast(pa.timestamp("us"))
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
            return date_days(text, has_second_try=False)
        days = None if self.date is None else days_by_pattern(text, self.date)
        if days is None and (self.fallback or (self.fallback is None and self.date is None)):
            days = date_days(text, from_day_numbers=self.day_numbers)
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
    strings: pa.Array, values: pa.Array, is_read: Mask, read_one: Callable[[str], int | None]
) -> pa.Array:
    """``values`` where the texts were read, and elsewhere the result of ``read_one``."""
    good = pa.array(is_read)
    values = pc.if_else(good, values, pa.scalar(None, values.type))
    return with_odd_texts(values, pc.and_not(strings.is_valid(), good), strings, read_one)
