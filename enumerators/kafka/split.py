"""KafkaSplit: a partition of a topic, where it is read next, and how ranges are cut into parts. Pure.

Options and edits name positions in partitions as earliest, latest, offsets or times.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flip27_source.enumerator import Division
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.errors import EditError, some_of
from flip27_source.options import MOST_INTEGER
from flip27_source.split import SplitSize
from flip27_source.values.times import datetime_or_none

LATEST = -1
EARLIEST = -2
AT_TIMESTAMP = -3
"""Values of ``next`` that a poll replaces by an offset. The first two are Kafka's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSplit:
    """A partition of a topic.

    Attributes:
        split_id: ``orders/3``: topic and partition.
        next: offset of the next record to read; or EARLIEST, LATEST or AT_TIMESTAMP.
        end: where this batch ends: the first offset that it does not read. None for the whole partition. A
            split ``orders/3@100-199`` is a range that could not be read, and is read alone.
        topic_id: id of the topic, which a recreated topic does not share; None if the brokers do not report
            it.
        successor: id of a topic in the place of that one, with whose loss the query stops: an edit that names
            a position is one of this topic.
        at_timestamp_ms: with AT_TIMESTAMP, the time, in milliseconds since 1970 UTC.
        record: the only record of a split ``orders/3@42``, as JSON (``PoisonedRecord``): it was quarantined,
            and is read from here. None for a partition and its ranges.
    """

    split_id: str
    next: int
    end: int | None = None
    topic_id: str | None = None
    successor: str | None = None
    at_timestamp_ms: int | None = None
    record: str | None = None

    def __post_init__(self) -> None:
        if self.next < AT_TIMESTAMP:
            raise ValueError(f"{self.next} is not an offset")

    @property
    def topic(self) -> str:
        """The name of the topic; it contains no slash."""
        return partition_of(self.split_id)[0]

    @property
    def partition(self) -> int:
        return partition_of(self.split_id)[1]

    @property
    def is_quarantined(self) -> bool:
        """Whether it is a range or a record that was quarantined."""
        return "@" in self.split_id

    @property
    def size(self) -> SplitSize:
        """The number of offsets; there may be fewer records. Bytes are those that the split carries."""
        rows = None if self.end is None else self.end - self.next
        return SplitSize(files=0, rows=rows, bytes=None if self.record is None else len(self.record))


def split_id_of(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


def record_id_of(topic: str, partition: int, offset: int) -> str:
    """The id of the split of a record that was quarantined."""
    return f"{topic}/{partition}@{offset}"


def range_split(cut: KafkaSplit) -> KafkaSplit:
    """A range of a partition as a split ``orders/3@100-199``; one that was quarantined stays the same."""
    if cut.is_quarantined:
        return cut
    return replace(cut, split_id=f"{cut.split_id}@{cut.next}-{(cut.end or cut.next) - 1}")


@functools.lru_cache(maxsize=1 << 16)  # planning asks for those of all partitions again and again
def partition_of(split_id: str) -> tuple[str, int]:
    topic, _, rest = split_id.rpartition("/")
    partition, _, _ = rest.partition("@")
    return topic, int(partition)


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
        parts = [part for split in parts for part in _cut(split, -(-_length(split) // max_records))]
        subtasks = -(-sum(map(_length, parts)) // max_records)
    if min_partitions is not None:
        subtasks = max(subtasks, min_partitions)
        if len(parts) < min_partitions:
            total = sum(map(_length, parts)) or 1
            parts = [
                part
                for split in parts
                for part in _cut(split, round(_length(split) * min_partitions / total))
            ]
    return Division(parts=parts, subtasks=max(1, subtasks))


def _length(split: KafkaSplit) -> int:
    return 0 if split.end is None else split.end - split.next


def _cut(split: KafkaSplit, count: int) -> Iterator[KafkaSplit]:
    """The range in this number of parts, at least one, whose lengths differ by at most 1.

    Longer parts are first, because the longest ranges of a batch are given to its first tasks.
    """
    count = max(1, min(count, _length(split)))
    length, longer = divmod(_length(split), count)
    first = split.next
    for number in range(count):
        end = first + length + (number < longer)
        yield replace(split, next=first, end=end)
        first = end


TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a partition.

    Attributes:
        offset: an offset, or EARLIEST, LATEST or AT_TIMESTAMP.
        timestamp_ms: with AT_TIMESTAMP, the first record at this time or later.
    """

    offset: int
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        if self.timestamp_ms is not None:
            return f"timestamp {self.timestamp_ms}"
        return {EARLIEST: "earliest", LATEST: "latest"}.get(self.offset, f"offset {self.offset}")


AT_EARLIEST = Position(offset=EARLIEST)
AT_LATEST = Position(offset=LATEST)
NAMED = {"earliest": AT_EARLIEST, "latest": AT_LATEST}
"""Positions by the words for them in options and edits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where the partitions start or end.

    Attributes:
        everywhere: the position in every partition; None if each partition has its own.
        each: the position of each partition.
        of_topics: the position in every partition of a topic that ``each`` does not have.
        option: the option that they come from, for messages.
    """

    everywhere: Position | None = None
    each: Mapping[TopicPartition, Position] | None = None
    of_topics: Mapping[str, Position] = field(default_factory=dict)
    option: str = ""

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The position in each of these partitions.

        Raises:
            ValueError: the option and the cluster do not have the same partitions.
        """
        present = list(partitions)
        if self.everywhere is not None:
            return dict.fromkeys(present, self.everywhere)
        each = {key: self.of_topics[key[0]] for key in present if key[0] in self.of_topics}
        each |= self.each or {}
        missing = [split_id_of(*key) for key in sorted(set(present) - set(each))]
        unknown = [split_id_of(*key) for key in sorted(set(each) - set(present))]
        unknown += sorted(set(self.of_topics) - {topic for topic, _ in present})
        faults = [
            f"{what} {some_of(names, 5)}"
            for what, names in (("it leaves out", missing), ("the topics do not have", unknown))
            if names
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return {partition: each[partition] for partition in present}


def fields_at(position: NamedPosition) -> Mapping[str, Any]:
    """The fields of a split at a position that an edit names.

    The id of the topic stays: an offset is one of the topic that the query has read.
    """
    if position.word is not None:
        named = NAMED.get(position.word.lower())
        if named is None:
            raise EditError(
                f"{position.word!r} is not a position in a partition",
                remedy="use earliest or latest, or an offset or a time",
            )
        offset = named.offset
    else:
        offset = AT_TIMESTAMP if position.offset is None else position.offset
    for number in (position.offset or 0, position.timestamp_ms or 0):
        if not 0 <= number <= MOST_INTEGER:
            raise EditError(
                f"{number} is not an offset or a time in a partition: these are from 0 to {MOST_INTEGER}",
                remedy="use earliest for the beginning, and latest for the end",
            )
    return {"next": offset, "at_timestamp_ms": position.timestamp_ms}


def position_said(fields: Mapping[str, Any]) -> str | None:
    """Where a partition is read next, in words."""
    first, time_ms = fields.get("next"), fields.get("at_timestamp_ms")
    if not isinstance(first, int):
        return None
    time = None if first != AT_TIMESTAMP or time_ms is None else datetime_or_none(time_ms)
    return f"the first record at {time.isoformat()} or later" if time else str(Position(offset=first))


def offsets_between(now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
    """The number of offsets between two positions of a split; None unless both are offsets."""
    first, last = now.get("next"), then.get("next")
    if not isinstance(first, int) or not isinstance(last, int) or first < 0 or last < 0:
        return None
    return last - first
