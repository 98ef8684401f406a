"""Groups: which members count, how far one may read, and that no interleaving leaves all of them waiting."""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as replace_reach
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from flip27_source.coordination.groups import Group, Member
from flip27_source.coordination.horizon import Horizon, Reach
from flip27_source.coordination.replay import Pace

DRIFT_US, TIMEOUT_MS = 10, 60_000


def group(run: str = "own", *, drift_us: int | None = DRIFT_US, lineage: str | None = None) -> Group:
    return Group(run, f"source of {run}", 0, drift_us, TIMEOUT_MS, lineage)


def member(run: str, potential_us: int | None = None, **more: object) -> Member:
    return replace(
        Member(run=run, source=run.upper(), began_ms=0, beat_ms=0, potential_us=potential_us), **more
    )


def horizon(one: Group, *records: Member, steady_ms: int = 0) -> Horizon | None:
    one.seen(records, steady_ms)
    return one.horizon(Reach(), steady_ms)


def planned(one: Group, reach: Reach, steady_ms: int = 0, *, is_empty: bool = False) -> Member:
    one.planned(reach, steady_ms, is_empty=is_empty, is_held=False)
    return one.record(steady_ms, None)


def test_a_member_that_has_met_nobody_goes_on_by_one_drift_for_a_while() -> None:
    one, alone = group(), Horizon(latest_us=17, by="alignmentGroup")
    reach = Reach(waits_us=7, potential_us=1000)
    assert one.horizon(reach, 0) == alone
    one.seen([member("a"), member("own", 5)], TIMEOUT_MS - 1)
    assert one.horizon(reach, TIMEOUT_MS - 1) == alone
    # One unit is always allowed: here a wide split.
    wide = Reach(waits_us=7, unit_us=400, potential_us=1000)
    assert one.horizon(wide, 1) == Horizon(latest_us=400, by="alignmentGroup")
    assert one.horizon(replace_reach(wide, unit_us=8), 1) == alone
    assert one.horizon(Reach(), 1) is None
    assert one.horizon(reach, TIMEOUT_MS) is None
    # After that it waits for members that it sees.
    assert horizon(one, member("a", 500, beat_ms=TIMEOUT_MS), steady_ms=TIMEOUT_MS) == Horizon(
        latest_us=510, by="A"
    )


def test_a_member_that_has_met_one_that_is_idle_now_is_not_held() -> None:
    one = group()
    horizon(one, member("a", 500))
    assert horizon(one, member("a")) is None


def test_the_slowest_of_the_others_and_the_drift() -> None:
    found = horizon(group(), member("a", 500), member("b", 300), member("own", 1))
    assert found == Horizon(latest_us=310, by="B")


def test_a_member_without_an_active_split_holds_nobody() -> None:
    assert horizon(group(), member("a"), member("own", 1)) is None


def test_splits_in_which_nothing_waits_hold_others_until_the_time_that_is_told() -> None:
    """Their source may not be asked again for a long time."""
    reach = Reach(potential_us=500, waiting_us=700, idle_ms=10)
    for potential_us, waiting_us in ((510, 710), (510, None)):
        waits_us = None if waiting_us is None else waiting_us - DRIFT_US
        record = planned(group("a"), replace_reach(reach, waiting_us=waits_us))
        for steady_ms, latest_us in ((9, potential_us), (10, waiting_us)):
            found = horizon(group(), record, steady_ms=steady_ms)
            assert (None if found is None else found.latest_us) == latest_us


def test_a_member_without_a_drift_is_not_held_and_holds_others() -> None:
    one = group(drift_us=None)
    assert horizon(one, member("a", 5)) is None
    record = planned(one, Reach(potential_us=7))
    assert horizon(group("b"), record) == Horizon(latest_us=17, by="source of own")


def test_a_stale_member_expires() -> None:
    one = group()
    assert horizon(one, member("a", 5), steady_ms=TIMEOUT_MS) is not None
    assert horizon(one, member("a", 5), steady_ms=TIMEOUT_MS + 1) is None
    assert horizon(one, member("a", 5, beat_ms=2), steady_ms=TIMEOUT_MS + 1) is not None


def test_a_member_that_shows_more_rarely_that_it_is_alive_counts_for_as_long() -> None:
    slow = Group("slow", "slow", 0, DRIFT_US, 10 * TIMEOUT_MS)
    record = planned(slow, Reach(potential_us=5))
    assert horizon(group(), record, steady_ms=10 * TIMEOUT_MS) is not None
    assert horizon(group(), record, steady_ms=10 * TIMEOUT_MS + 1) is None


