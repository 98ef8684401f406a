"""Paced replay: the event time that is due, with a clock that is given."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.horizon import Horizon, Reach
from flip27_source.coordination.replay import Pace, Replay

S_US, HOUR_US, DAY_MS = 1_000_000, 3_600_000_000, 86_400_000
BEGAN_US = 1_700_000_000 * S_US
"""The present when a replay begins."""


def replay(speed: float, *, began_ms: int = 0, others: list[Pace] | None = None) -> Replay:
    return Replay(speed, (began_ms, BEGAN_US), lambda: others or [])


def due_us(one: Replay, waits_us: int | None, steady_ms: int) -> int | None:
    found = one.horizon(Reach(waits_us=waits_us), steady_ms)
    return None if found is None else found.latest_us


def test_the_horizon_moves_with_the_speed_from_the_first_time_that_waits() -> None:
    one = replay(10)
    start_us = BEGAN_US - 24 * HOUR_US
    assert one.horizon(Reach(waits_us=start_us), 5_000) == Horizon(
        latest_us=start_us, by="replaySpeed", is_strict=True
    )
    assert due_us(one, start_us + 1, 6_000) == start_us + 10 * S_US
    # Later and earlier data that is found does not move the pace.
    assert due_us(one, start_us - HOUR_US, 7_000) == start_us + 20 * S_US


def test_nothing_is_held_before_a_time_is_known() -> None:
    one = replay(10)
    assert due_us(one, None, 0) is None
    assert one.numbers() == {"replayBehindMs": 0}
    start_us = BEGAN_US - HOUR_US
    assert due_us(one, start_us, 60_000) == start_us


def test_a_gap_passes_at_the_speed_of_the_replay() -> None:
    one = replay(60)
    start_us = BEGAN_US - 24 * HOUR_US
    due_us(one, start_us, 0)
    late_us = start_us + 2 * HOUR_US
    due = [due_us(one, late_us, ms) for ms in (60_000, 119_999, 120_000)]
    assert due[1] is not None
    assert due[1] < late_us
    assert due[2] == late_us


def test_a_replay_that_has_caught_up_is_live_for_the_rest_of_its_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = replay(2)
    start_us = BEGAN_US - HOUR_US
    caplog.set_level(logging.INFO, logger="flip27_source")
    assert due_us(one, start_us, 0) == start_us
    assert due_us(one, start_us + HOUR_US, 3_599_999) is not None
    assert due_us(one, start_us + HOUR_US, 3_600_000) is None
    assert one.numbers() == {"replayIsLive": 1}
    assert "live" in caplog.text
    # Old data and data of the future are read at once from now on.
    assert due_us(one, 0, 3_600_001) is None
    assert due_us(one, BEGAN_US + 1000 * HOUR_US, 3_600_002) is None


def test_a_run_whose_data_is_of_the_future_is_live_at_once() -> None:
    assert due_us(replay(10), BEGAN_US + HOUR_US, 0) is None


@pytest.mark.parametrize("speed", [1, 0.5])
def test_a_replay_that_is_not_faster_than_the_present_never_catches_up(speed: float) -> None:
    one = replay(speed)
    start_us = BEGAN_US - HOUR_US
    due_us(one, start_us, 0)
    assert due_us(one, start_us, 1000 * DAY_MS) == start_us + int(1000 * DAY_MS * 1000 * speed)


def test_a_restart_goes_on_in_pace_from_what_waits() -> None:
    """Another run, another speed, and a steady clock that began again with the host."""
    start_us = BEGAN_US - 24 * HOUR_US
    first = replay(10, began_ms=500_000_000)
    due_us(first, start_us, 500_000_000)
    reached_us = due_us(first, start_us, 500_060_000)
    assert reached_us == start_us + 600 * S_US
    second = replay(100, began_ms=1_000)
    assert due_us(second, reached_us + 1, 1_000) == reached_us + 1
    assert due_us(second, reached_us + 1, 2_000) == reached_us + 1 + 100 * S_US


def test_the_slowest_pace_of_a_group_is_that_of_all() -> None:
    others: list[Pace] = []
    one = replay(10, others=others)
    noon_us = BEGAN_US - 12 * HOUR_US
    assert due_us(one, noon_us, 0) == noon_us
    # Another source has data from four hours before: this one waits until that is as far.
    others.append(Pace(noon_us - 4 * HOUR_US, 1_000, 10))
    assert due_us(one, noon_us, 1_000) == noon_us - 4 * HOUR_US
    assert one.pace == others[0]
    # One that is further does not matter.
    others.append(Pace(noon_us, 2_000, 10))
    assert due_us(one, noon_us, 3_000) == noon_us - 4 * HOUR_US + 20 * S_US


def test_the_pace_of_a_source_that_has_left_is_followed_for_its_restart_and_no_longer() -> None:
    others: list[Pace] = []
    one = replay(10, others=others)
    noon_us = BEGAN_US - 12 * HOUR_US
    due_us(one, noon_us, 0)
    others.append(Pace(0, 1_000, 10))
    due_us(one, noon_us, 10_000)
    others.clear()
    assert due_us(one, noon_us, 69_999) == 689_990_000
    # Then it goes on from what waits, without a burst.
    assert due_us(one, noon_us + 1, 70_000) == noon_us + 1
    assert due_us(one, noon_us + 1, 71_000) == noon_us + 1 + 10 * S_US


def test_members_do_not_hold_each_other_at_the_pace_of_one_that_has_left() -> None:
    noon_us = BEGAN_US - 12 * HOUR_US
    slow = [Pace(0, 0, 10)]
    members = [replay(10), replay(10)]
    for one, other in zip(members, reversed(members), strict=True):
        one.others = lambda other=other: [*slow, *([] if other.own is None else [other.own])]
    for one in members:
        assert due_us(one, noon_us, 1_000) == 10 * S_US
    slow.clear()
    assert [due_us(one, noon_us, 61_000) for one in members] == [noon_us, noon_us]


def test_a_slower_source_that_has_left_does_not_have_the_next_gap_skipped() -> None:
    others = [Pace(BEGAN_US - 13 * HOUR_US, 0, 100)]
    one = replay(10, others=others)
    noon_us = BEGAN_US - 12 * HOUR_US
    assert due_us(one, noon_us, 0) == noon_us - HOUR_US
    # The other one has overtaken it.
    assert due_us(one, noon_us, 60_000) == noon_us + 600 * S_US
    others.clear()
    assert due_us(one, noon_us + 9 * HOUR_US, 180_000) == noon_us + 1800 * S_US


def test_a_source_without_known_times_follows_the_pace_of_its_group() -> None:
    noon_us = BEGAN_US - 12 * HOUR_US
    one = replay(10, others=[Pace(noon_us, 0, 10)])
    assert due_us(one, None, 1_000) == noon_us + 10 * S_US


def test_how_far_it_is_behind_is_what_was_due_and_still_waits() -> None:
    one = replay(10)
    start_us = BEGAN_US - 24 * HOUR_US
    due_us(one, start_us, 0)
    due_us(one, start_us, 10_000)
    waits = Reach(waits_us=start_us + 40 * S_US)
    one.planned(waits, 10_000, is_empty=False, is_held=False)
    assert one.numbers() == {"replayBehindMs": 6_000}
    # What the horizon has held is not due, although a file that waits begins earlier.
    one.planned(waits, 10_000, is_empty=False, is_held=True)
    assert one.numbers() == {"replayBehindMs": 0}
    one.planned(Reach(waits_us=start_us + 140 * S_US), 10_000, is_empty=False, is_held=False)
    assert one.numbers() == {"replayBehindMs": 0}
    one.planned(Reach(), 10_000, is_empty=False, is_held=False)
    assert one.numbers() == {"replayBehindMs": 0}


@given(
    speed=st.floats(min_value=5e-324, max_value=1.7e308),
    start_us=st.integers(-(2**63), 2**63 - 1),
    times_ms=st.lists(st.integers(0, 2**53), max_size=8),
)
def test_the_horizon_never_goes_back_and_never_fails(
    speed: float, start_us: int, times_ms: list[int]
) -> None:
    one = replay(speed)
    found = [due_us(one, start_us, ms) for ms in sorted(times_ms)]
    one.planned(Reach(waits_us=start_us - 1), max(times_ms, default=0), is_empty=False, is_held=False)
    assert 0 <= one.behind_ms <= 2**53
    held = [us for us in found if us is not None]
    assert held == sorted(held)
    # Once live, always live.
    assert found[len(held) :] == [None] * (len(found) - len(held))
