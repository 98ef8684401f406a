"""Backlogs in event-time order: the smallest watermark delay, against a model of Spark's watermark."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import BatchBudget, Limits
from flip27_source.coordination.event_time_order import (
    EventTimeOrder,
    EventTimeProgress,
    delays_ms,
    needed_delay_ms,
)
from flip27_source.event_time import EventTimeRange, place_of
from flip27_source.options import Options
from flip27_source.source_options import CORE_OPTIONS
from flip27_source.split import SplitSize, size_of

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A split whose rows have its earliest and its latest time."""

    split_id: str
    event_time: EventTimeRange | None
    bytes: int = 1

    @property
    def size(self) -> SplitSize:
        return SplitSize(bytes=self.bytes)

    @property
    def rows_us(self) -> tuple[int, ...]:
        times = self.event_time
        return () if times is None else (times.earliest_us, times.latest_us)


def piece(earliest_us: int, latest_us: int) -> Piece:
    return Piece(split_id=f"{earliest_us}-{latest_us}", event_time=EventTimeRange(earliest_us, latest_us))


def hours(first: int, last: int) -> Piece:
    """A piece from the beginning of an hour to the end of another one."""
    return piece(first * HOUR_MS * 1000, (last + 1) * HOUR_MS * 1000 - 1)


def batches_of(pieces: Sequence[Piece], limits: Limits) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    budget = BatchBudget(limits)
    for one in pieces:
        if not budget.fits(size_of(one)):
            yield batch
            batch, budget = [], BatchBudget(limits)
        batch.append(one)
        budget.take(size_of(one))
    if batch:
        yield batch


