"""Positions in topics, as options name them: earliest, latest, offsets or times of partitions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from flip27_source.enumerators.kafka.split import AT_TIMESTAMP, EARLIEST, LATEST

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where the partitions start or end.

    Attributes:
        everywhere: the position in every partition; None if each partition has its own.
        each: the position of each partition.
        option: the option that they come from, for messages.
    """

    everywhere: Position | None = None
    each: Mapping[TopicPartition, Position] | None = None
    option: str = ""

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The position in each of these partitions.

        Raises:
            ValueError: the option and the cluster do not have the same partitions.
        """
        wanted = list(partitions)
        if self.everywhere is not None:
            return dict.fromkeys(wanted, self.everywhere)
        each = self.each or {}
        missing = sorted(set(wanted) - set(each))
        unknown = sorted(set(each) - set(wanted))
        if missing or unknown:
            parts = [
                f"{what} {', '.join(f'{topic}/{number}' for topic, number in some[:5])}"
                + (f" and {len(some) - 5} more" if len(some) > 5 else "")
                for what, some in (("it leaves out", missing), ("the topics do not have", unknown))
                if some
            ]
            raise ValueError("; ".join(parts))
        return {partition: each[partition] for partition in wanted}


def partition_lists(value: str) -> tuple[TopicPartition, ...]:
    """The partitions in ``{"orders": [0, 1]}``."""
    try:
        found = msgspec.json.decode(value, type=dict[str, list[int]])
    except msgspec.MsgspecError:
        raise ValueError('a JSON object of topics and partitions is expected: {"orders": [0, 1]}') from None
    pairs = tuple((topic, number) for topic, numbers in found.items() for number in numbers)
    if not pairs or any(number < 0 for _, number in pairs) or "" in found:
        raise ValueError("at least one partition is expected, each 0 or more")
    return tuple(dict.fromkeys(pairs))


def offsets(*words: str) -> Callable[[str], Positions]:
    """``earliest``, ``latest`` or JSON with offsets, of which -1 is latest and -2 is earliest.

    Args:
        words: earliest, latest or both, as the option allows.
    """
    named = {"earliest": AT_EARLIEST, "latest": AT_LATEST}
    allowed = {named[word].offset for word in words}

    def parse(value: str) -> Positions:
        word = value.strip().lower()
        if word in words:
            return Positions(everywhere=named[word])
        example = '{"orders": {"0": 23, "1": ' + str(max(allowed)) + "}}"
        numbers = _numbers(value, f"{' or '.join(words)}, or JSON such as {example} is expected")
        for (topic, partition), number in numbers.items():
            if number < 0 and number not in allowed:
                raise ValueError(
                    f"{topic}/{partition} has {number}; an offset is 0 or more, "
                    + " and ".join(f"{named[item].offset} is {item}" for item in words)
                )
        return Positions(each={key: Position(offset=number) for key, number in numbers.items()})

    return parse


def timestamps(value: str) -> Positions:
    """JSON with times of partitions, in milliseconds since 1970 UTC."""
    example = '{"orders": {"0": 1767225600000}}'
    numbers = _numbers(value, f"JSON with milliseconds since 1970 UTC is expected, such as {example}")
    return Positions(each={key: at_time(number) for key, number in numbers.items()})


def timestamp(value: str) -> Positions:
    """One time for all partitions, in milliseconds since 1970 UTC."""
    text = value.strip()
    if not text.isascii() or not text.isdigit():
        raise ValueError("milliseconds since 1970 UTC are expected, such as 1767225600000")
    return Positions(everywhere=at_time(int(text)))


def at_time(milliseconds: int) -> Position:
    """The first record at this time or later.

    Raises:
        ValueError: the time is before 1970.
    """
    if milliseconds < 0:
        raise ValueError(f"{milliseconds} is before 1970")
    return Position(offset=AT_TIMESTAMP, timestamp_ms=milliseconds)


def _numbers(value: str, expected: str) -> dict[TopicPartition, int]:
    try:
        found: dict[str, dict[str, Any]] = msgspec.json.decode(value, type=dict[str, dict[str, Any]])
    except msgspec.MsgspecError:
        raise ValueError(expected) from None
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or type(number) is not int:
                raise ValueError(expected)
            numbers[topic, int(partition)] = number
    if not numbers:
        raise ValueError(expected)
    return numbers
