"""Batches that size themselves: on simulated clusters, whose time of a batch is known."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import UNLIMITED, BatchBudget, Limits
from flip27_source.coordination.batch_sizing import BatchSizer, BatchTimes, waited_for_trigger
from flip27_source.enumerator import Backlog
from flip27_source.split import SplitSize

TARGET_MS = 30_000
PLENTY = 10**9

Cost = Callable[[int, int], float]
"""The milliseconds of a batch, by its number and its files."""


def overhead_and_cost(overhead_ms: float, file_ms: float) -> Cost:
    return lambda _, files: overhead_ms + files * file_ms


class Cluster:
    """A cluster that runs batches of a sizer on simulated time.

    Attributes:
        batches: of each batch, its duration as a share of the target, and its number of files.
    """

    def __init__(self, cost: Cost, *, backlog_target_ms: int = TARGET_MS, hard: Limits = UNLIMITED) -> None:
        self.cost = cost
        self.hard = hard
        self.sizer = BatchSizer(TARGET_MS, backlog_target_ms)
        self.batches: list[tuple[float, int]] = []

    def run(
        self,
        batches: int,
        *,
        waiting: int = PLENTY,
        file_bytes: int = 10_000,
        interval_ms: int = 1,
        obeys_bytes: bool = True,
    ) -> Cluster:
        """Run batches, each with this many files to read before it."""
        for _ in range(batches):
            limits = self.sizer.tighten(self.hard)
            budget = BatchBudget(limits)
            by_bytes = PLENTY if limits.bytes is None else max(1, limits.bytes // max(1, file_bytes))
            files = min(waiting, PLENTY if limits.files is None else limits.files)
            files = min(files, by_bytes) if obeys_bytes else files
            if files:
                budget.take(SplitSize(files=files, bytes=files * file_bytes))
            left = Backlog(splits=waiting - files, bytes=(waiting - files) * file_bytes)
            self.sizer.planned(budget, left)
            took_ms = self.cost(len(self.batches), files)
            until_trigger_ms = math.ceil(took_ms / interval_ms) * interval_ms
            waited = interval_ms > 1 and took_ms <= interval_ms
            self.sizer.completed(round(until_trigger_ms if waited else took_ms), waited=waited)
            self.batches.append((took_ms / TARGET_MS, files))
        return self

    @property
    def shares(self) -> list[float]:
        return [share for share, _ in self.batches]

    @property
    def files(self) -> list[int]:
        return [files for _, files in self.batches]


def near(shares: list[float]) -> float:
    """How many of the batches have taken 0.7 to 1.3 times the target."""
    return sum(0.7 <= share <= 1.3 for share in shares) / len(shares)


def test_the_first_batch_is_small() -> None:
    assert Cluster(overhead_and_cost(0, 1)).run(1).files == [100]
    assert Cluster(overhead_and_cost(0, 1)).run(1, file_bytes=1024**2).files == [32]
    assert Cluster(overhead_and_cost(0, 1)).run(1, file_bytes=1024**4).files == [1]


@given(overhead=st.floats(min_value=0, max_value=0.5), capacity=st.integers(min_value=1, max_value=1_000_000))
def test_from_the_sixth_batch_on_batches_take_the_target(overhead: float, capacity: int) -> None:
    """``capacity``: the number of files that a batch of the target's duration can hold."""
    cost = overhead_and_cost(overhead * TARGET_MS, (1 - overhead) * TARGET_MS / capacity)
    shares = Cluster(cost).run(20).shares
    # A batch of few files cannot be made a little larger or smaller.
    step = 1 / capacity
    assert all(0.7 - step <= share <= 1.3 + step for share in shares[5:]), shares


@given(st.integers(min_value=0, max_value=2**32))
def test_nine_of_ten_batches_are_near_the_target_where_times_vary_by_an_eighth(seed: int) -> None:
    chance = random.Random(seed)

    def cost(_: int, files: int) -> float:
        return (1000 + files * 0.3) * math.exp(chance.gauss(0, 0.125))

    assert near(Cluster(cost).run(205).shares[5:]) >= 0.9


@pytest.mark.parametrize("factor", [5, 1 / 5])
def test_one_slow_or_fast_batch_changes_nothing(factor: float) -> None:
    plain = overhead_and_cost(1000, 0.3)
    cluster = Cluster(lambda number, files: plain(number, files) * (factor if number == 20 else 1))
    files = cluster.run(30).files
    assert all(0.95 * files[20] <= later <= 1.05 * files[20] for later in files[21:])


