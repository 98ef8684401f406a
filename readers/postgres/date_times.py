"""Converts texts of PostgreSQL's dates and timestamps, in ISO style, to Arrow's types.

Infinity and values outside the years 1 to 9999 are refused, because Spark and Python do not support them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from flip27_source.readers.datetimes.calendars import DAY_US
from flip27_source.readers.postgres.parsers import Parse, UnfitError, parser, refuse

_TIMESTAMP, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_OFFSET = r"[+-][0-9]{2}(?::[0-9]{2})?"
_OFFSET_WITH_SECONDS = r"[+-][0-9]{2}(?::[0-9]{2}(?::[0-9]{2})?)?"
_YEARS = "only values in the years 1 to 9999 are possible"


def date_time_parser(name: str, kind: pa.DataType) -> Parse | None:
    """The parser of texts of the type ``name`` (date, timestamp or timestamptz); None if none is exact."""
    if name == "timestamptz":
        return _instants(kind) if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz else None
    return _LOCAL.get((name, kind))


def _dates(texts: pa.Array) -> pa.Array:
    days = parser(
        pa.date32(),
        ordinary=DATE,
        fast=lambda texts: texts.cast(pa.date32()),
        slow=lambda text: _odd(text, "date", DATE, date.fromisoformat),
    )(texts)
    _refuse_years(texts, days.view(pa.int32()), 1)
    return days


def _timestamps(texts: pa.Array) -> pa.Array:
    return _micros(texts, "timestamp", _TIMESTAMP, offset="", odd_offset="")


def _instants(kind: pa.DataType) -> Parse:
    def parse(texts: pa.Array) -> pa.Array:
        return _micros(texts, "timestamptz", _INSTANT, _OFFSET, _OFFSET_WITH_SECONDS).cast(kind)

    return parse


def _micros(texts: pa.Array, name: str, kind: pa.DataType, offset: str, odd_offset: str) -> pa.Array:
    local = f"{DATE} {TIME}"
    values = parser(
        kind,
        ordinary=local + offset,
        fast=lambda texts: texts.cast(kind),
        slow=lambda text: _odd(text, name, local + odd_offset, datetime.fromisoformat),
    )(texts)
    _refuse_years(texts, values.view(pa.int64()), DAY_US)
    return values


def _refuse_years(texts: pa.Array, numbers: pa.Array, per_day: int) -> None:
    # In UTC, the first and the last values with an offset may be outside these years.
    values = np.asarray(numbers)
    if values.min() < _FIRST_DAY * per_day or values.max() >= (_LAST_DAY + 1) * per_day:
        refuse(texts, (values < _FIRST_DAY * per_day) | (values >= (_LAST_DAY + 1) * per_day), _YEARS)


def _odd(text: str, name: str, pattern: str, parse: Callable[[str], date]) -> date:
    if text in ("infinity", "-infinity"):
        raise UnfitError(text, "there is no infinity in a column of this type")
    if text.endswith(" BC") or re.match(r"[0-9]{5,}-", text):
        raise UnfitError(text, _YEARS)
    try:
        if re.fullmatch(pattern, text):
            return parse(text)
    except ValueError:
        pass
    raise UnfitError(text, f"it is not a value of the type {name}")


def _days(texts: pa.Array) -> pa.Array:
    timestamps = _timestamps(texts)
    refuse(texts, np.asarray(timestamps.view(pa.int64())) % DAY_US != 0, "a date has no time of day")
    return timestamps.cast(pa.date32())


_LOCAL: Mapping[tuple[str, pa.DataType], Parse] = {
    ("date", pa.date32()): _dates,
    ("date", _TIMESTAMP): lambda texts: _dates(texts).cast(_TIMESTAMP),
    ("timestamp", _TIMESTAMP): _timestamps,
    ("timestamp", pa.date32()): _days,
}
