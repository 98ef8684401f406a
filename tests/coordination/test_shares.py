"""Fair shares: what each live split gets of a batch, and that every split gets its turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_source.coordination.shares import fair_ranges
from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.split import SplitSize


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A split with ``backlog`` rows after its position, each of ``row_bytes`` bytes."""

    split_id: str
    backlog: int
    row_bytes: int = 1
    rows: int = 0
    step: int = 1
    """The split is read in whole steps of this many rows."""
    passes_budget: bool = False
    """Whether a step that is larger than the budget is read; otherwise nothing is."""

    @property
    def size(self) -> SplitSize:
        return SplitSize(rows=self.rows, bytes=self.rows * self.row_bytes, files=0)


def bound(split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
    """Bound as the Kafka enumerator does: by rows, and by bytes up to the row that crosses the limit."""
    if split.backlog == 0:
        return None
    rows = split.backlog if budget.rows is None else min(budget.rows, split.backlog)
    if budget.bytes is not None:
        rows = min(rows, -(-budget.bytes // split.row_bytes))
    read = replace(split, rows=rows)
    return BoundedRange(read=read, rest=replace(split, backlog=split.backlog - rows))


def rows_of(partitions: list[Partition], **limits: int) -> dict[str, int]:
    """The number of rows that one batch reads from each partition."""
    return {split.split_id: cut.read.rows for split, cut in fair_ranges(partitions, Budget(**limits), bound)}


def by_steps(split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
    """Bound as a source of row groups does: in whole steps, beyond the budget only if ``passes_budget``."""
    cut = bound(split, budget)
    if cut is None or split.step == 1:
        return cut
    rows = cut.read.rows // split.step * split.step or (split.step if split.passes_budget else 0)
    rows = split.backlog if split.backlog <= cut.read.rows else min(rows, split.backlog)
    if rows == 0:
        return None
    return BoundedRange(read=replace(split, rows=rows), rest=replace(split, backlog=split.backlog - rows))


def lagging(*backlogs: int, row_bytes: int = 1) -> list[Partition]:
    return [
        Partition(split_id=str(number), backlog=backlog, row_bytes=row_bytes)
        for number, backlog in enumerate(backlogs)
    ]


def test_partitions_with_equal_backlogs_get_equal_shares() -> None:
    assert rows_of(lagging(*[1000] * 8), rows=400) == {str(number): 50 for number in range(8)}


def test_rows_that_a_split_does_not_need_are_shared_among_the_others() -> None:
    assert rows_of(lagging(10, 1000, 0, 1000), rows=400) == {"0": 10, "1": 195, "3": 195}


def test_a_limit_above_the_total_backlog_gives_every_split_all_its_rows() -> None:
    assert rows_of(lagging(10, 20, 30), rows=400) == {"0": 10, "1": 20, "2": 30}


def test_without_a_limit_each_split_gives_all_its_rows_and_is_bound_once() -> None:
    asked: list[str] = []

    def counted(split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
        asked.append(split.split_id)
        return bound(split, budget)

    found = fair_ranges(lagging(10, 0, 30), Budget(), counted)
    assert [(split.split_id, cut.read.rows) for split, cut in found] == [("0", 10), ("2", 30)]
    assert asked == ["0", "1", "2"]


def test_with_fewer_rows_than_splits_the_first_splits_get_one_row_each() -> None:
    assert rows_of(lagging(*[1000] * 8), rows=3) == {"0": 1, "1": 1, "2": 1}


def test_with_fewer_rows_than_splits_idle_splits_take_no_turn_from_the_others() -> None:
    assert rows_of(lagging(0, 0, 0, 5, 5), rows=2) == {"3": 1, "4": 1}


def test_the_limit_that_is_reached_first_counts() -> None:
    assert rows_of(lagging(100, 100, row_bytes=10), rows=1000, bytes=400) == {"0": 20, "1": 20}
    assert rows_of(lagging(100, 100, row_bytes=10), rows=10, bytes=400) == {"0": 5, "1": 5}


def test_a_split_that_ends_leaves_its_unused_share_to_the_others() -> None:
    def ends(split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
        cut = bound(split, budget)
        return cut if cut is None or cut.rest is None or cut.rest.backlog else replace(cut, rest=None)

    found = fair_ranges(lagging(50, 1000), Budget(rows=100), ends)
    assert [cut.read.rows for _, cut in found] == [50, 50]
    found = fair_ranges(lagging(20, 1000), Budget(rows=100), ends)
    assert [cut.read.rows for _, cut in found] == [20, 80]


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 200))
def test_a_limit_is_used_up_if_there_is_enough_data_and_never_exceeded(
    backlogs: list[int], limit: int
) -> None:
    given_rows = rows_of(lagging(*backlogs), rows=limit)
    assert sum(given_rows.values()) == min(limit, sum(backlogs))
    assert all(rows <= backlogs[int(name)] for name, rows in given_rows.items())


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 200))
def test_no_split_gets_two_rows_more_than_a_split_with_a_larger_backlog(
    backlogs: list[int], limit: int
) -> None:
    given_rows = rows_of(lagging(*backlogs), rows=limit)
    hungry = [given_rows.get(str(n), 0) for n, has in enumerate(backlogs) if given_rows.get(str(n), 0) < has]
    most = max(given_rows.values())
    assert all(most - rows <= 1 for rows in hungry)


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_every_partition_has_its_turn_however_small_the_limit(limit: int) -> None:
    """The queue is kept as the ledger keeps it: a split that received a share moves to its end."""
    queue = lagging(*[1000] * 10)
    turns: list[str] = []
    for _ in range(10):
        found = {split.split_id: cut.rest for split, cut in fair_ranges(queue, Budget(rows=limit), bound)}
        turns += found
        moved = [rest for rest in found.values() if rest is not None]
        queue = [split for split in queue if split.split_id not in found] + moved
    assert set(turns[:10]) == {str(number) for number in range(10)}


def batch_of(queue: list[Partition], rows: int) -> tuple[dict[str, int], list[Partition]]:
    """The rows that one batch reads from each partition, and the queue afterwards, as the ledger keeps it."""
    found = fair_ranges(queue, Budget(rows=rows), by_steps)
    given_rows = {split.split_id: cut.read.rows for split, cut in found}
    moved = [cut.rest for _, cut in found if cut.rest is not None]
    return given_rows, [split for split in queue if split.split_id not in given_rows] + moved


def test_a_step_larger_than_a_share_is_read_when_its_turn_comes() -> None:
    queue = [replace(split, step=80) for split in lagging(*[1000] * 8)]
    turns = []
    for _ in range(4):
        given_rows, queue = batch_of(queue, rows=400)
        turns.append(sorted(given_rows))
        assert set(given_rows.values()) == {80}
    assert turns == [list("01234"), list("04567"), list("01235"), list("14567")]


def test_a_step_larger_than_the_limits_is_read_when_its_turn_comes() -> None:
    large, small = lagging(1000, 1000)
    queue = [small, replace(large, step=700)]
    turns = []
    for _ in range(4):
        given_rows, queue = batch_of(queue, rows=400)
        turns.append(given_rows)
    assert turns == [{"1": 400}, {"0": 700}, {"1": 400}, {"0": 300, "1": 100}]


def test_shares_that_are_exceeded_reduce_the_shares_of_later_splits() -> None:
    queue = [replace(split, step=80, passes_budget=True) for split in lagging(*[1000] * 8)]
    given_rows, queue = batch_of(queue, rows=400)
    assert given_rows == {str(number): 80 for number in range(5)}
    given_rows, queue = batch_of(queue, rows=400)
    assert given_rows.keys() >= {"5", "6", "7"}


steps = st.tuples(st.integers(0, 300), st.sampled_from([1, 1, 7, 50, 400]), st.booleans())


@given(
    st.lists(steps, min_size=1, max_size=8),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 200)), max_size=40),
)
def test_no_partition_waits_for_more_batches_than_there_are_other_partitions(
    kinds: list[tuple[int, int, bool]], limit: int, arrivals: list[tuple[int, int]]
) -> None:
    """This holds whatever the steps of the splits are, and however many rows arrive for the others."""
    queue = [
        replace(split, step=step, passes_budget=passes)
        for split, (_, step, passes) in zip(lagging(*[kind[0] for kind in kinds]), kinds, strict=True)
    ]
    waits = dict.fromkeys((split.split_id for split in queue), 0)
    for number, more in [*arrivals, *[(0, 0)] * len(queue)]:
        queue = [replace(s, backlog=s.backlog + (more if int(s.split_id) == number else 0)) for s in queue]
        backlogs = {split.split_id: split.backlog for split in queue}
        given_rows, queue = batch_of(queue, limit)
        _check_limit(given_rows, limit, kinds)
        for name, backlog in backlogs.items():
            waits[name] = waits[name] + 1 if backlog and name not in given_rows else 0
            assert waits[name] < len(kinds)


def _check_limit(given_rows: dict[str, int], limit: int, kinds: Iterable[tuple[int, int, bool]]) -> None:
    largest_step = max(step for _, step, _ in kinds)
    assert sum(given_rows.values()) < limit + 2 * largest_step


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=50), st.integers(1, 5000))
def test_a_split_is_bound_only_a_few_times_for_a_batch(backlogs: list[int], limit: int) -> None:
    calls = 0

    def counted(split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
        nonlocal calls
        calls += 1
        return bound(split, budget)

    fair_ranges(lagging(*backlogs), Budget(rows=limit), counted)
    assert calls <= 4 * len(backlogs)
