"""Random values, written as PostgreSQL writes them, are read as by Python."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.readers.postgres.array_texts import element_lists, nested_lists
from flip27_source.readers.postgres.parsers import UnfitError
from tests.readers.postgres.converting import array, converted, numeric

DERANDOMIZED = settings(derandomize=True)
FLOATS = st.floats(width=64)
ODD_TEXTS = st.sampled_from(["", "a", "NULL", " ", "b,c", '"', "é", "{", "\\"])
NULLABLE_TEXTS = st.lists(st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8")))


def float_text(value: float) -> str:
    """The text that float8out writes: no point without digits after it, an exponent of two digits or more."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
    return re.sub(r"\.0$", "", repr(value))


def decimal_text(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if number < 0 else "") + whole + ("." + fraction if scale else "")


def array_text(elements: list[str | None]) -> str:
    """The text that array_out writes."""
    return "{" + ",".join("NULL" if element is None else _quoted(element) for element in elements) + "}"


def _quoted(element: str) -> str:
    if element and element.upper() != "NULL" and not re.search(r'[{},"\\\s]', element):
        return element
    return '"' + re.sub(r'(["\\])', r"\\\1", element) + '"'


@DERANDOMIZED
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_integers(values: list[int | None]) -> None:
    texts = [None if value is None else str(value) for value in values]
    assert converted("int8", texts).to_pylist() == [None if text is None else int(text) for text in texts]


@DERANDOMIZED
@given(
    st.lists(st.integers(-(2**70), 2**70)), st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64()])
)
def test_integers_of_numerics_fit_or_are_refused(values: list[int], kind: pa.DataType) -> None:
    limit = 2 ** (kind.bit_width - 1)
    fitting = [value for value in values if -limit <= value < limit]
    texts = [f"{value}.00" if value % 3 else str(value) for value in fitting]
    assert converted("numeric", texts, kind).to_pylist() == fitting


@DERANDOMIZED
@given(st.lists(FLOATS))
def test_doubles(values: list[float]) -> None:
    texts = [float_text(value) for value in values]
    assert repr(converted("float8", texts).to_pylist()) == repr([float(text) for text in texts])


@DERANDOMIZED
@given(st.lists(st.floats(width=32)))
def test_floats(values: list[float]) -> None:
    texts = [float_text(value) for value in values]
    read = [struct.unpack("f", struct.pack("f", float(text)))[0] for text in texts]
    assert repr(converted("float4", texts).to_pylist()) == repr(read)
    assert repr(converted("float4", texts, pa.float64()).to_pylist()) == repr(read)


@DERANDOMIZED
@given(st.data(), st.integers(1, 38))
def test_decimals(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    limit = 10**precision - 1
    numbers = data.draw(st.lists(st.integers(-limit, limit)))
    texts = [decimal_text(number, scale) for number in numbers]
    assert converted(numeric(precision, scale), texts).to_pylist() == [Decimal(text) for text in texts]
    if numbers:
        assert converted("numeric", texts, pa.float64()).to_pylist() == [float(text) for text in texts]


@DERANDOMIZED
@given(st.lists(st.none() | st.dates()))
def test_dates(values: list[date | None]) -> None:
    assert converted("date", [value and value.isoformat() for value in values]).to_pylist() == values


@DERANDOMIZED
@given(st.lists(st.datetimes()), st.integers(-15 * 60, 15 * 60))
def test_timestamps(values: list[datetime], minutes: int) -> None:
    texts = [_trimmed(value) for value in values]
    assert converted("timestamp", texts).to_pylist() == values
    read = [v.astimezone(UTC) for v in converted("timestamptz", [f"{text}+00" for text in texts]).to_pylist()]
    assert read == [value.replace(tzinfo=UTC) for value in values]
    zone = timezone(timedelta(minutes=minutes))
    inner = [value for value in values if datetime(2, 1, 1) < value < datetime(9998, 1, 1)]
    local = [f"{_trimmed(value)}{_offset(minutes)}" for value in inner]
    read = [value.astimezone(UTC) for value in converted("timestamptz", local).to_pylist()]
    assert read == [value.replace(tzinfo=zone) for value in inner]


def _trimmed(value: datetime) -> str:
    text = value.isoformat(" ")
    return text.rstrip("0") if "." in text else text


def _offset(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}" + (f":{rest:02}" if rest else "")


@DERANDOMIZED
@given(st.lists(st.none() | st.binary()))
def test_byte_strings(values: list[bytes | None]) -> None:
    texts = [None if value is None else "\\x" + value.hex() for value in values]
    assert converted("bytea", texts).to_pylist() == values


@settings(DERANDOMIZED, max_examples=2 * DERANDOMIZED.max_examples)
@given(st.lists(st.none() | NULLABLE_TEXTS) | st.lists(st.none() | st.lists(st.none() | ODD_TEXTS)))
def test_arrays_of_texts(values: list[list[str | None] | None]) -> None:
    texts = [None if value is None else array_text(value) for value in values]
    assert converted(array("text"), texts).to_pylist() == values


@DERANDOMIZED
@given(st.lists(st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))))
def test_arrays_of_integers(values: list[Any]) -> None:
    texts = [
        None if value is None else array_text([None if one is None else str(one) for one in value])
        for value in values
    ]
    assert converted(array("int4"), texts).to_pylist() == values


PIECES = st.sampled_from(["{}", "{a}", '{"a b",NULL}', r'{"\"","x"}', '{"{"}', "[1:1]={z}", r'{"\\"}'])


@DERANDOMIZED
@given(st.lists(PIECES | st.text('{}",\\aN', max_size=8), min_size=1, max_size=4))
def test_arrays_are_parsed_by_column_as_they_are_one_by_one(texts: list[str]) -> None:
    column = pa.array(texts)
    try:
        one_by_one = nested_lists(column, delimiter=",")
    except UnfitError:
        one_by_one = None
    if one_by_one is None or any(isinstance(element, list) for row in one_by_one for element in row):
        with pytest.raises(UnfitError):
            element_lists(column, dimensions=1, delimiter=",")
    else:
        assert element_lists(column, dimensions=1, delimiter=",").to_pylist() == one_by_one


@DERANDOMIZED
@given(st.integers(1, 3), st.integers(1, 3), st.integers(-3, 3))
def test_arrays_of_two_dimensions(rows: int, columns: int, first: int) -> None:
    values = [[row * 10 + column for column in range(columns)] for row in range(rows)]
    text = "{" + ",".join(array_text([str(one) for one in row]) for row in values) + "}"
    if first != 1:
        text = f"[{first}:{first + rows - 1}][1:{columns}]={text}"
    assert converted(array("int4"), [text], pa.list_(pa.list_(pa.int32()))).to_pylist() == [values]