@pytest.mark.parametrize("factor", [4, 1.5, 1 / 1.5, 1 / 4])
def test_a_cluster_that_becomes_slower_or_faster_is_followed_within_five_batches(factor: float) -> None:
    plain = overhead_and_cost(1000, 0.3)
    cluster = Cluster(lambda number, files: plain(number, files) * (factor if number >= 20 else 1))
    shares = cluster.run(40).shares
    assert near(shares[10:20]) == near(shares[25:]) == 1, shares


def test_many_small_files_instead_of_large_ones_end_a_batch_before_it_takes_long() -> None:
    """Bytes are the measure; files of a hundredth of the size would be a hundred times as many."""
    cluster = Cluster(overhead_and_cost(1000, 3)).run(10, file_bytes=1_000_000).run(10, file_bytes=10_000)
    assert max(cluster.shares[10:]) < 2.5
    assert near(cluster.shares[15:]) == 1, cluster.shares


@pytest.mark.parametrize("factor", [100, 10, 2, 1 / 2, 1 / 10, 1 / 100])
def test_limits_go_to_their_new_value_without_going_beyond_it(factor: float) -> None:
    cluster = Cluster(lambda number, files: 30 + files * 0.3 * (factor if number >= 20 else 1))
    assert max(cluster.run(40).shares[23:]) <= 1.3
    assert near(cluster.shares[25:]) == 1, cluster.shares


def test_a_batch_that_was_paused_for_a_night_while_batches_grow_counts_once() -> None:
    plain = overhead_and_cost(1000, 0.3)
    cluster = Cluster(lambda number, files: plain(number, files) + (43_200_000 if number == 2 else 0))
    assert cluster.run(9).files == [100, 1000, 10_000, 6, 60, 1000, 10_000, 96_666, 96_666]


def test_a_slow_start_of_the_first_batch_counts_once() -> None:
    plain = overhead_and_cost(1000, 0.3)
    cluster = Cluster(lambda number, files: plain(number, files) + (20_000 if number == 0 else 0))
    assert cluster.run(5).files == [100, 142, 1420, 14_200, 96_675]


def test_a_source_that_bounds_its_splits_by_one_limit_only_reaches_the_target() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(30, obeys_bytes=False)
    assert near(cluster.shares[5:]) == 1, cluster.shares


def test_batches_with_a_slow_task_now_and_then_do_not_change_the_others() -> None:
    cluster = Cluster(lambda number, files: 500 + files * (0.6 if number % 10 == 7 else 0.3))
    shares = cluster.run(100).shares
    assert near([share for number, share in enumerate(shares) if number >= 5 and number % 10 != 7]) == 1


def test_an_empty_batch_is_no_estimate_and_a_small_one_does_not_lower_the_limits() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(10)
    before = cluster.sizer.times.limits(TARGET_MS)
    cluster.run(20, waiting=0)
    assert cluster.sizer.times.limits(TARGET_MS) == before
    cluster.run(20, waiting=7)
    after = cluster.sizer.times.limits(TARGET_MS)
    assert before.files is not None
    assert after.files is not None
    assert 0.9 <= after.files / before.files <= 1.1


def test_one_small_batch_that_takes_too_long_is_no_trend() -> None:
    plain = overhead_and_cost(1000, 0.3)
    cluster = Cluster(lambda number, files: plain(number, files) + (40_000 if number == 15 else 0)).run(10)
    cluster.run(10, waiting=3)
    assert near(cluster.run(3).shares[20:]) == 1, cluster.shares


def test_small_batches_that_wait_for_an_interval_above_the_target_do_not_lower_the_limits() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(40, interval_ms=2 * TARGET_MS)
    cluster.run(10, waiting=1, interval_ms=2 * TARGET_MS).run(1, interval_ms=2 * TARGET_MS)
    assert cluster.shares[-1] >= 1, cluster.files


def test_files_without_contents_do_not_let_the_next_batch_hold_any_number_of_bytes() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(3, file_bytes=0)
    assert cluster.run(1, file_bytes=16 * 1024 * 1024).files == [100, 1000, 10_000, 2]


