"""Planning: the limits of a batch, and how its splits are packed into subtasks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.coordination.batch_limits import BatchBudget, Limits
from flip27_source.coordination.packing import (
    FILE_COST_BYTES,
    MIN_PARTITION_COST_BYTES,
    cost_bytes,
    cost_of_naming,
    pack,
    subtask_count,
)
from flip27_source.enumerator import Budget
from flip27_source.split import SplitSize
from tests.toy_sources import MIB, Item

SIZES_MIB = st.lists(st.integers(0, 40), max_size=30)


def mib(*sizes: float) -> list[Item]:
    return [Item(split_id=str(i), bytes=int(size * MIB)) for i, size in enumerate(sizes)]


def ids(packed: dict[int, list[Item]]) -> dict[int, list[str]]:
    return {subtask: [split.split_id for split in splits] for subtask, splits in packed.items()}


def loads(packed: dict[int, list[Item]]) -> list[int]:
    return [sum(map(cost_bytes, splits)) for splits in packed.values()]


def taken(limits: Limits, splits: list[Item]) -> list[str]:
    """The ids of the splits that a batch takes, in order, until one does not fit."""
    budget = BatchBudget(limits)
    accepted = []
    for split in splits:
        if not budget.fits(split.size):
            break
        budget.take(split.size)
        accepted.append(split.split_id)
    return accepted


@settings(max_examples=150, derandomize=True)
@given(SIZES_MIB, st.integers(1, 6))
def test_every_split_is_packed_once(sizes: list[int], parallelism: int) -> None:
    packed = pack(mib(*sizes), (), parallelism=parallelism)
    assert sorted(itertools.chain(*ids(packed).values()), key=int) == [str(i) for i in range(len(sizes))]
    assert set(packed) <= set(range(parallelism))
    assert all(packed.values())


@settings(max_examples=150, derandomize=True)
@given(SIZES_MIB, st.integers(1, 6))
def test_no_subtask_exceeds_the_least_loaded_one_by_more_than_one_split(
    sizes: list[int], parallelism: int
) -> None:
    """Placing each split into the least loaded subtask guarantees this for all sizes."""
    splits = mib(*sizes)
    packed = pack(splits, (), parallelism=parallelism)
    count = subtask_count(sum(map(cost_bytes, splits)), parallelism=parallelism, max_partition_bytes=None)
    all_loads = loads(packed) + [0] * (count - len(packed))
    for subtask, splits_of_it in packed.items():
        smallest = min(map(cost_bytes, splits_of_it))
        assert loads(packed)[list(packed).index(subtask)] - smallest <= min(all_loads)


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.integers(4, 40), min_size=1, max_size=7), st.integers(1, 3))
def test_the_longest_subtask_is_within_four_thirds_of_the_best_possible(
    sizes: list[int], parallelism: int
) -> None:
    splits = mib(*sizes)
    packed = pack(splits, (), parallelism=parallelism)
    best = min(
        max(sum(cost_bytes(s) for s, at in zip(splits, where, strict=True) if at == k) for k in where)
        for where in itertools.product(range(parallelism), repeat=len(splits))
    )
    assert 3 * max(loads(packed)) <= 4 * best


def test_packing_depends_only_on_its_arguments() -> None:
    splits = mib(7, 7, 7, 3, 9, 9, 1)
    assert ids(pack(splits, (), parallelism=3)) == ids(pack(list(splits), (), parallelism=3))


def test_splits_of_a_subtask_keep_the_order_they_came_in() -> None:
    packed = pack(mib(1, 9, 2, 8, 3, 7), (), parallelism=2)
    assert all(names == sorted(names, key=int) for names in ids(packed).values())
    assert len(packed) == 2


def test_pinned_splits_stay_with_their_subtask_and_keep_their_order() -> None:
    pinned = [(1, Item(split_id="p0")), (0, Item(split_id="p1")), (1, Item(split_id="p2"))]
    assert ids(pack([], pinned, parallelism=2)) == {0: ["p1"], 1: ["p0", "p2"]}


def test_a_pinned_split_of_a_subtask_that_no_longer_exists_goes_to_an_existing_subtask() -> None:
    assert ids(pack([], [(5, Item(split_id="p"))], parallelism=2)) == {1: ["p"]}


def test_free_splits_fill_the_room_that_pinned_splits_leave() -> None:
    pinned = [(0, Item(split_id="p", bytes=40 * MIB))]
    assert ids(pack(mib(10, 10, 10), pinned, parallelism=2)) == {0: ["p"], 1: ["0", "1", "2"]}


def test_pinned_splits_are_read_before_free_ones_however_many_they_are() -> None:
    pinned = [(0, Item(split_id=f"p{i}")) for i in range(4)]
    assert ids(pack(mib(0), pinned, parallelism=1)) == {0: ["p0", "p1", "p2", "p3", "0"]}


def test_little_work_joins_a_subtask_that_already_runs_for_a_pinned_split() -> None:
    """A task costs tens of milliseconds: three small free splits do not justify three more tasks."""
    pinned = [(3, Item(split_id="p", bytes=1))]
    assert ids(pack(mib(0, 0, 0), pinned, parallelism=4)) == {3: ["p", "0", "1", "2"]}


def test_the_subtask_of_the_last_pinned_split_takes_its_share_of_the_rest() -> None:
    pinned = [(1, Item(split_id="p", bytes=4 * MIB))]
    packed = pack(mib(8, 8, 8, 4), pinned, parallelism=2)
    assert sorted(len(splits) for splits in packed.values()) == [2, 3]
    assert max(loads(packed)) - min(loads(packed)) == FILE_COST_BYTES


def test_little_work_makes_one_subtask_and_much_work_at_most_parallelism() -> None:
    assert subtask_count(0, parallelism=8, max_partition_bytes=None) == 1
    assert subtask_count(MIN_PARTITION_COST_BYTES, parallelism=8, max_partition_bytes=None) == 1
    assert subtask_count(MIN_PARTITION_COST_BYTES + 1, parallelism=8, max_partition_bytes=None) == 2
    assert subtask_count(10**12, parallelism=8, max_partition_bytes=None) == 8


def test_more_subtasks_than_parallelism_are_made_for_batches_of_many_partitions() -> None:
    assert subtask_count(100 * MIB, parallelism=2, max_partition_bytes=10 * MIB) == 10
    assert len(pack(mib(*[10] * 10), (), parallelism=2, max_partition_bytes=11 * MIB)) == 10


def test_subtasks_fill_whole_rounds_so_that_no_core_waits_for_the_last_one() -> None:
    assert subtask_count(90 * MIB, parallelism=2, max_partition_bytes=40 * MIB) == 4


def test_a_split_of_unknown_size_counts_as_some_work() -> None:
    assert cost_bytes(Item(split_id="unknown")) > cost_bytes(Item(split_id="small", bytes=1000))
    assert cost_bytes(Item(split_id="rows", rows=10)) > cost_bytes(Item(split_id="rows", rows=1))
    assert cost_bytes(Item(split_id="f", files=3, bytes=0)) == 3 * FILE_COST_BYTES


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), "abcd"), (Limits(files=3), "abc"), (Limits(files=1), "a"), (Limits(rows=25), "ab"),
        (Limits(rows=20), "ab"), (Limits(rows=19), "a"), (Limits(files=3, rows=25), "ab"),
        (Limits(files=1, rows=25), "a"), (Limits(files=9, rows=99, bytes=1000), "a"),
        (Limits(files=9, rows=99, bytes=1001), "ab"), (Limits(files=2, bytes=100_000), "ab"),
    ],
    ids=str,
)  # fmt: skip
def test_the_limit_that_is_reached_first_ends_the_batch(limits: Limits, expected: str) -> None:
    splits = [Item(split_id=name, rows=10, bytes=1000) for name in "abcd"]
    assert "".join(taken(limits, splits)) == expected


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(rows=1), Limits(bytes=1)], ids=str)
def test_a_batch_always_takes_one_split_however_large(limits: Limits) -> None:
    huge = [Item(split_id=name, files=9, rows=10**9, bytes=10**12) for name in "ab"]
    assert taken(limits, huge) == ["a"]


def test_limits_on_files_and_rows_are_hard_and_limits_on_bytes_are_soft() -> None:
    two_files = [Item(split_id=name, files=2) for name in "ab"]
    assert taken(Limits(files=3), two_files) == ["a"]
    big = [Item(split_id=name, bytes=900) for name in "abc"]
    assert taken(Limits(bytes=1000), big) == ["a", "b"]


def test_splits_that_count_no_file_do_not_use_up_the_file_limit() -> None:
    ranges = [Item(split_id="f#0", files=1), Item(split_id="f#1", files=0)]
    budget = BatchBudget(Limits(files=2))
    for split in ranges:
        assert budget.fits(split.size)
        budget.take(split.size)
    assert (budget.files, budget.splits, budget.exhausted) == (1, 2, False)


def test_an_empty_batch_is_never_exhausted() -> None:
    assert not BatchBudget(Limits(files=1, rows=1, bytes=1)).exhausted


def test_the_remaining_budget_is_reported_and_never_negative() -> None:
    budget = BatchBudget(Limits(files=2, rows=100, bytes=50))
    budget.take(SplitSize(files=1, rows=30, bytes=70))
    assert budget.left() == Budget(files=1, rows=70, bytes=0)
    assert BatchBudget(Limits()).left() == Budget()


def test_splits_that_are_only_named_are_weighed_by_files_and_not_by_size() -> None:
    splits = mib(*[100] * 128)
    assert len(pack(splits, [], parallelism=4)) == 4
    assert len(pack(splits, [], parallelism=4, cost_of=cost_of_naming)) == 1
    assert len(pack(mib(*[1] * 256), [], parallelism=4, cost_of=cost_of_naming)) == 2


@pytest.mark.parametrize(
    ("limits", "sizes", "limited_by"),
    [
        (Limits(files=2, rows=100), [SplitSize(rows=1)] * 3, {"files": 2}),
        (Limits(files=9, rows=100), [SplitSize(rows=60)] * 3, {"rows": 100}),
        (Limits(bytes=50), [SplitSize(bytes=30)] * 3, {"bytes": 50}),
        (Limits(files=2, bytes=50), [SplitSize(bytes=30)] * 3, {"files": 2, "bytes": 50}),
        (Limits(files=3, rows=100, bytes=50), [SplitSize(rows=1, bytes=1)] * 2, {}),
        (Limits(), [SplitSize()] * 3, {}),
    ],
)
def test_the_limits_that_have_ended_a_batch_are_known(
    limits: Limits, sizes: list[SplitSize], limited_by: dict[str, int]
) -> None:
    budget = BatchBudget(limits)
    for size in itertools.takewhile(budget.fits, sizes):
        budget.take(size)
    assert budget.limited_by == limited_by
