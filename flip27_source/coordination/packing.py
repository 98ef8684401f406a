"""Packing: how the splits of a batch are packed into Spark tasks.

Pure functions over values. A task costs tens of milliseconds however little it reads, so there are few,
large partitions; the largest splits are placed first, each into the subtask with the least work.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from ..events import SourceEvent
from ..split import SplitT, size_of
from .subtask_reports import ReportDemand

FILE_COST_BYTES = 32 * 1024
"""Cost of opening a file, in bytes read: about 0.1 ms at 300 MB/s."""

UNKNOWN_SIZE_COST_BYTES = 1024 * 1024
"""Assumed cost of a split of unknown size."""

ROW_COST_BYTES = 64
"""Cost of a row, for splits whose number of rows is known but not their number of bytes."""

MIN_PARTITION_COST_BYTES = 4 * 1024 * 1024
"""Below this cost a second task costs more than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(Generic[SplitT]):
    """The events and splits of one subtask in one batch, each in order; events come first."""

    subtask_id: int
    splits: tuple[SplitT, ...] = ()
    events: tuple[SourceEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[SplitT]):
    """The assignment of a batch: one entry per subtask that has something to do.

    ``reports`` says whether each of these subtasks acknowledges the checkpoint.
    """

    assignments: tuple[Assignment[SplitT], ...] = ()
    reports: ReportDemand = ReportDemand.NONE


def cost_bytes(split: SplitT) -> int:
    size = size_of(split)
    if size.bytes is not None:
        work = size.bytes
    elif size.rows is not None:
        work = size.rows * ROW_COST_BYTES
    else:
        work = UNKNOWN_SIZE_COST_BYTES
    return work + FILE_COST_BYTES * max(1, size.files)


def cost_of_naming(split: SplitT) -> int:
    """The estimated work of a split whose reader only names its data."""
    return FILE_COST_BYTES * max(1, size_of(split).files)


def subtask_count(
    total_cost: int,
    *,
    parallelism: int,
    max_partition_bytes: int | None,
    min_partition_cost: int = MIN_PARTITION_COST_BYTES,
) -> int:
    """Number of subtasks for a total cost: at least one, at most ``parallelism``.

    With ``max_partition_bytes`` more subtasks are allowed, so that none gets more than that.
    """
    by_cost = -(-total_cost // min_partition_cost)
    rounds = 1
    if max_partition_bytes is not None:
        # Whole rounds, because three subtasks on two cores take as long as four.
        rounds = max(1, -(-total_cost // (max_partition_bytes * parallelism)))
    return max(1, min(by_cost, rounds * parallelism))


def pack(
    free: Sequence[SplitT],
    pinned: Iterable[tuple[int, SplitT]],
    *,
    parallelism: int,
    max_partition_bytes: int | None = None,
    min_partition_cost: int = MIN_PARTITION_COST_BYTES,
    cost_of: Callable[[SplitT], int] = cost_bytes,
) -> dict[int, list[SplitT]]:
    """Distribute splits over subtasks so that all finish at the same time.

    ``pinned`` splits stay with their subtask. ``free`` splits go, largest first, to the subtask
    with the least cost so far (the classic longest-processing-time rule, within 4/3 of the
    best); equal costs keep their order. Within a subtask, pinned splits come first, and each kind
    keeps its order.
    """
    costs = [cost_of(split) for split in free]
    held: dict[int, list[tuple[bool, int, SplitT]]] = {}
    load: dict[int, int] = {}
    for index, (subtask, split) in enumerate(pinned):
        target = subtask % parallelism
        held.setdefault(target, []).append((False, index, split))
        load[target] = load.get(target, 0) + cost_of(split)
    count = subtask_count(
        sum(costs) + sum(load.values()),
        parallelism=parallelism,
        max_partition_bytes=max_partition_bytes,
        min_partition_cost=min_partition_cost,
    )
    # Subtasks that run anyway come first; others are added only if there is enough work.
    others = (subtask for subtask in range(max(parallelism, count)) if subtask not in load)
    running = [*load, *islice(others, max(0, count - len(load)))]
    heap = [(load.get(subtask, 0), subtask) for subtask in running]
    heapq.heapify(heap)
    for index in sorted(range(len(free)), key=lambda i: (-costs[i], i)):
        cost, subtask = heap[0]
        held.setdefault(subtask, []).append((True, index, free[index]))
        heapq.heapreplace(heap, (cost + costs[index], subtask))
    return {
        subtask: [split for _, _, split in sorted(items, key=lambda item: item[:2])]
        for subtask, items in sorted(held.items())
    }
