"""Small blocks are merged with their neighbours: they stay few, and each item is written few times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_source.values.merged_blocks import merged_blocks

SIZES = st.lists(st.integers(1, 40), max_size=200)
WIDTHS = st.sampled_from([2, 4, 16])


class Written:
    """Blocks of consecutive numbers, one more at each step; counts how often each number is written."""

    def __init__(self, width: int, largest: float = math.inf) -> None:
        self.blocks: list[range] = []
        self.times: Counter[int] = Counter()
        self.count = 0
        self._width = width
        self._largest = largest

    def add(self, size: int) -> None:
        before = set(self.blocks)
        new = range(self.count, self.count + size)
        self.count += size
        self.blocks = merged_blocks(
            [*self.blocks, new], size_of=len, join=joined, width=self._width, largest=self._largest
        )
        for block in set(self.blocks) - before:
            self.times.update(block)


def joined(blocks: Sequence[range]) -> range:
    assert all(left.stop == right.start for left, right in pairwise(blocks))
    return range(blocks[0].start, blocks[-1].stop)


@settings(max_examples=100, derandomize=True)
@given(SIZES, WIDTHS)
def test_no_item_is_lost_and_the_order_stays_the_same(sizes: list[int], width: int) -> None:
    written = Written(width)
    for size in sizes:
        written.add(size)
    assert [number for block in written.blocks for number in block] == list(range(sum(sizes)))


@settings(max_examples=100, derandomize=True)
@given(SIZES, WIDTHS)
def test_the_number_of_blocks_is_logarithmic(sizes: list[int], width: int) -> None:
    written = Written(width)
    for size in sizes:
        written.add(size)
        assert len(written.blocks) <= width * (1 + math.log(written.count, width))


@pytest.mark.parametrize("width", [2, 16])
def test_each_item_is_written_a_logarithmic_number_of_times(width: int) -> None:
    written = Written(width)
    for _ in range(5_000):
        written.add(1)
    assert max(written.times.values()) <= 1 + math.log(5_000, width)


@settings(max_examples=100, derandomize=True)
@given(SIZES, WIDTHS)
def test_items_are_written_a_logarithmic_number_of_times_whatever_the_sizes(
    sizes: list[int], width: int
) -> None:
    written = Written(width)
    for size in sizes:
        written.add(size)
    assert max(written.times.values(), default=0) <= 2 * (2 + math.log(sum(sizes) or 1, width))


def test_a_large_block_is_not_written_again_for_each_small_one() -> None:
    written = Written(2)
    written.add(1_000)
    for _ in range(400):
        written.add(1)
    assert written.times[0] == 1


def test_large_blocks_are_not_written_again_because_of_the_small_ones_between_them() -> None:
    written = Written(16)
    for _ in range(10):
        written.add(1_000)
        for _ in range(14):
            written.add(1)
    assert max(written.times[number] for block in written.blocks[:1] for number in block) <= 2


def test_no_block_that_results_from_a_merge_is_larger_than_the_limit() -> None:
    written = Written(2, largest=100)
    for size in (300, *(7,) * 200):
        written.add(size)
    assert max(len(block) for block in written.blocks[1:]) <= 100
    assert len(written.blocks) <= 1 + 2 * math.ceil(1_400 / 100) + math.log2(100)
