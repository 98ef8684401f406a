"""Converts PostgreSQL's texts to the JSON that Debezium's connector and Kafka's JSON converter write.

The values are those of Debezium 3.6 with its defaults: ``time.precision.mode=adaptive``,
``binary.handling.mode=bytes``, ``hstore.handling.mode=json``. Values of types that Debezium leaves out are
strings. A date is a number of days since 1970-01-01. A timestamp is a number of milliseconds or microseconds,
depending on its precision.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.column_types import PgType, numeric_digits
from flip27_source.readers.changes.json_objects import JsonTexts, joined, json_strings, quoted
from flip27_source.readers.datetimes.calendars import DAY_US, civil_days
from flip27_source.readers.postgres.date_times import DATE, TIME
from flip27_source.readers.postgres.json_values import SCALARS, Encode, array_encoder, booleans, one_by_one
from flip27_source.readers.postgres.parsers import UnfitError, parse_present, parser
from flip27_source.readers.scalars.text_bytes import bytes_of

_MOST_PRECISE = 6
_MILLISECONDS = 3

# The numbers that Debezium's Java classes return for infinity.
_INFINITE_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_INFINITE_DAYS = {"infinity": -2_147_472_692, "-infinity": -2_147_472_691}

_MOMENT = re.compile(
    r"(?P<date>(?P<year>[0-9]{4,})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}))"
    r"(?: (?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?))?(?:\+00)?(?P<bc> BC)?"
)
_ZONED_TIME = re.compile(r"([0-9:.]+)([+-])([0-9]{2})(?::([0-9]{2}))?(?::([0-9]{2}))?")
_END_OF_DAY = re.compile(r"24:00:00[+-]00")
_INTERVAL = re.compile(
    r"(?:(?P<years>[+-]?[0-9]+) years? ?)?(?:(?P<months>[+-]?[0-9]+) mons? ?)?"
    r"(?:(?P<days>[+-]?[0-9]+) days? ?)?"
    r"(?:(?P<sign>[+-]?)(?P<hours>[0-9]+):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2}(?:\.[0-9]+)?))?"
)
_DAYS_PER_MONTH = 365.25 / 12.0

PLACEHOLDER = "__debezium_unavailable_value"
"""The placeholder for a TOAST value that did not change and is therefore not in the log."""

_SPECIAL = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
_ENOUGH = Context(prec=200_000)  # a numeric has up to 131,072 digits before the point and 16,383 after it
_MONEY_SCALE = 2
_POINT = re.compile(r"\(([^,]+),([^,]+)\)")
_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, )?', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPARSE_VECTOR = re.compile(r"\{(.*)\}/([0-9]+)")
_TEXT_ARRAYS = frozenset({"text", "varchar", "bpchar", "json", "jsonb"})


def _time_encoder(type: PgType, *, interval_handling: str) -> Encode | None:
    """The encoder for a type of dates, times or intervals; None for other types."""
    precision = type.modifier if 0 <= type.modifier <= _MOST_PRECISE else _MOST_PRECISE
    factor = 1000 if precision <= _MILLISECONDS else 1
    encoders: dict[str, Encode] = {
        "date": _numbers(_days, DATE, _odd_days, factor=1),
        "time": _numbers(_times, TIME, _time_us, factor=factor),
        "timestamp": _numbers(_timestamps, f"{DATE} {TIME}", _odd_timestamp, factor=factor),
        "timestamptz": _instants(precision),
        "timetz": one_by_one(_zoned_time, is_string=True),
        "interval": one_by_one(_iso_interval, is_string=True)
        if interval_handling == "string"
        else one_by_one(_interval_us, is_string=False),
    }
    return encoders.get(type.name)


def _numbers(
    fast: Callable[[pa.Array], pa.Array], ordinary: str, slow: Callable[[str], int], *, factor: int
) -> Encode:
    def fast_number(texts: pa.Array) -> pa.Array:
        numbers = fast(texts)
        return numbers if factor == 1 else pa.array(np.asarray(numbers) // factor)

    def slow_number(text: str) -> int:
        return _long(text, slow(text) // factor, "set changeFormat=envelope, which writes timestamps as text")

    parse = parser(pa.int64(), ordinary=ordinary, fast=fast_number, slow=slow_number)
    return lambda texts: JsonTexts(
        parse_present(texts, lambda present: parse(present).cast(pa.string()), pa.string())
    )


def _long(text: str, number: int, remedy: str) -> int:
    """The number, in Debezium's type."""
    if number.bit_length() > 63:
        raise UnfitError(text, "its microseconds exceed 64 bits, in which Debezium counts", remedy=remedy)
    return number


def _days(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.date32()).view(pa.int32()).cast(pa.int64())


def _timestamps(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.timestamp("us")).view(pa.int64())


def _times(texts: pa.Array) -> pa.Array:
    return _timestamps(joined("1970-01-01 ", texts))


def _odd_days(text: str) -> int:
    return _INFINITE_DAYS[text] if text in _INFINITE_DAYS else _parts(text, "date")[0]


def _odd_timestamp(text: str) -> int:
    if text in _INFINITE_US:
        return _INFINITE_US[text]
    days, time = _parts(text, "timestamp")
    return days * DAY_US + _time_us(time)