def test_small_batches_that_take_too_long_lower_the_limits() -> None:
    cluster = Cluster(lambda number, files: 1000 + files * (0.3 if number < 10 else 300))
    cluster.run(10)
    shares = cluster.run(10, waiting=2000).shares
    assert near(shares[15:]) == 1, shares


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**12), st.booleans()), max_size=30))
def test_limits_are_never_zero_whatever_the_batches_were(batches: list[tuple[int, int, bool]]) -> None:
    sizer = BatchSizer(TARGET_MS, TARGET_MS)
    for duration_ms, size, waited in batches:
        limits = sizer.tighten(UNLIMITED)
        assert [
            value for value in (limits.files, limits.rows, limits.bytes) if value is not None and value < 1
        ] == []
        budget = BatchBudget(limits)
        budget.take(SplitSize(files=1, rows=size // 7, bytes=size))
        sizer.planned(budget, Backlog())
        sizer.completed(duration_ms, waited=waited)


def test_a_batch_that_cannot_take_so_little_time_holds_one_split_and_no_error() -> None:
    files = Cluster(overhead_and_cost(2 * TARGET_MS, 1000)).run(20).files
    assert all(1 <= number <= 100 for number in files)


def test_times_that_vary_by_a_quarter_make_no_batch_take_many_times_the_target() -> None:
    def cost(seed: int) -> Cost:
        chance = random.Random(seed)
        return lambda _, files: (0.8 * TARGET_MS + files * 0.3) * math.exp(chance.gauss(0, 0.25))

    assert max(max(Cluster(cost(seed)).run(105).shares[5:]) for seed in range(20)) < 5


def test_under_an_overhead_above_the_target_batches_grow_until_their_data_counts() -> None:
    cluster = Cluster(overhead_and_cost(2 * TARGET_MS, 0.3)).run(20)
    assert max(cluster.shares) < 3.1
    limit = cluster.files[-1]
    assert limit > 10_000
    # Small batches take long because of the overhead, which says nothing of the limit.
    assert cluster.run(10, waiting=1).run(1).files[-1] == limit


@pytest.mark.parametrize("seed", range(10))
def test_batches_do_not_shrink_for_an_overhead_above_the_target(seed: int) -> None:
    """Otherwise a query whose sink takes a minute would read one file a minute."""
    chance = random.Random(seed)

    def cost(_: int, files: int) -> float:
        return (2 * TARGET_MS + files * 0.3) * math.exp(chance.gauss(0, 0.1))

    cluster = Cluster(cost).run(60)
    assert statistics.median(cluster.files[20:]) > 2_000
    assert statistics.median(cluster.shares[20:]) < 3


def test_hard_limits_hold() -> None:
    hard = Limits(files=5000)
    assert max(Cluster(overhead_and_cost(1000, 0.3), hard=hard).run(20).files) == 5000


def test_batches_are_larger_while_a_whole_batch_is_waiting_and_smaller_when_none_is() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3), backlog_target_ms=4 * TARGET_MS).run(12)
    assert 0.7 <= cluster.shares[-1] / 4 <= 1.3
    cluster.run(2, waiting=cluster.files[-1])
    assert cluster.shares[-1] <= 1.3


def test_with_a_trigger_of_an_interval_below_the_target_batches_fill_the_target() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(60, interval_ms=10_000)
    assert near(cluster.shares[20:]) >= 0.9, cluster.shares


def test_with_a_trigger_of_an_interval_above_the_target_batches_stay_in_the_interval() -> None:
    """The query waits anyway: the source cannot see how long a batch takes, only that it fits."""
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(60, interval_ms=2 * TARGET_MS)
    assert all(1 <= share <= 2 * 1.3 for share in cluster.shares[20:]), cluster.shares


def test_batches_that_wait_go_on_slowly_once_one_of_them_did_not() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(60, interval_ms=TARGET_MS * 3 // 2)
    assert max(cluster.shares[20:]) < 1.6, cluster.shares


@pytest.mark.parametrize(
    ("started", "ended", "waited"),
    [
        (600_000, 630_020, True),  # every 30 seconds
        (600_120, 630_090, True),
        (600_000, 641_870, False),  # the batch has taken longer
        (641_870, 660_015, False),  # it waited, but for how long nobody knows
        (641_870, 641_900, False),  # a batch of 30 ms
    ],
)
def test_a_wait_is_known_by_triggers_at_multiples_of_an_interval(
    started: int, ended: int, waited: bool
) -> None:
    assert waited_for_trigger(started, ended) is waited


def test_a_new_run_begins_where_the_last_one_was_and_follows_its_own_first_batch() -> None:
    for factor in (10, 1 / 10):
        changed = 0.3 * factor
        cluster = Cluster(lambda number, files, ms=changed: 1000 + files * (0.3 if number < 10 else ms)).run(
            10
        )
        cluster.sizer = BatchSizer(TARGET_MS, TARGET_MS, cluster.sizer.times.in_a_new_run())
        cluster.run(4)
        assert 0.8 <= cluster.shares[10] / factor <= 1.4
        assert near(cluster.shares[11:]) == 1, cluster.shares
    assert BatchSizer(TARGET_MS, TARGET_MS, BatchTimes().in_a_new_run()).tighten(UNLIMITED).files == 100


def test_the_reason_says_what_was_measured() -> None:
    cluster = Cluster(overhead_and_cost(1000, 0.3)).run(10)
    assert cluster.sizer.times.limits(TARGET_MS).reason == "3.33e+07 bytes/s and 1.0 s overhead in 5 batches"
