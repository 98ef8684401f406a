"""The state of the kafka enumerator, and its actions. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flip27_source.enumerators.kafka.split import KafkaSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic whose partitions were found.

    Attributes:
        topic_id: the id when the topic was last found; None if the brokers do not report it.
        partitions: numbers of the partitions that were found, as ranges: (0, 5) and (7, 8) are 0 to 4, and 7.
    """

    topic_id: str | None
    partitions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaState:
    """The state of the enumerator.

    Attributes:
        topics: by name.
        held: partitions that were found and are not assigned, at the offsets where they start.
    """

    topics: Mapping[str, KnownTopic]
    held: tuple[KafkaSplit, ...] = ()


def as_ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """The numbers as ranges, each with the number after its last."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return tuple(ranges)


def of_ranges(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    """The numbers in ranges."""
    return frozenset(number for first, end in ranges for number in range(first, end))
