"""Alignment: no split is read further ahead of the slowest than the drift, and none waits for ever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source import BoundedRange, Budget
from flip27_source.coordination.alignment import BatchHorizon
from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.coordination.checkpoints import CheckpointMetadata, PendingCheckpoint
from flip27_source.coordination.coordinator import SourceCoordinator
from flip27_source.coordination.horizon import Horizon, Reach
from flip27_source.enumerator_context import Boundedness
from flip27_source.event_time import event_time_of
from flip27_source.options import Options
from flip27_source.source_options import CORE_OPTIONS
from tests.timed_tracks import MINUTE_US, ROAD, ROADS, Pieces, Road, Track, TrackReader, Tracks
from tests.toy_sources import EchoReader, Works, coordinator_of

LONG_MS = 100_000
"""More than ``alignmentTimeout``."""


@pytest.fixture
def road() -> Iterator[Road]:
    ROADS["test"] = Road()
    yield ROADS["test"]
    del ROADS["test"]


class Outside:
    """A horizon from outside of the source."""

    def __init__(self, minutes: float | None = None, *, is_strict: bool = False) -> None:
        self.minutes = minutes
        self.is_strict = is_strict
        self.asked: list[Reach] = []

    def horizon(self, reach: Reach, steady_ms: int) -> Horizon | None:
        self.asked.append(reach)
        if self.minutes is None:
            return None
        return Horizon(latest_us=round(self.minutes * MINUTE_US), by="outside", is_strict=self.is_strict)

    def planned(self, reach: Reach, steady_ms: int, *, is_empty: bool, is_held: bool) -> None: ...

    def numbers(self) -> dict[str, int]:
        return {}


@dataclass
class Trip:
    """A query of one source: batches are planned, and are complete at once."""

    kind: type[Any] = Tracks
    outside: tuple[Outside, ...] = ()
    bounded: bool = False
    options: dict[str, str] = field(default_factory=dict)
    limits: Limits = UNLIMITED
    now_ms: int = 0
    newest: PendingCheckpoint[Any] | None = None
    coordinator: SourceCoordinator[Any] = field(init=False)
    works: Works = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start or restart it."""
        given = {"road": "test", "maxEventTimeDrift": "10 minutes"} | self.options
        self.works = Works()
        self.coordinator = coordinator_of(
            self.kind,
            restored=None if self.newest is None else self.newest.snapshot,
            boundedness=Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED,
            options=Options.parse(given, (*CORE_OPTIONS, ROAD)),
            reader_type=TrackReader if issubclass(self.kind, Tracks) else EchoReader,
            runner=self.works,
            horizons=self.outside,
        )

    def plan(self, limits: Limits | None = UNLIMITED, *, after_ms: int = 1000) -> list[Any]:
        """The splits of the next batch."""
        self.now_ms += after_ms
        self.works.run(self.coordinator)
        metadata = CheckpointMetadata(checkpoint_id=self.coordinator.last_checkpoint_id + 1, timestamp_ms=0)
        bounds = self.limits if limits is UNLIMITED else limits
        pending = self.coordinator.checkpoint(metadata, bounds, self.now_ms)
        if pending is None:
            return []
        self.newest = pending
        self.coordinator.complete(pending.checkpoint_id)
        return [split for item in pending.snapshot.plan.assignments for split in item.splits]

    def minutes(self, limits: Limits | None = UNLIMITED, *, after_ms: int = 1000) -> dict[str, list[float]]:
        """The event times in the next batch, by split."""
        found: dict[str, list[float]] = {}
        for split in self.plan(limits, after_ms=after_ms):
            if isinstance(split, Track):
                times = ROADS["test"].times[split.split_id][split.next : split.end]
            else:
                known = event_time_of(split)
                times = [] if known is None else [known.earliest_us, known.latest_us]
            found[split.split_id] = [time / MINUTE_US for time in times]
        return found

    @property
    def shown(self) -> BatchHorizon:
        assert self.newest is not None
        assert self.newest.summary.horizon is not None
        return self.newest.summary.horizon


def every_minute(first: int, last: int) -> list[int]:
    return [minute * MINUTE_US for minute in range(first, last + 1)]


