"""Converts the values of a column in the log to an Arrow array, equal to those that a SELECT would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql.event_blocks import numbers_at
from flip27_source.readers.mysql import table_maps as kinds
from flip27_source.readers.mysql.charsets import Charsets
from flip27_source.readers.mysql.row_images import Values
from flip27_source.readers.mysql.table_maps import LogColumn
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s, with_gaps

_SIGNED = {1: np.int8, 2: np.int16, 3: np.int32, 4: np.int32, 8: np.int64}
_WIDER = {1: np.int16, 2: np.int32, 3: np.int32, 4: np.int64}
_MICROSECONDS = (1_000_000, 10_000, 100, 1)
"""In one unit of the fraction of a second, by the bytes of the fraction."""
_EXACT = Context(prec=65)
_DAY_US = 86_400_000_000


def array_of(column: LogColumn, values: Values, data: Bytes, charsets: Charsets) -> pa.Array:
    """The values as an array of the type that fits their column best."""
    convert = _CONVERSIONS.get(column.kind)
    if convert is not None:
        return convert(column, values, data)
    if column.kind in (kinds.ENUM, kinds.SET):
        labels = [charsets.decode(one, column.collation) for one in column.labels]
        return _labels(column, values, data, labels)
    texts = _bytes(values, data)
    if column.kind == kinds.GEOMETRY or column.collation == kinds.BINARY_COLLATION:
        if column.kind != kinds.STRING:
            return texts
        # The log leaves out zeros at the end of BINARY values.
        padded = pc.ascii_rpad(texts.view(pa.string()), width=column.meta[0], padding="\0")
        return padded.view(pa.binary())
    return charsets.texts(texts, column.collation)


def types_of(columns: Sequence[LogColumn], charsets: Charsets) -> dict[str, pa.DataType]:
    """The types of the arrays of columns that have a name."""
    none = np.empty(0, np.int64)
    empty, data = Values(none, none, none > 0), np.zeros(8, np.uint8)
    return {column.name: array_of(column, empty, data, charsets).type for column in columns if column.name}


def _masked(numbers: Any, values: Values) -> pa.Array:
    return pa.array(numbers, mask=values.nulls if values.nulls.any() else None)


def _integers(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    size = column.size or 0
    numbers = numbers_at(data, values.starts, size)
    if column.is_unsigned:
        return _masked(numbers.astype(_WIDER[size]), values) if size < 8 else _unsigned(numbers, values)
    bits = 64 - 8 * size
    return _masked((numbers << bits >> bits).astype(_SIGNED[size]), values)


def _unsigned(numbers: Int64s, values: Values) -> pa.Array:
    return _masked(numbers.view(np.uint64), values).cast(pa.decimal128(20, 0))


def _floats(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    numbers = numbers_at(data, values.starts, column.size or 0)
    if column.size == 4:
        return _masked(numbers.astype(np.uint32).view(np.float32), values)
    return _masked(numbers.view(np.float64), values)


def _bit_field(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    numbers = numbers_at(data, values.starts, column.size or 0, is_big_endian=True)
    return _unsigned(numbers, values) if column.meta[1] == 8 else _masked(numbers, values)


def _years(_: LogColumn, values: Values, data: Bytes) -> pa.Array:
    years = data[values.starts].astype(np.int16)
    return _masked(np.where(years == 0, 0, years + 1900).astype(np.int16), values)


def _dates(_: LogColumn, values: Values, data: Bytes) -> pa.Array:
    packed = numbers_at(data, values.starts, 3)
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    days, is_none = _days(year, month, day)
    return pa.array(days.astype(np.int32), pa.int32(), mask=values.nulls | is_none).cast(pa.date32())


def _datetimes(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    packed = numbers_at(data, values.starts, 5, is_big_endian=True) - (1 << 39)
    months, day = packed >> 22, packed >> 17 & 31
    year, month = months // 13, months % 13
    seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
    days, is_none = _days(year, month, day)
    micros = days * _DAY_US + seconds * 1_000_000 + _fraction(column, values.starts + 5, data)
    return pa.array(micros, pa.timestamp("us"), mask=values.nulls | is_none)


def _timestamps(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    seconds = numbers_at(data, values.starts, 4, is_big_endian=True)
    micros = seconds * 1_000_000 + _fraction(column, values.starts + 4, data)
    return pa.array(micros, pa.timestamp("us", "UTC"), mask=values.nulls | (micros == 0))


def _times(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    size = column.size or 3
    bits = 8 * (size - 3)
    packed = numbers_at(data, values.starts, size, is_big_endian=True) - (1 << 23 + bits)
    whole, fraction = np.abs(packed) >> bits, np.abs(packed) & (1 << bits) - 1
    micros = fraction * _MICROSECONDS[size - 3]
    digits = column.meta[0]

    def text(is_negative: bool, time: int, part: int) -> str:
        clock = f"{'-' if is_negative else ''}{time >> 12:02}:{time >> 6 & 63:02}:{time & 63:02}"
        return f"{clock}.{part:06}"[: len(clock) + 1 + digits] if digits else clock

    texts = list(map(text, (packed < 0).tolist(), whole.tolist(), micros.tolist()))
    return pa.array(texts, pa.string(), mask=values.nulls)


def _days(year: Int64s, month: Int64s, day: Int64s) -> tuple[Int64s, Bools]:
    """Days since 1970, and which of them no calendar has."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first, following = (each.astype("datetime64[D]").astype(np.int64) for each in (months, months + 1))
    days = first + day - 1
    return days, (year == 0) | (month == 0) | (days < first) | (days >= following)


