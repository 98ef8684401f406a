"""The type conversions for ORC files: those of Spark's ORC reader that lose no value.

Spark also rounds and truncates, and replaces values that do not fit by null. Here such a value is an error.
Conversions to which Spark gives another meaning, such as a number that becomes clock time, are not
supported. No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from flip27_source.readers.columnar.conversions import (
    WIDENING,
    Cast,
    Conversions,
    IsType,
    MismatchError,
    dates_in,
    to,
)
from flip27_source.readers.datetimes.calendars import localised, offset_us
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.scalars.ordinary_texts import read_one_by_one, unreadable
from flip27_source.readers.scalars.texts import JAVA_BLANKS, converter, exact_decimal
from flip27_source.readers.schemas.merging import is_bytes
from flip27_source.schemas.new_columns import MOST_DIGITS
from flip27_source.time_zones import java_zone

_LONG_DIGITS = 19
_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_TIMESTAMP = (
    r"\A(?:19|[2-9][0-9])[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{0,9})?)?\z"
)
"""Timestamps from 1900 on: Spark shifts earlier ones by the offset of the zone's local mean time."""
_SECONDS = pa.decimal128(28, 9)
_CLOCK_TIME = pa.timestamp("us")
_SECOND_NS = 1_000_000_000
_READ_OTHERWISE = "set timeZone to the writer's zone if it is another one, such as UTC; or use native reads"


def orc_conversions(zone: str) -> Conversions:
    """The conversions of ORC.

    Args:
        zone: the zone of stored timestamps, which have none, and of dates and texts that become timestamps.
    """

    rules = java_zone(zone)

    def instants(column: pa.Array, target: pa.DataType) -> pa.Array:
        local = pc.floor_temporal(column, unit="microsecond").cast(_CLOCK_TIME)
        earlier = localised(local, rules)
        twice = pc.greater(localised(local, rules, fold=1), earlier)
        if pc.any(twice).as_py():
            raise MismatchError(
                f"it contains {local.filter(twice)[0]}, which {zone} has twice, as its clocks are set back, "
                "and Arrow's reader does not tell which of the two is stored",
                f"declare the column as timestamp_ntz; or {_READ_OTHERWISE}",
            )
        return earlier.cast(target)

    def seconds(column: pa.Array, _: pa.DataType) -> pa.Array:
        numbers = column.cast(pa.int64())
        if _is_clock_time(column.type):
            local = pc.floor_temporal(column, unit="second").cast(_CLOCK_TIME)
            offset = pc.subtract(instants(local, _CLOCK_TIME), local).cast(pa.int64())
            numbers = pc.add(numbers, pc.multiply(offset, 1000))
        return _each(lambda ns: Decimal(ns).scaleb(-9))(numbers, _SECONDS)

    def numbers_of(numbers: Cast, stored: IsType) -> Conversions:
        """Conversions of ``stored`` types to numbers; ``numbers`` first converts a column to decimals."""
        return (
            to(types.is_signed_integer, stored, lambda column, target: numbers(column, target).cast(target)),
            to(types.is_floating, stored, lambda column, target: _as_float(numbers(column, target), target)),
            to(types.is_decimal, stored, lambda column, target: _as_decimal(numbers(column, target), target)),
        )

    return (
        to(_is_zoned, _is_clock_time, instants),
        *_CONVERSIONS,
        *WIDENING,
        *numbers_of(lambda column, _: column, types.is_decimal),
        *numbers_of(seconds, _is_stored_timestamp),
        to(
            _is_zoned,
            types.is_date,
            lambda column, target: localised(column.cast(_CLOCK_TIME), rules).cast(target),
        ),
        to(_is_zoned, types.is_string, lambda column, target: _as_instant(column, target, zone)),
    )


def instants_in(column: pa.Array, zone: str) -> pa.Array:
    """The instants of stored timestamps without a zone; of two that a clock time may mean, the first one."""
    if not _is_stored_clock_time(column.type):
        return column
    return localised(pc.floor_temporal(column, unit="microsecond").cast(_CLOCK_TIME), java_zone(zone))


