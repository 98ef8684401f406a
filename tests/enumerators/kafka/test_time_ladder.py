"""The ladder of times by itself: brokers are lists of the times of records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.enumerators.kafka.time_ladder import (
    AHEAD_OF_CLOCK_MS,
    MOST_ROUNDS,
    Answers,
    Found,
    PartitionTimes,
    TimeLadder,
    looked_up,
    steps_from,
)

NOW_MS = 90_000_000
STEP_MS = 1000
FUTURE_MS = NOW_MS + AHEAD_OF_CLOCK_MS + 5


@dataclass
class Logs:
    """The times of the records of partitions; None: an offset without a record. They count their requests."""

    times: Mapping[TopicPartition, list[int | None]]
    tells_latest: bool = True
    requests: int = 0
    silent: set[TopicPartition] = field(default_factory=set)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {key: len(times) for key, times in self.times.items()}

    def first_at(self, times_ms: Mapping[TopicPartition, Sequence[int]]) -> Answers:
        self.requests += max(map(len, times_ms.values()))
        return {
            key: {at_ms: self._first(key, at_ms) for at_ms in asked}
            for key, asked in times_ms.items()
            if key not in self.silent
        }

    def latest_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        self.requests += 1
        found = {}
        for key in partitions:
            known = [(at_ms, offset) for offset, at_ms in enumerate(self.times[key]) if at_ms is not None]
            if self.tells_latest and known and max(known)[0] >= 0:
                found[key] = max(known)[1], max(known)[0]
        return found

    def _first(self, key: TopicPartition, at_ms: int) -> tuple[int, int] | None:
        return next(
            ((n, one) for n, one in enumerate(self.times[key]) if one is not None and one >= at_ms), None
        )

    def ladder(
        self,
        positions: Mapping[TopicPartition, int],
        before: TimeLadder | None = None,
        *,
        step_ms: int = STEP_MS,
        topic_id: str = "a",
        ends: Mapping[TopicPartition, int] | None = None,
    ) -> TimeLadder:
        return looked_up(
            before or TimeLadder(step_ms=step_ms), positions, self.ends if ends is None else ends,
            topic_ids=dict.fromkeys((topic for topic, _ in self.times), topic_id),
            now_ms=NOW_MS, brokers=self,
        )  # fmt: skip


def key(number: int) -> TopicPartition:
    return "orders", number


def logs_of(*times: Sequence[int | None]) -> Logs:
    return Logs({key(number): list(one) for number, one in enumerate(times)})


IN_ORDER = st.lists(st.integers(0, NOW_MS), max_size=40).map(sorted)
ANY_TIMES = st.lists(
    st.one_of(
        st.integers(0, NOW_MS),
        st.integers(NOW_MS - 3000, NOW_MS),
        st.sampled_from([-1, None, 0, FUTURE_MS, 10**18]),
    ),
    max_size=30,
)


@st.composite
def logs_and_positions(
    draw: st.DrawFn, times: st.SearchStrategy[list[int]] | st.SearchStrategy[list[int | None]]
) -> tuple[Logs, dict[TopicPartition, int]]:
    found = logs_of(*draw(st.lists(times, min_size=1, max_size=4)))
    found.tells_latest = draw(st.booleans())
    return found, {one: draw(st.integers(0, end)) for one, end in found.ends.items()}


def reached(ladder: TimeLadder, one: TopicPartition, offset: int) -> int | None:
    times = ladder.partitions.get(one)
    return None if times is None else times.reached_ms(offset)


def step(ladder: TimeLadder, logs: Logs, positions: dict[TopicPartition, int], latest_ms: int | None) -> None:
    """Read each partition up to a time."""
    for one, start in positions.items():
        positions[one] = ladder.end_at(one, start, logs.ends[one], latest_ms)


@given(logs_and_positions(ANY_TIMES), st.integers(-1, FUTURE_MS))
def test_nothing_later_than_the_horizon_is_read_of_a_partition_whose_time_is_known(
    drawn: tuple[Logs, dict[TopicPartition, int]], latest_ms: int
) -> None:
    logs, positions = drawn
    ladder = logs.ladder(positions)
    for one, start in positions.items():
        end = ladder.end_at(one, start, logs.ends[one], latest_ms)
        assert start <= end <= logs.ends[one]
        if reached(ladder, one, start) is None:
            # It is read to where times are known.
            assert end == logs.ends[one] or (start < end and reached(ladder, one, end) is not None)
        else:
            assert all(at_ms is None or at_ms <= latest_ms for at_ms in logs.times[one][start:end])


def test_without_a_horizon_a_batch_ends_where_the_limits_say() -> None:
    vague = PartitionTimes(end=100, found=(Found(0, 0, 0),), above_ms=NOW_MS, until_ms=NOW_MS)
    ladder = TimeLadder(step_ms=STEP_MS, steps=(1000, 2000), partitions={key(0): vague})
    assert ladder.end_at(key(0), 0, 100, None) == 100
    assert ladder.end_at(key(0), 0, 99, None) == 99


@given(logs_and_positions(IN_ORDER))
def test_the_time_of_the_next_record_is_known_to_a_step(
    drawn: tuple[Logs, dict[TopicPartition, int]],
) -> None:
    logs, positions = drawn
    ladder = logs.ladder(positions)
    for one, offset in positions.items():
        times = logs.times[one]
        at = reached(ladder, one, offset)
        if times:
            waits = times[min(offset, len(times) - 1)]
            assert waits is not None
            assert at is not None
            assert waits - STEP_MS < at <= waits


@given(logs_and_positions(ANY_TIMES))
def test_what_is_reached_never_goes_back_while_a_partition_is_read(
    drawn: tuple[Logs, dict[TopicPartition, int]],
) -> None:
    logs, positions = drawn
    ladder = logs.ladder(positions)
    for one, start in positions.items():
        found = [reached(ladder, one, offset) for offset in range(start, logs.ends[one] + 1)]
        known = [at_ms for at_ms in found if at_ms is not None]
        assert known == sorted(known)
        again = logs.ladder({**positions, one: start}, ladder)
        assert reached(again, one, start) == found[0]


@given(logs_and_positions(IN_ORDER))
def test_partitions_are_read_to_the_same_step(drawn: tuple[Logs, dict[TopicPartition, int]]) -> None:
    logs, positions = drawn
    positions = dict.fromkeys(positions, 0)
    ladder = logs.ladder(positions)
    waits = [times[0] for times in logs.times.values() if times]
    if waits:
        step(ladder, logs, positions, min(waits) + 7 * STEP_MS)  # type: ignore[type-var,operator]
        handed = [at_ms for one, offset in positions.items() for at_ms in logs.times[one][:offset]]
        left = [at_ms for one, offset in positions.items() for at_ms in logs.times[one][offset:]]
        assert handed, "the slowest partition is read"
        assert not left or max(handed) < min(left)  # type: ignore[type-var]


@given(logs_and_positions(ANY_TIMES), st.sampled_from([None, 1, 3]), st.integers(1, 3))
def test_every_partition_is_read_to_its_end_whatever_its_times_are(
    drawn: tuple[Logs, dict[TopicPartition, int]], most: int | None, steps: int
) -> None:
    logs, positions = drawn
    ladder = logs.ladder(positions)
    for _ in range(20 + 3 * sum(logs.ends.values())):
        if positions == logs.ends:
            break
        wanted = {
            one: end if most is None else min(end, positions[one] + most) for one, end in logs.ends.items()
        }
        potential = {
            one: reached(ladder, one, ladder.end_at(one, positions[one], end, None))
            for one, end in wanted.items()
            if positions[one] < logs.ends[one]
        }
        slowest = min((at_ms for at_ms in potential.values() if at_ms is not None), default=None)
        horizon = None if slowest is None else slowest + steps * STEP_MS
        before = dict(positions)
        for one, end in wanted.items():
            positions[one] = ladder.end_at(one, positions[one], end, horizon)
        assert positions != before, "a batch waits for ever"
        ladder = logs.ladder(positions, ladder)
    assert positions == logs.ends


@given(logs_and_positions(IN_ORDER), st.integers(1, 5))
def test_with_limits_partitions_stay_within_the_drift(
    drawn: tuple[Logs, dict[TopicPartition, int]], most: int
) -> None:
    logs, positions = drawn
    positions = dict.fromkeys(positions, 0)
    ladder = logs.ladder(positions)
    while positions != logs.ends:
        wanted = {
            one: ladder.end_at(one, offset, min(logs.ends[one], offset + most), None)
            for one, offset in positions.items()
        }
        slowest = min(
            at_ms
            for one, end in wanted.items()
            if positions[one] < logs.ends[one] and (at_ms := reached(ladder, one, end)) is not None
        )
        for one, end in wanted.items():
            positions[one] = ladder.end_at(one, positions[one], end, slowest + STEP_MS)
        handed = [at_ms for one, offset in positions.items() for at_ms in logs.times[one][:offset]]
        left = [at_ms for one, offset in positions.items() for at_ms in logs.times[one][offset:]]
        if left and handed:
            assert max(handed) - min(left) <= 2 * STEP_MS  # type: ignore[type-var,operator]
        ladder = logs.ladder(positions, ladder)


@given(logs_and_positions(ANY_TIMES), st.integers(0, 30))
def test_the_times_of_a_range_are_as_wide_as_its_records(
    drawn: tuple[Logs, dict[TopicPartition, int]], rows: int
) -> None:
    logs, positions = drawn
    ladder = logs.ladder(positions)
    for one, start in positions.items():
        end = min(start + rows, logs.ends[one])
        found = ladder.partitions[one].between(start, end)
        if found is not None:
            # A time from the future says nothing, and neither do those that are before what was read already.
            in_time = [
                at_ms for at_ms in logs.times[one][start:end]
                if at_ms is not None and at_ms <= NOW_MS + AHEAD_OF_CLOCK_MS
            ]  # fmt: skip
            assert all(at_ms * 1000 <= found.latest_us for at_ms in in_time)
            assert found.earliest_us <= found.latest_us <= (NOW_MS + AHEAD_OF_CLOCK_MS) * 1000


def test_what_is_known_is_not_asked_again() -> None:
    logs = logs_of(range(0, 900_000, 100), range(500, 1_000_000, 5000))
    positions = {key(0): 0, key(1): 3}
    ladder = logs.ladder(positions)
    logs.requests = 0
    assert logs.ladder(positions, ladder) is ladder
    assert logs.requests == 0


def test_steps_double_and_reach_the_end_of_any_backlog() -> None:
    steps = steps_from(123_456_789, 123_456_789 + 86_400_000, 60_000)
    assert len(steps) < 20
    assert steps[0] == 123_480_000
    assert steps[-1] == 123_456_789 + 86_400_000
    for before, after in itertools.pairwise(steps[1:]):
        assert after - 123_456_789 <= 2 * (before - 123_456_789)


def test_the_requests_of_a_poll() -> None:
    """A backlog of a day, read from its beginning and from its middle, and a record that arrives later."""
    day = list(range(0, 86_400_000, 1000))
    logs = Logs({key(0): list(day)})
    ladder = logs.ladder({key(0): 0}, step_ms=60_000)
    assert logs.requests <= 24
    logs.requests = 0
    logs.ladder({key(0): 40_000}, step_ms=60_000)
    assert logs.requests <= 80
    logs.requests = 0
    ladder = logs.ladder({key(0): len(day)}, ladder, step_ms=60_000)
    at_end = logs.requests
    logs.times[key(0)].append(86_400_000)
    ladder = logs.ladder({key(0): len(day)}, ladder, step_ms=60_000)
    assert logs.requests - at_end == 2, "the largest time, and the first record after the last one"
    assert reached(ladder, key(0), len(day)) == 86_400_000


@pytest.mark.parametrize("most_rows", [100, 3000, 80_000])
def test_steps_are_close_to_each_other_where_a_full_batch_ends(most_rows: int) -> None:
    day = range(0, 86_400_000, 1000)
    logs = logs_of(day, day[::100], [*day[:40_000:400], *day[40_000:]])
    limited = TimeLadder(step_ms=2000, most_rows=most_rows)
    ladder = logs.ladder({key(0): 0, key(1): 0, key(2): 0}, limited)
    asked = logs.requests
    rows = [sum(ladder.partitions[one].first_at(at_ms)[0] for one in logs.ends) for at_ms in ladder.steps]
    fitting = max(count for count in rows if count <= most_rows)
    assert fitting >= 0.8 * most_rows
    assert asked <= 70
    logs.requests = 0
    assert logs.ladder(ladder.positions, ladder) is ladder
    assert logs.requests == 0


def test_what_is_reached_does_not_go_back_for_a_record_that_is_out_of_order() -> None:
    logs = logs_of([1000, 5000])
    ladder = logs.ladder({key(0): 2}, step_ms=10_000)
    assert reached(ladder, key(0), 2) == 5000
    logs.times[key(0)].append(3000)
    assert reached(logs.ladder({key(0): 2}, ladder), key(0), 2) == 5000


def test_another_topic_and_a_shorter_partition_are_asked_anew() -> None:
    old = logs_of([5000, 6000, 7000]).ladder({key(0): 0})
    new = logs_of([900_000, 901_000, 902_000])
    assert reached(new.ladder({key(0): 0}, old, topic_id="b"), key(0), 0) == 900_000
    shorter = logs_of([900_000])
    assert reached(shorter.ladder({key(0): 0}, old), key(0), 0) == 900_000


def test_a_rewind_is_looked_up_before_the_times_that_are_known() -> None:
    logs = logs_of(range(0, 900_000, 1000))
    ladder = logs.ladder({key(0): 800})
    again = logs.ladder({key(0): 10}, ladder)
    assert reached(again, key(0), 10) == 10_000


def test_a_record_from_the_future_hides_the_times_behind_it_and_holds_nothing() -> None:
    logs = logs_of([1000, 2000, FUTURE_MS, 3000, 4000], range(1000, 60_000, 1000))
    ladder = logs.ladder({key(0): 0, key(1): 0})
    assert ladder.end_at(key(0), 0, 5, 2000) == 1
    assert reached(ladder, key(0), 2) is None
    ladder = logs.ladder({key(0): 2, key(1): 0}, ladder)
    assert ladder.end_at(key(0), 2, 5, 0) == 5


def test_a_place_before_the_first_record_with_a_time_has_the_time_of_that_record() -> None:
    """Those before it have no times, or are gone."""
    logs = logs_of([-1, None, -1, *range(0, 900_000, 1000)], range(0, 900_000, 1000))
    ladder = logs.ladder(dict.fromkeys(logs.times, 0))
    assert [ladder.partitions[key(0)].reached_ms(offset) for offset in (0, 2, 3, 4)] == [0, 0, 0, 1000]
    assert ladder.end_at(key(0), 0, 2, None) == 2
    for start in (0, 2, 3):
        assert ladder.end_at(key(0), start, 900, 2000) == 5


def test_new_steps_are_wanted_once_the_earliest_time_lies_behind_them() -> None:
    """The position of the partition that is left has not moved."""
    logs = logs_of(range(0, 9000, 1000), [80_000_000, 80_000_100, 85_000_000])
    positions = dict.fromkeys(logs.times, 0)
    ladder = logs.ladder(positions)
    left = {key(1): (0, 3)}
    assert ladder.unknown(left | {key(0): (0, 9)}) == {}
    assert ladder.unknown(left)
    ladder = logs.ladder(positions | {key(0): 9}, ladder)
    assert ladder.unknown(left) == {}
    assert ladder.end_at(key(1), 0, 3, 80_001_000) == 2
    # Records have come since.
    assert ladder.unknown({key(1): (0, 4)}) == {key(1): (0, 4)}


def test_a_partition_without_an_answer_is_not_known_and_asked_again() -> None:
    logs = logs_of([1000, 2000], [1000])
    logs.silent = {key(0)}
    ladder = logs.ladder({key(0): 0, key(1): 0})
    assert ladder.positions == {key(1): 0}
    assert reached(ladder, key(0), 0) is None
    logs.silent = set()
    assert logs.ladder({key(0): 0, key(1): 0}, ladder).positions.keys() == {key(0), key(1)}


@pytest.mark.parametrize("tells_latest", [True, False])
def test_a_record_that_comes_between_the_requests_is_not_counted(*, tells_latest: bool) -> None:
    logs = logs_of([1000, 2000, 50_000])
    logs.tells_latest = tells_latest
    ladder = logs.ladder({key(0): 0}, ends={key(0): 2})
    assert reached(ladder, key(0), 2) == 2000


def test_rounds_are_limited() -> None:
    logs = logs_of(range(0, NOW_MS, 100))
    logs.ladder({key(0): 99_999}, step_ms=1)
    assert logs.requests <= 30 * MOST_ROUNDS