def test_a_batch_may_go_on_by_many_drifts_because_what_counts_is_how_far_the_slowest_could_get_FLINK_37399(
    road: Road,
) -> None:
    road.times = {"slow": every_minute(0, 500), "fast": every_minute(0, 5000)}
    trip = Trip()
    read = trip.minutes()
    assert (max(read["slow"]), max(read["fast"])) == (500, 510)
    assert (trip.shown.slowest, trip.shown.paused) == ("slow", 0)
    assert trip.shown.latest_us == 510 * MINUTE_US


def test_a_split_that_is_ahead_is_paused_and_the_slowest_has_its_share_of_the_batch(road: Road) -> None:
    road.times = {"slow": every_minute(0, 300), "fast": every_minute(200, 300)}
    trip = Trip(limits=Limits(rows=50))
    assert {name: len(times) for name, times in trip.minutes().items()} == {"slow": 50}
    assert (trip.shown.slowest, trip.shown.paused) == ("slow", 1)


def test_what_others_leave_of_a_batch_goes_to_the_slowest_as_far_as_it_can_get(road: Road) -> None:
    sparse = {f"sparse-{number}": every_minute(0, 5000)[::100] for number in range(9)}
    road.times = sparse | {"dense": every_minute(0, 5000)}
    trip = Trip(limits=Limits(rows=1000))
    read = trip.minutes()
    assert 950 <= sum(map(len, read.values())) <= 1000
    assert max(read["dense"]) >= 850
    assert max(map(max, read.values())) <= max(read["dense"]) + 11


def test_paused_splits_are_not_idle_and_are_read_once_the_slowest_has_come_near_FLIP_471_FLIP_513(
    road: Road,
) -> None:
    road.times = {"slow": every_minute(0, 100), "fast": every_minute(50, 100)}
    trip = Trip(limits=Limits(rows=20))
    batches = [trip.minutes(after_ms=LONG_MS) for _ in range(12)]
    first = next(batch for batch in batches if "fast" in batch)
    assert first["fast"][0] == 50
    assert max(first["slow"]) >= 39
    assert sum(len(times) for batch in batches for times in batch.values()) == 152


def test_after_a_restart_a_split_in_which_nothing_waits_holds_nobody_back_FLINK_40505(road: Road) -> None:
    road.times = {"idle": every_minute(0, 10), "other": every_minute(0, 100)}
    trip = Trip()
    assert max(trip.minutes()["other"]) == 20
    assert trip.minutes() == {}
    trip.start()
    assert max(trip.minutes()["other"]) == 100


def test_a_split_in_which_nothing_waits_holds_others_back_for_the_timeout_only_FLINK_32496(
    road: Road,
) -> None:
    road.times = {"idle": every_minute(0, 10), "other": every_minute(0, 100)}
    trip = Trip()
    trip.minutes()
    assert [trip.minutes(after_ms=30_000), trip.coordinator.is_held] == [{}, True]
    assert max(trip.minutes(after_ms=30_000)["other"]) == 100
    road.times["idle"] += every_minute(11, 200)
    road.times["other"] += every_minute(101, 500)
    assert max(trip.minutes()["other"]) == 210


def test_a_split_that_was_paused_for_longer_than_the_timeout_is_resumed_FLINK_40093(road: Road) -> None:
    road.times = {"slow": every_minute(0, 5), "fast": every_minute(50, 60)}
    trip = Trip(limits=Limits(rows=1))
    for _ in range(5):
        assert "slow" in trip.minutes(after_ms=LONG_MS)
    road.times["slow"] += every_minute(45, 45)
    assert trip.minutes(after_ms=LONG_MS) == {"slow": [5]}
    assert trip.minutes(after_ms=LONG_MS).keys() <= {"slow", "fast"}
    assert sum("fast" in trip.minutes(after_ms=LONG_MS) for _ in range(20)) >= 10


def test_splits_that_have_ended_hold_nobody_back_FLINK_35157(road: Road) -> None:
    road.times = {"ends": every_minute(0, 10), "other": every_minute(0, 100)}
    road.closed = {"ends"}
    trip = Trip(limits=Limits(rows=12))
    read = [trip.minutes() for _ in range(20)]
    assert sum(len(batch.get("other", ())) for batch in read) == 101


def test_splits_go_on_when_no_more_are_assigned_FLINK_37670(road: Road) -> None:
    road.times = {"slow": every_minute(0, 100), "fast": every_minute(20, 100)}
    trip = Trip(limits=Limits(rows=10))
    batches = [trip.minutes() for _ in range(30)]
    assert sum(len(times) for batch in batches for times in batch.values()) == 182
    assert trip.minutes() == {}