def refuse_spoiled_times(column: pa.Array, zone: str) -> pa.Array:
    """Check and return a column whose times Arrow could have read a second too early or too late.

    ORC stores the second of a time before 1970 rounded up if it has a fraction of a millisecond or more. Java
    compares with 1970 in UTC, and Arrow in the zone of the writer.
    """
    offset_s = offset_us(0, java_zone(zone)) // 1_000_000
    first, end = (0, offset_s) if offset_s > 0 else (offset_s - 1, -1)
    for leaf in dates_in(column) if offset_s else ():
        if not _is_stored_clock_time(leaf.type):
            continue
        ns = leaf.cast(pa.int64())
        near = pc.and_(pc.greater_equal(ns, first * _SECOND_NS), pc.less(ns, end * _SECOND_NS))
        for time in leaf.filter(near):
            if time.value % _SECOND_NS >= 1_000_000:
                raise MismatchError(
                    f"it contains {time}, which is between the starts of 1970 in UTC and {zone}, where "
                    "Arrow's reader is wrong by a second",
                    _READ_OTHERWISE,
                )
    return column


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind) or types.is_floating(kind))


def _is_zoned(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind)) and kind.tz is not None


def _is_clock_time(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind)) and kind.tz is None


def _is_stored_timestamp(kind: pa.DataType) -> bool:
    """True for timestamps of ORC, which Arrow reads as nanoseconds; Spark stores timestamp_ntz as numbers."""
    return bool(types.is_timestamp(kind)) and kind.unit == "ns"


def _is_stored_clock_time(kind: pa.DataType) -> bool:
    return _is_stored_timestamp(kind) and _is_clock_time(kind)


def _each(convert: Callable[[Any], Any]) -> Cast:
    def cast(column: pa.Array, target: pa.DataType) -> pa.Array:
        return pa.array([None if value is None else convert(value) for value in column.to_pylist()], target)

    return cast


def _as_boolean(column: pa.Array, _: pa.DataType) -> pa.Array:
    whole = column.cast(pa.int64())
    for number in pc.unique(whole.drop_null()).to_pylist():
        if number not in (0, 1):
            raise pa.ArrowInvalid(f"{number} is neither 0 nor 1")
    return whole.cast(pa.bool_())


