"""Division: cuts ranges of partitions into parts that different tasks read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flip27_source.enumerator import Division
from flip27_source.enumerators.kafka.split import KafkaSplit


def divided(
    ranges: Sequence[KafkaSplit], *, min_partitions: int | None, max_records: int | None
) -> Division[KafkaSplit]:
    """Cut the ranges into parts, as Spark's options with these names say.

    Args:
        min_partitions: if there are fewer parts, ranges are cut in proportion to their offsets.
        max_records: the length of the longest part, in offsets.
    """
    parts = list(ranges)
    subtasks = 1
    if max_records is not None:
        parts = [part for item in parts for part in _cut(item, -(-_length(item) // max_records))]
        subtasks = -(-sum(map(_length, parts)) // max_records)
    if min_partitions is not None:
        subtasks = max(subtasks, min_partitions)
        if len(parts) < min_partitions:
            total = sum(map(_length, parts)) or 1
            parts = [
                part for item in parts for part in _cut(item, round(_length(item) * min_partitions / total))
            ]
    return Division(parts=parts, subtasks=max(1, subtasks))


def _length(item: KafkaSplit) -> int:
    return 0 if item.end is None else item.end - item.next


def _cut(item: KafkaSplit, count: int) -> Iterator[KafkaSplit]:
    """The range in this number of parts, at least one, whose lengths differ by at most 1."""
    count = max(1, min(count, _length(item)))
    first = item.next
    for number in range(count):
        end = item.next + _length(item) * (number + 1) // count
        yield replace(item, next=first, end=end)
        first = end
