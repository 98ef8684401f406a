"""Results of ranges: a task may read several ranges of one split, so each has its own result. Pure.

The result of a range that was not read has the id that the range has when it is quarantined (``set_apart``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..coordination.subtask_reports import SplitResult, SplitStatus

NOT_READ = (SplitStatus.FAILED, SplitStatus.IGNORED)

SetApart = Callable[[Any], Any]


def with_ranges(
    results: Sequence[SplitResult[Any]], splits: Sequence[Any], set_apart: SetApart
) -> list[SplitResult[Any]]:
    """The results; each failed range is added to its result as a split that can be retried alone."""
    if all(item.status is not SplitStatus.FAILED for item in results):
        return list(results)
    ranges = {apart.split_id: apart for split in splits if (apart := set_apart(split)) != split}
    return [
        replace(item, position=ranges[item.split_id])
        if item.status is SplitStatus.FAILED and item.split_id in ranges
        else item
        for item in results
    ]


def ids_not_read(results: Sequence[SplitResult[Any]], splits: Sequence[Any], set_apart: SetApart) -> set[str]:
    """The ids of ranges that were not read, and of splits of which nothing was read."""
    ids = {item.split_id for item in results if item.status in NOT_READ}
    if not ids:
        return ids
    read = {split.split_id for split in splits if ids.isdisjoint((split.split_id, set_apart(split).split_id))}
    return ids | ({split.split_id for split in splits} - read)