def _as_word(column: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.if_else(column, pa.scalar("TRUE", target), pa.scalar("FALSE", target))


def _as_decimal(column: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_integer(column.type) and _LONG_DIGITS + target.scale <= MOST_DIGITS:
        # Arrow casts a number only to a decimal that can hold every value of the number's type.
        return (
            column.cast(pa.int64())
            .cast(pa.decimal128(_LONG_DIGITS + target.scale, target.scale))
            .cast(target)
        )
    # Arrow's cast to a larger scale overflows silently.
    return _each(lambda value: _fitting(Decimal(value), target))(column, target)


def _fitting(number: Decimal, target: pa.DataType) -> Decimal:
    if number and number.adjusted() >= target.precision - target.scale:
        raise pa.ArrowInvalid(f"{number} has too many digits")
    return number


def _as_float32(column: pa.Array, target: pa.DataType) -> pa.Array:
    narrow = column.cast(target)
    same = pc.or_(pc.equal(narrow.cast(column.type), column), pc.is_nan(column))
    return _unless_lost(narrow, same, column, "has too many digits")


def _as_float(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals as floating-point numbers whose shortest text or exact value equals the decimal."""
    # Arrow's cast of a decimal does not always give the nearest number.
    floats = _each(lambda value: format(value, "f"))(column, pa.string()).cast(target)
    kind = target.to_pandas_dtype()
    for value, number in zip(column.to_pylist(), floats.to_pylist(), strict=True):
        if value is not None and value not in (Decimal(str(kind(number))), Decimal(number)):
            raise pa.ArrowInvalid(f"{value} has too many digits")
    return floats


def _float_as_decimal(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Floats as the decimals of their shortest texts; as in Spark, a float becomes a double first."""
    doubles = column.cast(pa.float64())
    for value in doubles.filter(pc.invert(pc.is_finite(doubles))):
        raise pa.ArrowInvalid(f"{value} is not a decimal")
    return _each(lambda value: _fitting(Decimal(repr(value)), target))(doubles, target)


def _java_text(number: float) -> str:
    """The text that Java's Double.toString returns."""
    if math.isnan(number):
        raise pa.ArrowInvalid("NaN, which Spark would read as null")
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    _, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    sign = "-" if number < 0 else ""
    return f"{sign}{first}.{rest}E{int(exponent) + len(digits) - 1}"


def _plain_text(number: Decimal) -> str:
    """The text of a decimal without trailing zeros in the fraction."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _clock_text(column: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.replace_substring_regex(column.cast(target), r"\.?0*\z", "")


def _midnight(column: pa.Array, target: pa.DataType) -> pa.Array:
    days = column.cast(target)
    return _unless_lost(days, pc.equal(days.cast(column.type), column), column, "is not midnight")


def _unless_lost(values: pa.Array, same: pa.Array, column: pa.Array, problem: str) -> pa.Array:
    """``values``; raises ArrowInvalid for the first value of ``column`` whose entry in ``same`` is false."""
    if pc.all(same).as_py() is False:
        raise pa.ArrowInvalid(f"{column[same.index(False).as_py()]} {problem}")
    return values


def _parsed(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Texts as numbers, as Java parses them."""
    return _complete(converter(pa.field("", target), "UTC", {})(column), column)


def _decimal_of_text(column: pa.Array, target: pa.DataType) -> pa.Array:
    def one(text: str) -> Decimal | None:
        number = exact_decimal(text.strip(JAVA_BLANKS))
        return None if number is None else _fitting(number, target)

    return _complete(read_one_by_one(column, one, target), column)


def _as_date(column: pa.Array, _: pa.DataType) -> pa.Array:
    return _complete(DateTimeFormats().dates(_matching(column, _DATE)), column)


def _as_instant(column: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    return _complete(DateTimeFormats().timestamps(_matching(column, _TIMESTAMP), zone), column).cast(target)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    """The texts that match a pattern; null for others."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, texts.type))


def _complete(values: pa.Array, texts: pa.Array) -> pa.Array:
    """``values``; raises ArrowInvalid for the first text without a value."""
    bad = unreadable(texts, values)
    if bad is not None:
        raise pa.ArrowInvalid(repr(texts[bad.index(True).as_py()].as_py()))
    return values


_CONVERSIONS: Conversions = (
    to(_is_number, types.is_boolean, lambda column, target: column.cast(pa.int8()).cast(target)),
    to(
        types.is_decimal, types.is_boolean, lambda column, target: _as_decimal(column.cast(pa.int8()), target)
    ),
    to(types.is_string, types.is_boolean, _as_word),
    to(_is_number, types.is_signed_integer),
    to(types.is_decimal, types.is_signed_integer, _as_decimal),
    to(types.is_boolean, types.is_signed_integer, _as_boolean),
    to(types.is_string, types.is_signed_integer),
    to(types.is_signed_integer, types.is_floating),
    to(types.is_float32, types.is_float64, _as_float32),
    to(types.is_decimal, types.is_floating, _float_as_decimal),
    to(types.is_boolean, types.is_floating, _as_boolean),
    to(types.is_string, types.is_floating, _each(_java_text)),
    to(types.is_boolean, types.is_decimal, _as_boolean),
    to(types.is_string, types.is_decimal, _each(_plain_text)),
    to(types.is_string, is_bytes, _each(lambda value: value.hex(" "))),
    to(_is_number, types.is_string, _parsed),
    to(types.is_decimal, types.is_string, _decimal_of_text),
    to(
        types.is_boolean,
        types.is_string,
        lambda column, target: _as_boolean(_parsed(column, pa.int64()), target),
    ),
    to(types.is_date, types.is_string, _as_date),
    to(types.is_string, types.is_date),
    to(types.is_string, _is_stored_clock_time, _clock_text),
    to(types.is_date, _is_stored_clock_time, _midnight),
)
