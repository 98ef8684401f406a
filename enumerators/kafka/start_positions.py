"""Where a query starts and ends: the options, their values, and the positions that they choose. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from flip27_source.enumerators.kafka.split import (
    AT_EARLIEST,
    AT_LATEST,
    AT_TIMESTAMP,
    LATEST,
    NAMED,
    Position,
    Positions,
    TopicPartition,
)
from flip27_source.errors import OptionError
from flip27_source.options import MOST_INTEGER, Change, FirstStartOption, Option, Options, one_of, optional


def offsets(*words: str) -> Callable[[str], Positions]:
    """``earliest``, ``latest`` or JSON with offsets, of which -1 is latest and -2 is earliest.

    Args:
        words: earliest, latest or both, as the option allows.
    """
    allowed = {NAMED[word].offset for word in words}

    def parse(value: str) -> Positions:
        word = value.strip().lower()
        if word in words:
            return Positions(everywhere=NAMED[word])
        example = '{"orders": {"0": 23, "1": ' + str(max(allowed)) + "}}"
        numbers, of_topics = _numbers(
            value, f"{' or '.join(words)}, or JSON such as {example} is expected", words
        )
        for (topic, partition), number in numbers.items():
            if number < 0 and number not in allowed:
                raise ValueError(
                    f"{topic}/{partition} has {number}; an offset is 0 or more, "
                    + " and ".join(
                        f"{NAMED[allowed_word].offset} is {allowed_word}" for allowed_word in words
                    )
                )
        return Positions(
            each={key: Position(offset=number) for key, number in numbers.items()},
            of_topics={topic: NAMED[word] for topic, word in of_topics.items()},
        )

    return parse


def timestamps(value: str) -> Positions:
    """JSON with times of partitions, in milliseconds since 1970 UTC."""
    example = '{"orders": {"0": 1767225600000}}'
    numbers, _ = _numbers(value, f"JSON with milliseconds since 1970 UTC is expected, such as {example}")
    for milliseconds in numbers.values():
        if milliseconds < 0:
            raise ValueError(f"{milliseconds} is before 1970")
    return Positions(each={key: _at_time(number) for key, number in numbers.items()})


def timestamp(value: str) -> Positions:
    """One time for all partitions, in milliseconds since 1970 UTC."""
    text = value.strip()
    if not text.isascii() or not text.isdigit() or int(text) > MOST_INTEGER:
        raise ValueError("milliseconds since 1970 UTC are expected, such as 1767225600000")
    return Positions(everywhere=_at_time(int(text)))


def _at_time(milliseconds: int) -> Position:
    """The first record at this time or later."""
    return Position(offset=AT_TIMESTAMP, timestamp_ms=milliseconds)


def _numbers(
    value: str, expected: str, words: Collection[str] = ()
) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """The number of each partition, and the words for whole topics."""
    try:
        topics = msgspec.json.decode(value, type=dict[str, dict[str, Any] | str])
    except msgspec.MsgspecError:
        raise ValueError(expected) from None
    numbers: dict[TopicPartition, int] = {}
    of_topics: dict[str, str] = {}
    for topic, partitions in topics.items():
        if isinstance(partitions, str):
            if partitions.lower() not in words:
                raise ValueError(expected)
            of_topics[topic] = partitions.lower()
            continue
        for partition, number in partitions.items():
            is_number = type(number) is int and abs(number) <= MOST_INTEGER
            if not (partition.isascii() and partition.isdigit() and is_number):
                raise ValueError(expected)
            numbers[topic, int(partition)] = number
    if not numbers and not of_topics:
        raise ValueError(expected)
    return numbers, of_topics


_of_batch_reads = partial(Option, changes=Change.IGNORED, change_note="a stream has no end")

STARTING_OFFSETS: Option[Positions | None] = FirstStartOption(
    name="startingOffsets",
    parse=optional(offsets("earliest", "latest")),
    default_text="latest for a stream, earliest for a batch read",
    doc='Where partitions start: earliest, latest, or JSON: {"orders": {"0": 23, "1": -2}}, where -2 is '
    'earliest and -1 latest, or {"orders": "earliest"} for all partitions of a topic. Partitions '
    "that appear later start at earliest.",
)
STARTING_TIMESTAMP: Option[Positions | None] = FirstStartOption(
    name="startingTimestamp",
    parse=optional(timestamp),
    doc="Partitions start at the first record at this time or later, in milliseconds since 1970 UTC. Takes "
    "precedence over startingOffsetsByTimestamp, which takes precedence over startingOffsets.",
)
STARTING_OFFSETS_BY_TIMESTAMP: Option[Positions | None] = FirstStartOption(
    name="startingOffsetsByTimestamp",
    parse=optional(timestamps),
    doc='A time for each partition, as JSON: {"orders": {"0": 1767225600000}}.',
)
STARTING_STRATEGY: Option[str] = FirstStartOption(
    name="startingOffsetsByTimestampStrategy",
    parse=one_of("error", "latest"),
    doc="What to do with a partition that has no record at the starting time or later: error fails, latest "
    "starts at its end.",
)
ON_EXPIRED_START: Option[str] = Option(
    name="onExpiredStart",
    parse=one_of("continue", "loss"),
    default_text="continue; loss in a chain of sources, if the time is a {switch}",
    doc="What it means if a partition begins with a record at the starting time or later, because older ones "
    "were removed: continue starts there; with loss, records of that time may have been removed too, which "
    "is a loss of data (onDataLoss).",
    changes=Change.IGNORED,
)
ENDING_OFFSETS: Option[Positions | None] = _of_batch_reads(
    name="endingOffsets",
    parse=optional(offsets("latest")),
    default_text="latest",
    doc="For a batch read, where partitions end: latest, or JSON with the first offsets that are not read, "
    "where -1 is latest.",
)
ENDING_TIMESTAMP: Option[Positions | None] = _of_batch_reads(
    name="endingTimestamp",
    parse=optional(timestamp),
    doc="For a batch read, partitions end before the first record at this time or later. Takes precedence "
    "over endingOffsetsByTimestamp, which takes precedence over endingOffsets.",
)
ENDING_OFFSETS_BY_TIMESTAMP: Option[Positions | None] = _of_batch_reads(
    name="endingOffsetsByTimestamp",
    parse=optional(timestamps),
    doc="For a batch read, a time for each partition, as JSON.",
)
START_AND_END_OPTIONS: tuple[Option[Any], ...] = (
    STARTING_OFFSETS, STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_STRATEGY, ON_EXPIRED_START,
    ENDING_OFFSETS,
    ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP,
)  # fmt: skip


def starting(options: Options, *, is_batch: bool) -> Positions:
    """Where partitions start at the first poll of the first start."""
    given = _first_of(options, STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_OFFSETS)
    if given is None:
        default = AT_EARLIEST if is_batch else AT_LATEST
        return Positions(everywhere=default, option=STARTING_OFFSETS.name)
    if is_batch and (
        given.everywhere == AT_LATEST
        or any(at.offset == LATEST for at in (*(given.each or {}).values(), *given.of_topics.values()))
    ):
        raise OptionError(
            "option startingOffsets has latest, and a batch read ends there",
            remedy="set earliest, an offset or a time",
        )
    return given


def ending(options: Options, *, is_batch: bool) -> Positions | None:
    """Where partitions end in a batch read; None in a stream."""
    given = _first_of(options, ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS)
    if is_batch:
        return given or Positions(everywhere=AT_LATEST, option=ENDING_OFFSETS.name)
    if given is not None:
        raise OptionError(
            f"option {given.option} is set, and a stream has no end",
            remedy="leave it out, or use spark.read; Trigger.AvailableNow ends at what is there now",
        )
    return None


def _first_of(options: Options, *order: Option[Positions | None]) -> Positions | None:
    """The value of the first of these options that is set."""
    for option in order:
        given = options[option]
        if given is not None:
            return replace(given, option=option.name)
    return None