def test_sources_without_a_split_and_splits_without_a_record_hold_nobody_back_FLINK_32414(road: Road) -> None:
    assert Trip().minutes() == {}
    road.times = {"empty": [], "other": every_minute(0, 100)}
    assert max(Trip().minutes()["other"]) == 100


def test_splits_whose_times_are_not_known_are_not_held_and_hold_nobody_back(road: Road) -> None:
    road.times = {
        "unknown": every_minute(900, 950),
        "slow": every_minute(0, 10),
        "fast": every_minute(0, 100),
    }
    road.unknown = {"unknown"}
    read = Trip().minutes()
    assert {name: max(times) for name, times in read.items()} == {"unknown": 950, "slow": 10, "fast": 20}


def test_a_split_without_times_does_not_let_another_pass_the_slowest(road: Road) -> None:
    """Also if the limits alone would read only that other one."""
    road.times = {"ahead": [minute * MINUTE_US for minute in (60, 61)], "slow": [0, 1, 2], "unknown": [0, 0]}
    road.unknown = {"unknown"}
    trip = Trip(limits=Limits(rows=1))
    read = [split.split_id for _ in range(5) for split in trip.plan()]
    assert sorted(read) == ["slow", "slow", "slow", "unknown", "unknown"]


def test_in_a_run_that_ends_a_split_that_was_read_holds_nobody_back(road: Road) -> None:
    road.times = {"idle": every_minute(0, 10), "other": every_minute(0, 100)}
    trip = Trip(bounded=True)
    assert max(trip.minutes()["other"]) == 20
    assert max(trip.minutes()["other"]) == 100


def test_a_batch_that_is_to_hold_all_data_has_no_horizon(road: Road) -> None:
    road.times = {"slow": every_minute(0, 10), "fast": every_minute(0, 100)}
    assert max(Trip().minutes(None)["fast"]) == 100


def test_a_record_that_is_later_than_the_drift_allows_is_read_if_nothing_else_is(road: Road) -> None:
    road.times = {"slow": [0, 90 * MINUTE_US, 10 * MINUTE_US], "fast": every_minute(80, 100)}
    trip = Trip(limits=Limits(rows=1))
    read = [trip.minutes() for _ in range(26)]
    assert sum(len(times) for batch in read for times in batch.values()) == 24


def test_another_source_holds_back_even_the_slowest_split_unless_that_is_the_slowest_of_all(
    road: Road,
) -> None:
    road.times = {"one": every_minute(50, 60)}
    outside = Outside(minutes=40)
    trip = Trip(outside=(outside,))
    assert trip.minutes() == {}
    assert trip.coordinator.is_held
    assert outside.asked[-1] == Reach(
        waits_us=50 * MINUTE_US, potential_us=60 * MINUTE_US, waiting_us=60 * MINUTE_US, slowest="one"
    )
    outside.minutes = 55
    assert max(trip.minutes()["one"]) == 55
    assert trip.shown.slowest == "outside"
    outside.minutes = None
    assert max(trip.minutes()["one"]) == 60


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_replay_is_never_passed_and_a_group_is_by_one_unit_of_the_slowest(
    road: Road, is_strict: bool
) -> None:
    road.times = {"one": [0, 90 * MINUTE_US, 10 * MINUTE_US]}
    trip = Trip(outside=(Outside(minutes=101, is_strict=False), Outside(minutes=20, is_strict=is_strict)))
    trip.limits = Limits(rows=1)
    assert trip.minutes() == {"one": [0]}
    assert trip.minutes() == {}


def test_what_a_source_could_get_to_next_is_told_between_two_batches(road: Road) -> None:
    road.times = {"slow": every_minute(0, 100), "fast": every_minute(50, 100)}
    trip = Trip(limits=Limits(rows=20))
    trip.minutes()
    reach = trip.coordinator.reach(trip.now_ms)
    assert (reach.waits_us, reach.potential_us, reach.slowest) == (20 * MINUTE_US, 30 * MINUTE_US, "slow")
    assert trip.minutes()["slow"][0] == 20


class Pausing(Tracks):
    """Needs another round of work after each batch, before it tells which splits can be read."""

    has_read = False

    def readable(self, live: Any) -> Any:
        self.has_read = not self.has_read
        return live if self.has_read else ()