def test_an_earlier_run_of_a_query_never_counts() -> None:
    """It may live on for a while: Spark does not wait for the end of a process that it has stopped."""
    before = member("before", 5, lineage="query-1", began_ms=100)
    after = member("after", 900, lineage="query-1", began_ms=200)
    for records in ([before, after], [after, before]):
        assert horizon(group(), *records) == Horizon(latest_us=910, by="AFTER")
    assert horizon(group(lineage="query-1"), before) is None
    # Members of different queries both count, also before they have a checkpoint.
    others = member("a", 7), member("b", 6)
    assert horizon(group(), before, *others) == Horizon(latest_us=15, by="BEFORE")


def test_paces_are_those_of_the_members_that_count() -> None:
    pace = Pace(5, 0, 10.0)
    one = group(lineage="mine")
    one.seen([member("a", pace=pace), member("b"), member("c", pace=pace, lineage="mine")], 0)
    assert one.paces() == [pace]
    assert one.record(3, pace).pace == pace


def test_a_planning_without_a_batch_publishes_the_potential_that_it_had() -> None:
    one = group()
    for is_empty, published_us in ((False, 99), (True, 77)):
        one.horizon(Reach(potential_us=77), 0)
        assert planned(one, Reach(potential_us=99), is_empty=is_empty).potential_us == published_us
    # A planning that asks for no horizon has no such potential.
    assert planned(one, Reach(potential_us=99), is_empty=True).potential_us == 99


@dataclass
class Query:
    """A source with one queue of units, as ``coordination.alignment`` plans it: at most ``limit`` in a batch,
    none that ends after the horizon, but one if the source itself is the slowest. What it expects of the next
    batch is wrong: that has a limit of one unit.
    """

    name: str
    units: list[tuple[int, int]]
    limit: int
    drift_us: int
    run: int = 0
    read: int = 0
    group: Group = field(init=False)
    most_ahead_us: int = 0

    def start(self, steady_ms: int) -> None:
        self.run += 1
        lineage = self.name if self.read else None
        self.group = Group(
            f"{self.name}-{self.run}", self.name, steady_ms, self.drift_us, TIMEOUT_MS, lineage
        )

    def reach(self, limit: int) -> Reach:
        waiting = self.units[self.read :]
        if not waiting:
            return Reach()
        potential_us = waiting[limit][0] if len(waiting) > limit else waiting[-1][1]
        (waits_us, unit_us), *_ = waiting
        return Reach(waits_us=waits_us, unit_us=unit_us, potential_us=potential_us, slowest=self.name)

    def plan(self, records: list[Member], steady_ms: int) -> Member:
        self.group.seen(records, steady_ms)
        reach = self.reach(self.limit)
        bound = self.group.horizon(reach, steady_ms)
        own_us = 0 if reach.potential_us is None else reach.potential_us + self.drift_us
        horizon_us = own_us if bound is None else min(own_us, bound.latest_us)
        fitting = 0
        for _, end_us in self.units[self.read : self.read + self.limit]:
            if end_us > horizon_us:
                break
            fitting += 1
        if fitting == 0 and reach.waits_us is not None and (bound is None or own_us <= bound.latest_us):
            fitting = 1
        elif fitting and bound is not None:
            assert self.units[self.read + fitting - 1][1] <= bound.latest_us
        self.read += fitting
        self.group.lineage = self.name if self.read else None
        return planned(self.group, self.reach(1), steady_ms, is_empty=fitting == 0)