def _parts(text: str, kind: str) -> tuple[int, str]:
    """The number of the day, and the time of day."""
    moment = _MOMENT.fullmatch(text)
    days = moment and civil_days(_year(moment), int(moment["month"]), int(moment["day"]))
    if moment is None or days is None:
        raise UnfitError(text, f"it is not a value of the type {kind}")
    return days, moment["time"] or "00:00:00"


def _year(moment: re.Match[str]) -> int:
    """The year as a number, in which 1 BC is 0."""
    return 1 - int(moment["year"]) if moment["bc"] else int(moment["year"])


def _time_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)


def _instants(precision: int) -> Encode:
    """Timestamps with time zone in ISO 8601, in UTC, with as many digits of a second as the column stores."""
    length = len("2000-01-01T00:00:00") + (precision + 1 if precision else 0)

    def fast(texts: pa.Array) -> pa.Array:
        local = texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).cast(pa.string())
        return joined(pc.binary_replace_slice(pc.utf8_slice_codeunits(local, 0, length), 10, 11, "T"), "Z")

    parse = parser(
        pa.string(), ordinary=rf"{DATE} {TIME}\+00", fast=fast, slow=partial(_odd_instant, precision)
    )
    return lambda texts: JsonTexts(parse_present(texts, parse, pa.string()), is_string=True)


def _odd_instant(precision: int, text: str) -> str:
    if text in _INFINITE_US:
        return text
    moment = _MOMENT.fullmatch(text)
    if moment is None or moment["time"] is None:
        raise UnfitError(text, "it is not a value of the type timestamptz in UTC")
    year = _year(moment)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    second, _, fraction = moment["time"].partition(".")
    digits = f".{fraction.ljust(precision, '0')}" if precision else ""
    return f"{sign}{abs(year):04}-{moment['month']}-{moment['day']}T{second}{digits}Z"