def _fraction(column: LogColumn, at: Int64s, data: Bytes) -> Int64s:
    size = (column.meta[0] + 1) // 2
    return numbers_at(data, at, size, is_big_endian=True) * _MICROSECONDS[size]


def _decimals(column: LogColumn, values: Values, data: Bytes) -> pa.Array:
    digits, scale = column.meta
    whole = digits - scale
    sizes = [size for size in (whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9) if size]
    is_positive = data[values.starts] >= 0x80
    at, unscaled = values.starts, np.zeros(len(values.starts), np.int64 if digits <= 18 else object)
    for place, count in enumerate(sizes):
        size = (count + 1) // 2 if count < 9 else 4
        part = numbers_at(data, at, size, is_big_endian=True)
        if place == 0:
            part ^= 1 << 8 * size - 1
        part = np.where(is_positive, part, part ^ (1 << 8 * size) - 1)
        unscaled = unscaled * 10**count + part
        at = at + size
    unscaled = np.where(is_positive, unscaled, -unscaled)
    if digits > 18:
        return _wide_decimals(unscaled.tolist(), values, digits, scale)
    # The same numbers, with their point elsewhere.
    whole_numbers = _masked(unscaled, values).cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(pa.decimal128(digits, scale), len(whole_numbers), whole_numbers.buffers())


def _wide_decimals(unscaled: list[int], values: Values, digits: int, scale: int) -> pa.Array:
    texts = [f"{_EXACT.scaleb(number, -scale):f}" for number in unscaled]
    found = pa.array(texts, pa.string(), mask=values.nulls)
    return found.cast(pa.decimal128(digits, scale)) if digits <= 38 else found


def _labels(column: LogColumn, values: Values, data: Bytes, labels: Sequence[str]) -> pa.Array:
    numbers = numbers_at(data, values.starts, column.size or 1)
    if column.kind == kinds.ENUM:
        return pa.array(["", *labels], pa.string()).take(pa.array(numbers, mask=values.nulls))
    masks = numbers.view(np.uint64).tolist()
    texts = {
        mask: ",".join(label for place, label in enumerate(labels) if mask >> place & 1)
        for mask in set(masks)
    }
    return pa.array([texts[mask] for mask in masks], pa.string(), mask=values.nulls)


def _bytes(values: Values, data: Bytes) -> pa.Array:
    # The images are in the order of the events, so positions ascend; those of a NULL have no end.
    ends = np.where(values.nulls, values.starts, values.ends)
    indexes = np.arange(0, 2 * len(ends), 2)
    return with_gaps(pa.py_buffer(data), values.starts, ends).take(_masked(indexes, values))


_CONVERSIONS: Mapping[int, Callable[[LogColumn, Values, Bytes], pa.Array]] = {
    **dict.fromkeys((kinds.TINY, kinds.SHORT, kinds.INT24, kinds.LONG, kinds.LONGLONG), _integers),
    kinds.FLOAT: _floats, kinds.DOUBLE: _floats, kinds.BIT: _bit_field, kinds.YEAR: _years,
    kinds.DATE: _dates, kinds.DATETIME2: _datetimes, kinds.TIMESTAMP2: _timestamps, kinds.TIME2: _times,
    kinds.NEWDECIMAL: _decimals,
}  # fmt: skip