@dataclass
class Host:
    """The members of one group, their records, and a clock. ``locks``: dead members' records vanish."""

    random: Random
    queries: list[Query]
    locks: bool
    now_ms: int = 0
    alive: dict[str, Query] = field(default_factory=dict)
    records: dict[str, Member] = field(default_factory=dict)
    older: list[list[Member]] = field(default_factory=list)

    def start(self, query: Query) -> None:
        self.now_ms += 1
        query.start(self.now_ms)
        self.alive[query.name] = query

    def kill(self, query: Query) -> None:
        self.alive.pop(query.name, None)
        if self.locks:
            self.records.pop(f"{query.name}-{query.run}", None)

    def beat(self) -> None:
        """All processes that are alive show it, whatever their queries do."""
        for query in self.alive.values():
            run = f"{query.name}-{query.run}"
            if run in self.records:
                self.records[run] = replace(self.records[run], beat_ms=self.now_ms)

    def plan(self, query: Query, *, stale: bool = False) -> None:
        seen = self.random.choice(self.older) if stale and self.older else list(self.records.values())
        record = query.plan(seen, self.now_ms)
        self.records[record.run] = record
        self.older = [*self.older[-5:], list(self.records.values())]

    def step(self) -> None:
        """Anything happens."""
        self.now_ms += self.random.choice([0, 1, 100, 20_000])
        self.beat()
        query = self.random.choice(self.queries)
        what = self.random.random()
        if query.name not in self.alive or what < 0.05:
            self.kill(query)
            if self.random.random() < 0.7:
                self.start(query)
        elif what < 0.15:
            last_us = query.units[-1][0] if query.units else 0
            start_us = last_us + self.random.choice([0, 1, 5, 500])
            query.units.append((start_us, start_us + self.random.choice([0, 1, 9, 200])))
        else:
            self.plan(query, stale=self.random.random() < 0.3)


def queries(random: Random) -> list[Query]:
    found = []
    for name in ("a", "b", "c")[: random.randint(2, 3)]:
        at_us, units = random.choice([0, 3, 1000]), []
        for _ in range(random.randint(0, 12)):
            at_us += random.choice([0, 0, 1, 7, 300])
            units.append((at_us, at_us + random.choice([0, 2, 40])))
        found.append(Query(name, units, random.randint(1, 4), random.choice([1, 10, 1000])))
    return found


@given(seed=st.integers(0, 2**64))
def test_no_interleaving_leaves_all_members_waiting(seed: int) -> None:
    """Plannings, deaths, restarts, idle members and stale reads; then all are alive and take turns."""
    random = Random(seed)
    host = Host(random, queries(random), locks=random.random() < 0.5)
    for _ in range(random.randint(0, 80)):
        host.step()
    for query in host.queries:
        if query.name not in host.alive:
            host.start(query)
    if not host.locks:
        host.now_ms += TIMEOUT_MS + 1
        host.beat()
    left = sum(len(query.units) for query in host.queries)
    # The first round brings the records up to date; in each one after it something is read.
    for _ in range(left + 2):
        random.shuffle(host.queries)
        for query in host.queries:
            host.plan(query)
    assert [query.read for query in host.queries] == [len(query.units) for query in host.queries]


@given(seed=st.integers(0, 2**64))
def test_members_that_see_each_other_stay_within_the_drift(seed: int) -> None:
    """What is read ends at most one drift after the place that the slowest of the others could reach."""
    random = Random(seed)
    host = Host(random, queries(random), locks=True)
    for query in host.queries:
        host.start(query)
    for _ in range(60):
        query = random.choice(host.queries)
        before, others = query.read, [one for one in host.records.values() if one.source != query.name]
        bounds = [one.potential_us for one in others if one.potential_us is not None]
        own_us = query.reach(query.limit).potential_us
        host.plan(query)
        is_slowest = own_us is not None and all(own_us <= bound for bound in bounds)
        if query.read > before and bounds and not (is_slowest and query.read == before + 1):
            assert query.units[query.read - 1][1] <= min(bounds) + query.drift_us


def test_a_silent_query_that_is_alive_is_waited_for() -> None:
    """A slow sink: its process shows that it is alive, and it is the slowest of its group."""
    slow = Query("slow", [(0, 0), (1, 1)], 1, 10)
    fast = Query("fast", [(us, us) for us in range(0, 1000, 5)], 50, 10)
    host = Host(Random(0), [slow, fast], locks=True)
    for query in host.queries:
        host.start(query)
    host.plan(slow)
    for _ in range(10):
        host.now_ms += TIMEOUT_MS
        host.beat()
        host.plan(fast)
    assert fast.units[fast.read][0] == 15
    host.kill(slow)
    for _ in range(5):
        host.plan(fast)
    assert fast.read == len(fast.units)


@pytest.mark.parametrize("drifts", [(1, 1000), (1000, 1)])
def test_members_may_have_different_drifts(drifts: tuple[int, int]) -> None:
    one, two = (
        Query(name, [(us, us + 100) for us in range(first, 5000, 100)], 3, drift)
        for name, first, drift in zip("ab", (0, 50), drifts, strict=True)
    )
    host = Host(Random(0), [one, two], locks=True)
    for query in host.queries:
        host.start(query)
    for _ in range(100):
        host.plan(one)
        host.plan(two)
    assert (one.read, two.read) == (len(one.units), len(two.units))
