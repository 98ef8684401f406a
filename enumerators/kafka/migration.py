"""Positions of other Kafka readers, as the start of a flip27 query: what would be read, and what is lost.

What lives here: the decision, which is pure, and the requests to the cluster that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from flip27_source.enumerators.kafka.client import failed, imported, new_admin
from flip27_source.enumerators.kafka.client_properties import client_properties
from flip27_source.enumerators.kafka.cluster import REQUEST_TIMEOUT_S, Cluster
from flip27_source.enumerators.kafka.split import EARLIEST, TopicPartition, split_id_of
from flip27_source.enumerators.kafka.start_positions import offsets
from flip27_source.errors import DiscoveryError
from flip27_source.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The first offset of a partition, and the one that its next record gets."""

    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """Where a partition starts.

    Attributes:
        offset: the next offset to read; EARLIEST for a partition that the other reader did not know, or that
            ends before the next offset of this reader; None if the cluster does not have the partition.
        bounds: None if they were not requested from the cluster, or the cluster does not have the partition.
        problem: why reading cannot continue exactly where the other reader stopped; None if it can.
    """

    topic: str
    partition: int
    offset: int | None
    bounds: Bounds | None = None
    problem: str | None = None

    @property
    def records(self) -> int | None:
        """The number of offsets to read; None if it is not known."""
        if self.bounds is None or self.offset is None:
            return None
        return max(0, self.bounds.end - max(self.offset, self.bounds.first))


def start_positions(
    known: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds] | None
) -> list[StartPosition]:
    """Where each partition starts.

    Args:
        bounds: the partitions of the same topics in the cluster; None if they were not requested.
    """
    positions = []
    for topic, partition in sorted({*known, *(bounds or {})}):
        key = (topic, partition)
        offset = known.get(key, EARLIEST)
        position = StartPosition(topic=topic, partition=partition, offset=offset)
        positions.append(position if bounds is None else _within(bounds.get(key), position, offset))
    return positions


def _within(bounds: Bounds | None, position: StartPosition, offset: int) -> StartPosition:
    """The position if the cluster has these bounds of its partition."""
    if bounds is None:
        return replace(position, offset=None, problem="the cluster does not have this partition")
    if offset > bounds.end:
        problem = (
            f"the partition ends at offset {bounds.end}: the topic was recreated, or lost records; "
            f"offset {offset} was to be read next"
        )
        return replace(position, offset=EARLIEST, bounds=bounds, problem=problem)
    is_gone = EARLIEST != offset < bounds.first
    problem = f"offsets {offset} to {bounds.first - 1} are gone"
    return replace(position, bounds=bounds, problem=problem if is_gone else None)


def options_of(positions: list[StartPosition]) -> dict[str, str]:
    """The options for the first start of a query; none if there is nothing to read."""
    topics: dict[str, dict[str, int]] = {}
    for position in positions:
        if position.offset is not None:
            topics.setdefault(position.topic, {})[str(position.partition)] = position.offset
    starting_offsets = json.dumps(topics, separators=(",", ":"), sort_keys=True)
    return {"subscribe": ",".join(sorted(topics)), "startingOffsets": starting_offsets} if topics else {}


def offsets_of_spark(line: str) -> dict[TopicPartition, int] | None:
    """The offsets of Spark's Kafka source in a line of its offset log; None for a line of another source."""
    try:
        given = offsets("earliest", "latest")(line)
    except ValueError:
        return None
    if not given.each or given.of_topics:
        return None
    return {key: position.offset for key, position in given.each.items()}


def offsets_of_group(options: Options, group: str) -> dict[TopicPartition, int]:
    """The offsets that a consumer group has committed."""
    kafka: Any = imported()
    properties = client_properties(options)
    admin = new_admin(properties)
    try:
        answers = admin.list_consumer_group_offsets(
            [kafka.ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
        )
        answer = answers[group].result()
    except kafka.KafkaException as error:
        raise failed(properties, f"requesting the offsets of the group {group}", error) from None
    for place in answer.topic_partitions:
        if place.error is not None:
            doing = f"requesting the offset of {place.topic}/{place.partition} of the group {group}"
            raise failed(properties, doing, place.error)
    committed = {
        (place.topic, place.partition): place.offset for place in answer.topic_partitions if place.offset >= 0
    }
    if not committed:
        raise DiscoveryError(
            f"the group {group} has committed no offsets at {properties.place}",
            remedy="check the name; kafka-consumer-groups.sh --list shows the groups",
        )
    return committed


def bounds_of(options: Options, topics: set[str]) -> dict[TopicPartition, Bounds]:
    """The bounds of all partitions that the cluster has of these topics."""
    with closing(Cluster(client_properties(options))) as cluster:
        present = cluster.topics(sorted(topics))
        keys = [(name, number) for name, topic in present.items() for number in topic.partitions]
        firsts = cluster.offsets(dict.fromkeys(keys, EARLIEST))
        # The other reader may have read records of transactions that are still open.
        ends = cluster.high_watermarks(keys)
    for key in keys:
        if key not in firsts or key not in ends:
            raise DiscoveryError(
                f"the brokers did not report the offsets of partition {split_id_of(*key)}",
                remedy="wait until the partition has a leader, and let the user DESCRIBE its topic",
            )
    return {key: Bounds(first=firsts[key], end=ends[key]) for key in keys}
