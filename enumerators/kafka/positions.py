"""Positions in partitions, as options and edits name them: earliest, latest, offsets or times. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.split import AT_TIMESTAMP, EARLIEST, LATEST, split_id_of
from flip27_source.errors import EditError, some_of
from flip27_source.options import MOST_INTEGER

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

    The id of the topic is unset: the next batch sets it.
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
    return {"next": offset, "at_timestamp_ms": position.timestamp_ms, "topic_id": None}


def offsets_between(now: Mapping[str, Any], then: Mapping[str, Any]) -> int | None:
    """The number of offsets between two positions of a split; None unless both are offsets."""
    first, last = now.get("next"), then.get("next")
    if not isinstance(first, int) or not isinstance(last, int) or first < 0 or last < 0:
        return None
    return last - first
