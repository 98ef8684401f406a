"""Merges small immutable blocks with their neighbours, as in a log-structured merge tree. Pure: no I/O.

State that grows with the source is kept in blocks, each of which is written once and never changed. Without
merges there would be a block for each checkpoint; with a single block, each checkpoint would write all state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

BlockT = TypeVar("BlockT")


def merged_blocks(
    blocks: Iterable[BlockT],
    *,
    size_of: Callable[[BlockT], int],
    join: Callable[[Sequence[BlockT]], BlockT],
    width: int = 2,
    largest: float = math.inf,
) -> list[BlockT]:
    """The blocks, oldest first; small ones are joined with their neighbours, so the items keep their order.

    The level of a block is the logarithm of its size to the base ``width``, rounded down. A block takes in
    those before it that have a lower level, and ``width`` blocks of one level are joined. So there are fewer
    than ``width`` blocks of each level, and an item is written once or twice for each level. A greater width
    means more blocks and fewer writes.

    Args:
        size_of: the number of items or bytes in a block, at least 1; blocks may shrink between two calls.
        join: makes one block of several neighbours, which are given in order.
        width: a power of two.
        largest: no block that results from a join is larger than this.
    """
    merged: list[BlockT] = []
    sizes: list[int] = []
    for block in blocks:
        merged.append(block)
        sizes.append(size_of(block))
        while (count := _joinable(sizes, width, largest)) > 1:
            merged[-count:] = [join(merged[-count:])]
            sizes[-count:] = [size_of(merged[-1])]
    return merged


def _joinable(sizes: Sequence[int], width: int, largest: float) -> int:
    """How many of the last blocks are joined; 1 if none are."""
    level = _level(sizes[-1], width)
    count, total = 1, sizes[-1]
    for size in reversed(sizes[:-1]):
        total += size
        if _level(size, width) >= level or total > largest:
            break
        count += 1
    same = sizes[-width:]
    if count == 1 and len(same) == width and _level(same[0], width) == level and sum(same) <= largest:
        return width
    return count


def _level(size: int, width: int) -> int:
    return (size.bit_length() - 1) // (width.bit_length() - 1)
