"""Times of records become datetimes if datetime can represent them."""

from __future__ import annotations

import datetime as dt

import pytest

from flip27_source.values.times import datetime_or_none


def test_milliseconds_become_a_time_in_utc() -> None:
    assert datetime_or_none(86_400_001) == dt.datetime(1970, 1, 2, 0, 0, 0, 1000, dt.UTC)
    assert datetime_or_none(-1) == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)
    assert datetime_or_none(253_402_300_799_999) == dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, dt.UTC)


@pytest.mark.parametrize(
    "milliseconds", [253_402_300_800_000, -62_135_596_800_001, 1_760_000_000 * 10**9, 2**63 - 1, -(2**63)]
)
def test_a_time_that_a_datetime_cannot_represent_is_none(milliseconds: int) -> None:
    assert datetime_or_none(milliseconds) is None