def test_a_source_is_as_far_as_it_is_even_if_nothing_of_it_can_be_read_for_a_while(road: Road) -> None:
    road.times = {"one": every_minute(0, 100)}
    trip = Trip(Pausing, limits=Limits(rows=20))
    trip.minutes()
    assert trip.coordinator.reach(trip.now_ms).potential_us == 40 * MINUTE_US


class Counting(Tracks):
    """Counts how often its live splits are looked at, and cut."""

    looks = cuts = 0

    def bound_split(self, split: Track, budget: Budget) -> BoundedRange[Track] | None:
        Counting.cuts += 1
        return super().bound_split(split, budget)

    def readable(self, live: Any) -> Any:
        Counting.looks += 1
        return live


def test_while_all_is_held_little_is_computed_although_spark_asks_many_times_a_second(road: Road) -> None:
    road.times = {"one": every_minute(50, 60)}
    outside = Outside(minutes=40)
    Counting.looks = 0
    trip = Trip(Counting, (outside,))
    for _ in range(100):
        assert trip.minutes(after_ms=10) == {}
        assert trip.coordinator.is_held
    assert Counting.looks == 10
    outside.minutes = 55
    assert trip.minutes(after_ms=10)["one"][-1] == 55
    assert outside.asked[-1].waits_us == 50 * MINUTE_US