def dropped(batches: Iterator[list[Piece]] | Sequence[list[Piece]], delay_ms: int) -> list[int]:
    """The times of the rows that Spark drops, with a watermark of this delay.

    The watermark is in milliseconds, moves after each batch, and never back; rows at or before it are late.
    """
    late: list[int] = []
    latest_ms = watermark_ms = None
    for batch in batches:
        rows = [row for one in batch for row in one.rows_us]
        late += [row for row in rows if watermark_ms is not None and row <= watermark_ms * 1000]
        seen = [row // 1000 for row in rows] + ([] if latest_ms is None else [latest_ms])
        latest_ms = max(seen, default=None)
        watermark_ms = None if latest_ms is None else latest_ms - delay_ms
    return late


times = st.integers(min_value=-(10**7), max_value=10**7)
ranges = st.tuples(times, times).map(lambda pair: EventTimeRange(min(pair), max(pair)))
pieces = st.lists(st.tuples(st.none() | ranges, st.integers(0, 5)), max_size=12).map(
    lambda found: [Piece(split_id=str(i), event_time=t, bytes=b) for i, (t, b) in enumerate(found)]
)


def in_milliseconds(found: list[EventTimeRange]) -> list[EventTimeRange]:
    """The ranges a thousand times as wide: nothing of them is rounded."""
    return [EventTimeRange(1000 * one.earliest_us, 1000 * one.latest_us) for one in found]


limits = st.builds(
    Limits, files=st.none() | st.integers(1, 5), bytes=st.none() | st.integers(min_value=1, max_value=9)
)


@given(pieces, limits)
def test_with_the_smallest_delay_no_row_is_dropped_and_with_any_smaller_one_some_are(
    found: list[Piece], limits: Limits
) -> None:
    ordered = sorted(found, key=place_of)
    ends = delays_ms(None, ordered, limits)
    smallest_ms = ends[-1][1] if ends else 0
    batches = list(batches_of(ordered, limits))
    assert dropped(batches, smallest_ms) == []
    if smallest_ms:
        assert dropped(batches, smallest_ms - 1) != []


@given(pieces, limits)
def test_where_any_split_may_end_a_batch_the_delay_holds_with_all_limits(
    found: list[Piece], limits: Limits
) -> None:
    ordered = sorted(found, key=place_of)
    for_any, for_these = (
        max((ms for _, ms in delays_ms(None, ordered, one)), default=0) for one in (None, limits)
    )
    assert for_any >= for_these


@given(st.lists(ranges, max_size=5).map(in_milliseconds))
def test_no_other_order_has_a_smaller_delay_where_any_split_may_end_a_batch(
    found: list[EventTimeRange],
) -> None:
    all_pieces = [Piece(split_id=str(number), event_time=one) for number, one in enumerate(found)]

    def delay_ms(order: Sequence[Piece]) -> int:
        return max((ms for _, ms in delays_ms(None, order, None)), default=0)

    least_ms = min(delay_ms(order) for order in itertools.permutations(all_pieces))
    assert delay_ms(sorted(all_pieces, key=place_of)) == least_ms


def test_in_order_of_arrival_spark_drops_most_rows_of_a_backlog_and_in_event_time_order_none() -> None:
    year = [hours(number, number) for number in range(24 * 365)]
    arrival = [year[number * 5003 % len(year)] for number in range(len(year))]
    limits = Limits(files=100)
    assert len(dropped(batches_of(arrival, limits), HOUR_MS)) > 1.9 * 0.9 * len(year)
    assert dropped(batches_of(sorted(arrival, key=place_of), limits), HOUR_MS) == []


@pytest.mark.parametrize(
    ("waiting", "limits", "delay_ms"),
    [
        ([hours(0, 0), hours(1, 1), hours(2, 2)], Limits(files=1), 0),
        ([hours(0, 0), hours(0, 0), hours(1, 1)], Limits(files=1), HOUR_MS),
        ([hours(0, 0), hours(0, 0), hours(1, 1)], Limits(files=2), 0),
        ([hours(0, 2), hours(1, 1), hours(2, 2), hours(3, 3)], Limits(files=1), 2 * HOUR_MS),
        ([hours(0, 2), hours(1, 1), hours(2, 2), hours(3, 3)], Limits(), 0),
        ([piece(0, 1_000), piece(1_001, 1_999)], Limits(files=1), 0),
        ([piece(0, 1_001), piece(1_000, 1_999)], Limits(files=1), 1),
    ],
)
def test_the_smallest_delay_of_a_backlog(waiting: list[Piece], limits: Limits, delay_ms: int) -> None:
    assert delays_ms(None, waiting, limits)[-1][1] == delay_ms


def test_a_row_at_the_watermark_is_late_as_in_spark() -> None:
    assert needed_delay_ms(5_000, 5_000) == 1
    assert needed_delay_ms(5_999, 5_000) == 1
    assert needed_delay_ms(5_000, 5_001) == 0
    assert needed_delay_ms(None, 0) == 0


def follower(**options: str) -> EventTimeOrder:
    order = EventTimeOrder.of(Options.parse({"eventTimeOrder": "true", **options}, CORE_OPTIONS), None)
    assert order is not None
    return order


def plan(order: EventTimeOrder, waiting: list[Piece], count: int, changes: int = 0) -> EventTimeProgress:
    """Plan a batch of the first splits that wait."""
    batch = [waiting.pop(0) for _ in range(count)]
    order.planned(
        batch, waiting=lambda: (waiting, None), left=len(waiting), changes=changes, limits=Limits(files=count)
    )
    return order.progress


def test_the_delay_is_that_of_the_batch_and_of_what_waits_after_it() -> None:
    order, waiting = follower(), [hours(0, 2), hours(1, 1), hours(2, 2), hours(3, 3), hours(3, 3)]
    delays = [plan(order, waiting, 1).smallest_delay_ms // HOUR_MS for _ in range(5)]
    assert delays == [2, 2, 1, 1, 1]


@given(pieces, st.integers(1, 3))
def test_what_was_computed_once_is_what_would_be_computed_after_each_batch(
    found: list[Piece], files: int
) -> None:
    order, fresh = follower(), follower()
    waiting, again = (sorted(found, key=place_of) for _ in range(2))
    changes = 0
    while waiting:
        count, changes = min(files, len(waiting)), changes + 1
        assert plan(order, waiting, count) == plan(fresh, again, count, changes)


def test_a_split_that_is_found_too_late_is_counted() -> None:
    order = follower(watermarkDelay="1 hour")
    assert plan(order, [hours(5, 5)], 1).late == 0
    # In time for the delay, and then behind the others, but late: 5:59 less 1 hour is 4:59.
    assert plan(order, [piece(5 * HOUR_MS * 1000, 5 * HOUR_MS * 1000)], 1, changes=1).late == 0
    progress = plan(order, [hours(3, 3)], 1, changes=2)
    assert (progress.late, progress.smallest_delay_ms) == (1, 3 * HOUR_MS)
    assert progress.latest_us == 6 * HOUR_MS * 1000 - 1


def test_a_wide_split_that_is_found_late_is_counted_although_it_is_next_in_the_order() -> None:
    order = follower(watermarkDelay="1 hour")
    plan(order, [hours(5, 5)], 1)
    progress = plan(order, [hours(1, 20)], 1, changes=1)
    assert (progress.late, progress.smallest_delay_ms) == (1, 5 * HOUR_MS)


def test_a_wide_split_that_waited_is_not_late_but_in_the_delay() -> None:
    order = follower(watermarkDelay="1 hour")
    waiting = [hours(5, 5), hours(1, 20)]
    assert plan(order, waiting, 1).smallest_delay_ms == 5 * HOUR_MS
    assert plan(order, waiting, 1).late == 0


def test_a_delay_that_is_too_small_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    waiting = [hours(0, 2), hours(1, 1), hours(2, 2)]
    with caplog.at_level(logging.WARNING):
        enough = follower(watermarkDelay="2 hours")
        plan(enough, [*waiting], 1)
        assert caplog.messages == []
        order = follower(watermarkDelay="7199 s")
        plan(order, waiting, 1)
        plan(order, waiting, 1)
    assert len(caplog.messages) == 1
    assert "watermarkDelay is 7199 s, and the smallest watermark delay" in caplog.messages[0]
    assert "is 7200.000 s" in caplog.messages[0]


@pytest.mark.parametrize("option", ["targetBatchDuration", "maxEventTimeDrift"])
def test_with_a_target_duration_or_a_drift_any_split_may_end_a_batch(option: str) -> None:
    order = follower(**{option: "30 s"})
    waiting = [hours(0, 2), hours(1, 1), hours(2, 2)]
    order.planned([], waiting=lambda: (waiting, None), left=3, changes=0, limits=Limits(files=100))
    assert order.progress.smallest_delay_ms == 2 * HOUR_MS


def test_a_split_that_is_read_again_between_two_batches_counts() -> None:
    order, waiting = follower(), [hours(0, 0), hours(1, 1), hours(2, 2)]
    plan(order, waiting, 1)
    waiting[:0] = [hours(8, 8)]  # it was quarantined, and a retry assigns it
    assert plan(order, waiting, 2).smallest_delay_ms == 7 * HOUR_MS


def test_splits_with_equal_times_need_a_millisecond_however_small_the_drift_is() -> None:
    order = follower(maxEventTimeDrift="400us")
    now = EventTimeRange(5_000_000, 5_000_000)
    order.advanced([], waiting=EventTimeRange(5_000_000, 9_000_000))
    assert order.progress.smallest_delay_ms == 1
    order.advanced([now], waiting=now)
    assert order.progress.smallest_delay_ms == 1
