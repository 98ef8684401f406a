"""Values get another type only if they stay the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.readers.changes.exact_casts import exactly

LOCAL, MOMENT = pa.timestamp("us"), pa.timestamp("us", "UTC")
NOON = dt.datetime(2026, 1, 1, 12)
FIRST = dt.datetime(2026, 1, 1)
CENTS = pa.decimal128(10, 2)

SAME: list[tuple[Any, pa.DataType, pa.DataType, Any]] = [
    (-5, pa.int8(), pa.int64(), -5),
    (5, pa.int64(), pa.int8(), 5),
    (5, pa.int16(), CENTS, Decimal("5.00")),
    (Decimal("5.00"), CENTS, pa.int32(), 5),
    (5, pa.int64(), pa.decimal128(3, 2), Decimal(5)),
    (Decimal("-0.57"), pa.decimal128(38, 10), pa.float64(), -0.57),
    (0.1, pa.float64(), pa.decimal128(30, 10), Decimal("0.1")),
    (Decimal("5.10"), pa.decimal128(12, 4), CENTS, Decimal("5.10")),
    (1.5, pa.float64(), pa.float32(), 1.5),
    (1, pa.int8(), pa.bool_(), True),
    (dt.date(2026, 1, 1), pa.date32(), LOCAL, FIRST),
    (FIRST, LOCAL, pa.date32(), dt.date(2026, 1, 1)),
    (7, pa.int32(), pa.string(), "7"),
    ("7", pa.string(), pa.int32(), 7),
    ("2026-01-01", pa.string(), pa.date32(), dt.date(2026, 1, 1)),
    (NOON, LOCAL, pa.string(), "2026-01-01 12:00:00.000000"),
    (Decimal("-0.00000001"), pa.decimal128(10, 8), pa.string(), "-0.00000001"),
    (Decimal(0), pa.decimal128(20, 15), pa.string(), "0.000000000000000"),
    (b"\xc3\xbc", pa.binary(), pa.string(), "ü"),
    ("ü", pa.string(), pa.binary(), b"\xc3\xbc"),
]

OTHER: list[tuple[Any, pa.DataType, pa.DataType]] = [
    (1e300, pa.float64(), pa.float32()),
    (0.1, pa.float64(), pa.float32()),
    (2**53 + 1, pa.int64(), pa.float64()),
    (2**24 + 1, pa.int32(), pa.float32()),
    (Decimal("12345678901234567.12"), pa.decimal128(30, 2), pa.float64()),
    (5.2512, pa.float64(), CENTS),
    (1e20, pa.float64(), CENTS),
    (10, pa.int8(), pa.decimal128(3, 2)),
    (5.5, pa.float64(), pa.int32()),
    (300, pa.int16(), pa.int8()),
    (2, pa.int8(), pa.bool_()),
    (NOON, LOCAL, pa.date32()),
    ("007", pa.string(), pa.int32()),
    ("x", pa.string(), pa.int32()),
    ("5.2", pa.string(), CENTS),
    ("2026-01-01 12:00:00", pa.string(), MOMENT),
    (FIRST, LOCAL, MOMENT),
    (FIRST, MOMENT, LOCAL),
    (dt.date(2026, 1, 1), pa.date32(), MOMENT),
    (FIRST, MOMENT, pa.date32()),
    (FIRST, LOCAL, pa.int64()),
    (dt.date(2026, 1, 1), pa.date32(), pa.int32()),
    (5, pa.int64(), LOCAL),
    (b"\xff", pa.binary(), pa.string()),
    (7, pa.int32(), pa.binary()),
]


@pytest.mark.parametrize(("value", "type", "target", "expected"), SAME)
def test_a_value_that_stays_the_same_gets_the_type(
    value: Any, type: pa.DataType, target: pa.DataType, expected: Any
) -> None:
    assert exactly(pa.array([None, value], type), target).to_pylist() == [None, expected]


@pytest.mark.parametrize(("value", "type", "target"), OTHER)
def test_a_value_that_would_become_another_one_is_refused(
    value: Any, type: pa.DataType, target: pa.DataType
) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError)):
        exactly(pa.array([None, value], type), target)


def test_the_value_that_would_become_another_one_is_named() -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"1e\+300 would become inf"):
        exactly(pa.array([1.5, None, 1e300]), pa.float32())