def test_a_horizon_is_found_with_few_cuts_of_each_of_many_splits(road: Road) -> None:
    seconds = [second * MINUTE_US // 60 for second in range(86_400)]
    road.times = {f"sparse-{number}": seconds[number * 7 :: 1800] for number in range(200)}
    road.times["dense"] = seconds
    trip = Trip(Counting, limits=Limits(rows=2000))
    for _ in range(4):
        Counting.cuts = 0
        read = trip.minutes()
        assert sum(map(len, read.values())) > 1800
        assert len(read) == 201
        assert Counting.cuts < 1100


WHOLE = {"eventTimeOrder": "true", "maxFilesPerTrigger": "2"}


def whole(outside: tuple[Outside, ...] = (), **options: str) -> Trip:
    return Trip(Pieces, outside, options=WHOLE | options, limits=Limits(files=2))


def pieces(*minutes: tuple[int, int]) -> list[tuple[int, int]]:
    return [(first * MINUTE_US, last * MINUTE_US) for first, last in minutes]


def test_whole_splits_wait_in_order_until_the_horizon_has_passed_their_end(road: Road) -> None:
    road.pieces = pieces((0, 9), (10, 19), (20, 29), (30, 39))
    outside = Outside(minutes=20)
    trip = whole((outside,))
    assert trip.minutes() == {"piece-0": [0, 9], "piece-1": [10, 19]}
    assert (trip.minutes(), trip.coordinator.is_held) == ({}, True)
    road.pieces += pieces((15, 19))
    assert trip.minutes() == {"piece-4": [15, 19]}
    outside.minutes = 29
    assert trip.minutes() == {"piece-2": [20, 29]}
    outside.minutes = None
    assert trip.minutes() == {"piece-3": [30, 39]}


def test_a_whole_split_that_is_wider_than_the_drift_is_read_alone_if_its_source_is_the_slowest(
    road: Road,
) -> None:
    road.pieces = pieces((0, 9), (0, 100), (50, 55), (60, 65))
    trip = whole()
    assert [trip.minutes() for _ in range(4)] == [
        {"piece-0": [0, 9]},
        {"piece-1": [0, 100], "piece-2": [50, 55]},
        {"piece-3": [60, 65]},
        {},
    ]
    road.pieces += pieces((100, 900))
    outside = Outside(minutes=899)
    trip.outside = (outside,)
    trip.start()
    assert trip.minutes() == {}
    outside.minutes = 911
    assert trip.minutes() == {"piece-4": [100, 900]}


def test_a_source_of_whole_splits_could_get_to_the_first_that_does_not_fit(road: Road) -> None:
    road.pieces = pieces((0, 9), (10, 19), (20, 29))
    outside = Outside()
    trip = whole((outside,))
    trip.minutes()
    reached_us = 20 * MINUTE_US
    assert outside.asked[-1] == Reach(
        waits_us=0, unit_us=9 * MINUTE_US, potential_us=reached_us, waiting_us=reached_us, slowest="piece-2"
    )
    assert trip.coordinator.reach(trip.now_ms).potential_us == 29 * MINUTE_US
    trip.minutes()
    assert trip.coordinator.reach(trip.now_ms).potential_us == 29 * MINUTE_US
    assert trip.coordinator.reach(trip.now_ms + LONG_MS) == Reach()


@dataclass
class World:
    """Random tracks, and a query that reads them."""

    road: Road
    trip: Trip
    read: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def plan(self) -> bool:
        before = {name: len(numbers) for name, numbers in self.read.items()}
        splits = self.trip.plan(after_ms=1000)
        for split in splits:
            self.read[split.split_id] += range(split.next, split.end)
        self.check_drift({split.split_id for split in splits}, before)
        return bool(splits)

    def check_drift(self, names: set[str], before: dict[str, int]) -> None:
        """All that was read is at most the drift later than what the slowest has reached after the batch."""
        reached = {}
        latest = {}
        for name, times in self.road.times.items():
            count = len(self.read[name])
            if name in self.road.unknown or not times:
                continue
            has_ended = name in self.road.closed and count == len(times)
            if not has_ended and (name in names or count < len(times)):
                reached[name] = max(times[: count + 1])
            if name in names:
                latest[name] = max(times[before.get(name, 0) : count])
        if not reached or not latest:
            return
        least = min(reached.values())
        late = {name for name, time in latest.items() if time > least + 10 * MINUTE_US}
        # One unit of the slowest is allowed, if nothing else is read.
        if late and (len(latest) > 1 or reached.get(next(iter(late)), least) > least):
            raise AssertionError(f"{latest} was read while the slowest has reached {reached}")


MINUTES = st.integers(0, 60)


@given(data=st.data())
def test_in_any_interleaving_all_is_read_once_in_order_and_the_drift_is_kept(data: st.DataObject) -> None:
    names = [f"track-{number}" for number in range(data.draw(st.integers(1, 6)))]
    world_road = ROADS["test"] = Road()
    world_road.times = {name: [] for name in names}
    world_road.unknown = data.draw(st.sets(st.sampled_from(names), max_size=1))
    is_ordered = data.draw(st.booleans())
    rows = data.draw(st.one_of(st.none(), st.integers(1, 30)))
    trip = Trip(limits=Limits(rows=rows))
    world = World(world_road, trip)
    moves = data.draw(
        st.lists(st.sampled_from(["plan", "plan", "add", "add", "wait", "restart", "close"]), max_size=30)
    )
    for move in moves:
        name = data.draw(st.sampled_from(names))
        times = world_road.times[name]
        if move == "add" and name not in world_road.closed:
            new = [minute * MINUTE_US for minute in data.draw(st.lists(MINUTES, max_size=8))]
            base = times[-1] if times and is_ordered else 0
            times += [base + step for step in (sorted(new) if is_ordered else new)]
        elif move == "close" and times:
            if len(world.read[name]) < len(times):
                world_road.closed.add(name)
        elif move == "wait":
            trip.now_ms += LONG_MS
        elif move == "restart":
            trip.start()
        else:
            world.plan()
    # Nothing waits for ever, and a run that ends waits for nothing.
    trip.bounded = data.draw(st.booleans())
    if trip.bounded:
        trip.start()
    for _ in range(1 if trip.bounded else len(names) + 1):
        while world.plan():
            pass
        trip.now_ms += LONG_MS
    assert {name: world.read[name] for name in names} == {
        name: list(range(len(times))) for name, times in world_road.times.items()
    }


@given(
    found=st.lists(st.tuples(MINUTES, st.sampled_from((1, 5, 30))), max_size=12),
    files=st.one_of(st.none(), st.integers(1, 4)),
    late=st.lists(st.tuples(MINUTES, st.just(1)), max_size=3),
)
def test_whole_splits_are_all_read_and_only_one_unit_passes_the_drift(
    found: list[tuple[int, int]], files: int | None, late: list[tuple[int, int]]
) -> None:
    ROADS["test"] = Road(pieces=pieces(*((first, first + width) for first, width in found)))
    trip = whole()
    trip.limits = Limits(files=files)
    read: dict[str, list[float]] = {}
    while batch := trip.minutes():
        over = [name for name, times in batch.items() if times[1] * MINUTE_US > trip.shown.latest_us]
        assert len(over) <= 1
        assert not over or over[0] == min(batch, key=lambda name: sum(batch[name]))
        assert not read.keys() & batch.keys()
        read |= batch
        while late:
            ROADS["test"].pieces += pieces(*((first, first + width) for first, width in [late.pop()]))
    assert len(read) == len(ROADS["test"].pieces)
