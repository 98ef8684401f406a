"""The partitions of a query for people: what its state tells, and what the brokers do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flip27_source.enumerators.kafka.assigner import KafkaState
from flip27_source.enumerators.kafka.poller import PollResult
from flip27_source.enumerators.kafka.split import (
    KafkaSplit,
    Position,
    TopicPartition,
    partition_of,
    split_id_of,
)
from flip27_source.source_progress import Cell, ProgressTable
from flip27_source.values.times import datetime_or_none

_MOST_SAMPLED = 16
"""Of how many partitions the next record is read for its time: those with the most to read."""


def progress_of(
    state: KafkaState | None, live: Sequence[KafkaSplit], numbers: Mapping[str, Any]
) -> Iterator[ProgressTable]:
    """Where each partition is read next, by the state alone."""
    held = () if state is None else state.held
    lags = (numbers.get("parts") or {}).get("partitionLag") or {}
    rows: list[Sequence[Cell]] = [
        (split.split_id, _place(split), lags.get(split.split_id), status)
        for splits, status in ((live, "is read"), (held, "waits for its first batch"))
        for split in splits
        if not split.is_quarantined
    ]
    topics = len({partition_of(str(row[0]))[0] for row in rows})
    waited = numbers.get("backlogRows")
    yield ProgressTable(
        title="partitions",
        said=f"{len(rows):,} in {topics:,} topics"
        + (f"; {waited:,} records waited at the driver's last poll" if isinstance(waited, int) else "")
        + ("" if lags else "; where each ends is known with partitionLag=true, and by --look"),
        columns=("partition", "position", "lag", "status"),
        rows=sorted(rows, key=lambda row: (-int(lags.get(row[0], 0)), partition_of(str(row[0])))),
    )


def looked_at(
    splits: Sequence[KafkaSplit],
    result: PollResult,
    times_ms: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]],
) -> ProgressTable:
    """What a poll tells of each partition, those with the most to read first.

    Args:
        splits: the partitions of the state.
        times_ms: asks for the times of the records at some offsets.
    """
    known = {partition_of(split.split_id): split for split in splits if not split.is_quarantined}
    lags: dict[TopicPartition, int | None] = {}
    unread: dict[TopicPartition, int] = {}
    for key in sorted({*known, *result.ends}):
        at, end = _offset(known.get(key), result.resolved.get(key)), result.ends.get(key)
        begins = result.starts.get(key, 0)
        lags[key] = None if at is None or end is None else max(0, end - max(at, begins))
        if at is not None and lags[key]:
            unread[key] = max(at, begins)
    most = sorted(unread, key=lambda key: -(lags[key] or 0))[:_MOST_SAMPLED]
    times = times_ms({key: unread[key] for key in most})
    rows: list[Sequence[Cell]] = [
        (
            split_id_of(*key),
            _place(known[key]) if key in known else "not in the state",
            result.ends.get(key),
            lags[key],
            result.starts.get(key),
            datetime_or_none(times[key]) if key in times else None,
        )
        for key in sorted(lags, key=lambda key: -(lags[key] or 0))
    ]
    waiting = sum(lag or 0 for lag in lags.values())
    said = f"{waiting:,} records wait in {len(unread):,} of {len(rows):,} partitions"
    if times:
        slowest = min(times, key=lambda key: times[key])
        said += (
            f"; {split_id_of(*slowest)} is the last in event time: its next record is of "
            f"{datetime_or_none(times[slowest])}"
        )
    if len(most) < len(unread):
        said += f" (of the {len(most)} with the most to read)"
    return ProgressTable(
        title="in the source",
        said=said,
        columns=("partition", "position", "end", "lag", "begins at", "time of its next record"),
        rows=rows,
    )


def _offset(split: KafkaSplit | None, resolved: int | None) -> int | None:
    return split.next if split is not None and split.next >= 0 else resolved


def _place(split: KafkaSplit) -> Cell:
    """The next offset, or the position that an edit or the start has named."""
    return (
        split.next
        if split.next >= 0
        else str(Position(offset=split.next, timestamp_ms=split.at_timestamp_ms))
    )