def _zoned_time(text: str) -> str:
    """A time of day with a time zone, converted to UTC."""
    if _END_OF_DAY.fullmatch(text):
        return "24:00:00Z"
    parts = _ZONED_TIME.fullmatch(text)
    if parts is None:
        raise UnfitError(text, "it is not a value of the type timetz")
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()[2:])
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds) * (-1 if parts[2] == "-" else 1)
    us = (_time_us(parts[1]) - offset // timedelta(microseconds=1)) % DAY_US
    moment = datetime(1970, 1, 1) + timedelta(microseconds=us)
    fraction = f"{moment.microsecond:06}".rstrip("0")
    return f"{moment:%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


def _interval(text: str) -> tuple[int, int, int, int, int, Decimal]:
    parts = _INTERVAL.fullmatch(text)
    if parts is None or not text:
        remedy = "set changeFormat=envelope, which writes intervals as text; Debezium has no such interval"
        raise UnfitError(text, "it is not an interval of years to seconds", remedy=remedy)
    sign = -1 if parts["sign"] == "-" else 1
    years, months, days = (int(parts[part] or 0) for part in ("years", "months", "days"))
    hours, minutes = (sign * int(parts[part] or 0) for part in ("hours", "minutes"))
    return years, months, days, hours, minutes, sign * Decimal(parts["seconds"] or 0)


def _interval_us(text: str) -> str:
    # The order of these operations on doubles is Debezium's, so that the rounded results are the same.
    years, months, days, hours, minutes, seconds = _interval(text)
    every_day = ((years * 12) + months) * _DAYS_PER_MONTH + days
    every_second = (((every_day * 24 + hours) * 60) + minutes) * 60 + float(seconds)
    return str(_long(text, int(every_second * 1e6), "set intervalHandlingMode=string"))


def _iso_interval(text: str) -> str:
    years, months, days, hours, minutes, seconds = _interval(text)
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{(seconds + 0).normalize():f}S"


def debezium_encoder(type: PgType, *, decimal_handling: str, interval_handling: str) -> Encode:
    """The encoder for the values of a type.

    Args:
        decimal_handling: ``string`` or ``precise``.
        interval_handling: ``numeric`` or ``string``.
    """
    encode = _encoder(type, decimal_handling == "precise", interval_handling)
    return array_encoder(encode, type.delimiter) if type.is_array else encode


def placeholder(type: PgType) -> str:
    """The JSON value for an unchanged TOAST value of a type."""
    raw = PLACEHOLDER.encode()
    if not type.is_array:
        hstore = msgspec.json.encode({PLACEHOLDER: PLACEHOLDER}).decode()
        of_types = {"bytea": b64encode(raw).decode(), "hstore": hstore}
        return quoted(of_types.get(_name_in_extension(type) or type.name, PLACEHOLDER))
    if type.name in _TEXT_ARRAYS:
        return f"[{quoted(PLACEHOLDER)}]"
    if type.name == "bytea":
        return f"[{quoted(b64encode(raw).decode())}]"
    if type.name == "uuid":
        return f"[{quoted(str(_named_uuid(raw)))}]"
    if type.name in ("int4", "int8", "date"):
        return msgspec.json.encode(list(raw)).decode()
    return quoted(PLACEHOLDER)


def _encoder(type: PgType, is_precise: bool, interval_handling: str) -> Encode:
    encode = _time_encoder(type, interval_handling=interval_handling) or SCALARS.get(type.name)
    if encode is not None:
        return encode
    if type.name == "numeric":
        return _precise(type) if is_precise else _decimal_strings
    if type.name in ("bit", "varbit"):
        return one_by_one(_bits, is_string=True) if type.modifier != 1 else booleans("1")
    if type.name == "money":
        return one_by_one(partial(_money, is_precise), is_string=True)
    if type.name == "point":
        return one_by_one(_point, is_string=False)
    of_extensions: dict[str, Encode] = {
        "vector": _vectors,
        "halfvec": _vectors,
        "sparsevec": one_by_one(_sparse_vector, is_string=False),
        "hstore": one_by_one(_hstore, is_string=True),
    }
    return of_extensions.get(_name_in_extension(type), json_strings)


def _name_in_extension(type: PgType) -> str:
    """The name of a type that may be one of an extension, whose schema can be any; empty if it cannot be."""
    schema, _, name = type.name.rpartition(".")
    return name if schema else ""


def _vectors(texts: pa.Array) -> JsonTexts:
    # Users may have a type of this name.
    is_vector = pc.all(pc.starts_with(texts, "["), min_count=0).as_py()
    return JsonTexts(texts) if is_vector else json_strings(texts)


def _sparse_vector(text: str) -> str:
    """The places and values as arrays in an array, as Kafka's JSON converter writes maps with such keys."""
    vector = _SPARSE_VECTOR.fullmatch(text)
    if vector is None:
        return quoted(text)
    pairs = ",".join(f"[{pair.replace(':', ',')}]" for pair in vector[1].split(",") if pair)
    return f'{{"dimensions":{vector[2]},"vector":[{pairs}]}}'


def _decimal_strings(texts: pa.Array) -> JsonTexts:
    if (bytes_of(texts).content > ord("9")).any():
        names = [pa.array(names) for names in zip(*_SPECIAL.items(), strict=True)]
        special = names[1].take(pc.index_in(texts, names[0]))
        texts = pc.coalesce(special, texts)
    return JsonTexts(texts, is_string=True)


def _precise(type: PgType) -> Encode:
    digits = numeric_digits(type.modifier)
    if digits is None:
        return one_by_one(_variable_scale, is_string=False)
    return one_by_one(partial(_unscaled, digits[1]), is_string=True)


def _unscaled(scale: int, text: str) -> str:
    """The number without its decimal point, as the bytes of an integer in Base64."""
    number = int(_finite(text).scaleb(scale, _ENOUGH))
    # The least number of bytes that can hold the number and its sign.
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _variable_scale(text: str) -> str:
    number = _finite(text).normalize(_ENOUGH)
    scale = max(0, -int(number.as_tuple().exponent))
    return f'{{"scale":{scale},"value":"{_unscaled(scale, format(number, "f"))}"}}'


def _finite(text: str) -> Decimal:
    if text in _SPECIAL:
        remedy = "set decimalHandlingMode=string"
        raise UnfitError(text, "decimalHandlingMode=precise has no such value", remedy=remedy)
    return Decimal(text)


def _money(is_precise: bool, text: str) -> str:
    number = text.strip("()-")
    number = (number if number[:1].isdigit() else number[1:]).replace(",", "")
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", number):
        remedy = "set lc_monetary of the database to C or en_US, or changeFormat=envelope"
        raise UnfitError(text, "it is not an amount as lc_monetary=C writes it", remedy=remedy)
    signed = f"-{number}" if text[0] in "(-" else number
    return _unscaled(_MONEY_SCALE, signed) if is_precise else signed


def _bits(text: str) -> str:
    """The bits as bytes in Base64, the least significant byte first, without zero bytes at the end."""
    number = int(text or "0", 2)
    return b64encode(number.to_bytes((number.bit_length() + 7) // 8, "little")).decode()


def _point(text: str) -> str:
    point = _POINT.fullmatch(text)
    if point is None:
        raise UnfitError(text, "it is not a point")
    wkb = b64encode(struct.pack("<BIdd", 1, 1, float(point[1]), float(point[2]))).decode()
    x, y = (number if number[-1].isdigit() else quoted(number) for number in point.groups())
    return f'{{"x":{x},"y":{y},"wkb":"{wkb}","srid":null}}'


def _hstore(text: str) -> str:
    """The pairs as a JSON object, escaped as the content of a JSON string."""
    pairs: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        pair = _HSTORE.match(text, at)
        if pair is None:
            raise UnfitError(text, "it is not an hstore")
        value = None if pair[2] is None else _ESCAPED.sub(r"\1", pair[2])
        pairs[_ESCAPED.sub(r"\1", pair[1])] = value
        at = pair.end()
    return quoted(msgspec.json.encode(pairs).decode())[1:-1]


def _named_uuid(name: bytes) -> UUID:
    """The result of Java's ``UUID.nameUUIDFromBytes``: the MD5 digest as a UUID of version 3."""
    import hashlib

    return UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3)
