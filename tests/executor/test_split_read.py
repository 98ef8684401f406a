"""The budgets of splits that the reader bounds, and the numbers that a subtask measures."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from flip27_source.coordination.subtask_reports import SplitResult, SplitStatus
from flip27_source.errors import OptionError
from flip27_source.events import Progress
from flip27_source.executor.meter import Meter
from flip27_source.executor.split_read import SplitBudget, read_bounded
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext, SplitReader, YieldsProgress

SCHEMA = pa.schema([("number", pa.int64())])
CONTEXT = SourceReaderContext(options=Options.parse({}, ()), schema=SCHEMA)
ROW_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    split_id: str
    next: int = 0


class Clock:
    """A clock in seconds, which advances when a page is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TenAtATime(YieldsProgress, SplitReader[Numbers]):
    """Reads pages of ten numbers, up to 50; a page takes two seconds of ``clock``."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def read(self, split: Numbers) -> Iterator[Any]:
        while split.next < 50:
            self.clock.now += 2
            yield pa.record_batch([list(range(split.next, split.next + 10))], schema=SCHEMA)
            split = replace(split, next=split.next + 10)
            yield Progress(split)


def read(**limits: Any) -> tuple[int, bool]:
    """Read with these limits; return where reading ended, and whether the reader had caught up."""
    clock = Clock()
    reading = read_bounded(
        TenAtATime(clock), Numbers(split_id="n"), CONTEXT, SplitBudget(clock=clock, **limits)
    )
    results: list[SplitResult[Any]] = []

    def batches() -> Iterator[Any]:
        results.append((yield from reading))

    rows = sum(batch.num_rows for batch in batches())
    (result,) = results
    assert (result.status, result.position) == (SplitStatus.LIVE, Numbers(split_id="n", next=rows))
    return rows, result.caught_up


@pytest.mark.parametrize(
    ("limits", "ended"),
    [
        ({}, (50, True)),
        ({"rows": 1}, (10, False)),
        ({"rows": 10}, (10, False)),
        ({"rows": 11}, (20, False)),
        ({"rows": 51}, (50, True)),
        ({"bytes": 10 * ROW_BYTES + 1}, (20, False)),
        ({"duration_s": 5.0}, (30, False)),
        ({"duration_s": 2.0, "rows": 40}, (10, False)),
    ],
)
def test_a_share_ends_at_the_first_page_that_uses_up_a_budget(
    limits: dict[str, Any], ended: tuple[int, bool]
) -> None:
    assert read(**limits) == ended


NOON = dt.datetime(2026, 1, 3, 12, tzinfo=dt.UTC)


def times(*values: dt.datetime | int | None, kind: Any = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind or pa.timestamp("us", "UTC"))], names=["at"])


def test_the_largest_event_time_is_that_of_all_batches() -> None:
    meter = Meter("at")
    assert meter.max_event_time is None
    meter.count(times(None))
    assert meter.max_event_time is None
    meter.count(times(dt.datetime(2026, 5, 2, tzinfo=dt.UTC), None))
    meter.count(times(dt.datetime(2026, 5, 1, tzinfo=dt.UTC)))
    assert meter.max_event_time == "2026-05-02T00:00:00.000000+00:00"
    assert (meter.rows, meter.bytes > 0) == (4, True)


@pytest.mark.parametrize("item", [times(NOON), (NOON,)])
def test_the_event_time_column_may_be_written_in_another_case(item: Any) -> None:
    meter = Meter("At", times(NOON).schema)
    meter.count(item)
    assert meter.max_event_time == "2026-01-03T12:00:00.000000+00:00"


def test_an_event_time_column_without_times_is_refused() -> None:
    with pytest.raises(
        OptionError, match=r"eventTimeColumn is 'when', but the columns with times are \['at'\]"
    ):
        Meter("when").count(times(None))


AT = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])


def test_the_largest_event_time_of_rows_that_are_tuples_is_kept_too() -> None:
    meter = Meter("at", AT)
    for row in ((1, NOON, None), (2, None, None), (3, NOON - dt.timedelta(hours=1), None)):
        meter.count(row)
    berlin = dt.timezone(dt.timedelta(hours=1))
    meter.count((4, dt.datetime(2026, 1, 3, 13, 30, tzinfo=berlin), None))
    assert (meter.rows, meter.max_event_time) == (4, "2026-01-03T12:30:00.000000+00:00")


def test_dates_in_tuples_are_event_times_and_a_column_without_times_is_refused() -> None:
    meter = Meter("day", AT)
    meter.count((1, NOON, dt.date(2026, 1, 3)))
    meter.count((1, NOON, dt.date(2026, 1, 2)))
    assert meter.max_event_time == "2026-01-03"
    with pytest.raises(OptionError, match=r"eventTimeColumn is 'id', but the columns with times are"):
        Meter("id", AT).count((1, NOON, None))


def test_a_value_that_spark_refuses_does_not_count_as_event_time() -> None:
    meter = Meter("at", AT)
    meter.count((1, "2026-01-03", None))
    meter.count((1,))
    assert meter.max_event_time is None


_BEFORE_YEAR_1 = -62_135_596_800_000_001
_AFTER_YEAR_9999 = 253_402_318_799_000_000  # the last second of 9999 in New York, often written for "no end"


@pytest.mark.parametrize(
    ("out_of_range", "kind"), [(_BEFORE_YEAR_1, None), (_AFTER_YEAR_9999, None), (2_932_897, pa.date32())]
)
def test_an_event_time_that_python_cannot_represent_does_not_fail_the_batch(
    out_of_range: int, kind: pa.DataType | None
) -> None:
    meter = Meter("at")
    meter.count(times(out_of_range, None, kind=kind))
    assert (meter.rows, meter.max_event_time) == (2, None)


def test_times_before_year_1_are_not_the_largest_and_later_ones_than_year_9999_are_not_reported() -> None:
    meter = Meter("at")
    meter.count(times(NOON))
    meter.count(times(_BEFORE_YEAR_1))
    assert meter.max_event_time == "2026-01-03T12:00:00.000000+00:00"
    meter.count(times(_AFTER_YEAR_9999))
    meter.count(times(NOON))
    assert meter.max_event_time is None


@pytest.fixture
def machine_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of the machine."""

    def set_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("has_zone", [True, False])
@pytest.mark.parametrize(
    ("zone", "hours", "edge", "largest"),
    [
        ("America/New_York", -5, dt.datetime(9999, 12, 31, 23, 59, 59), None),
        ("Asia/Karachi", 5, dt.datetime(1, 1, 1), "2026-01-03T12:00:00.000000+00:00"),
    ],
    ids=["last", "first"],
)
def test_the_first_and_the_last_second_in_a_tuple_do_not_fail_the_batch(
    zone: str,
    hours: int,
    edge: dt.datetime,
    largest: str | None,
    has_zone: bool,
    machine_zone: Callable[[str], None],
) -> None:
    machine_zone(zone)
    meter = Meter("at", AT)
    meter.count((1, edge.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours))) if has_zone else edge, None))
    assert (meter.rows, meter.max_event_time) == (1, None)
    meter.count((2, NOON, None))
    assert meter.max_event_time == largest
