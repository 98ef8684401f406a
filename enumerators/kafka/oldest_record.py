"""The time of the oldest unread record, from the first unread records of some partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from flip27_source.enumerators.kafka.client import imported, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.positions import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MOST_PARTITIONS = 16
"""The most partitions that are read for this: those with the most offsets to read."""

LONGEST_S = 1.0
_SMALL_FETCHES = {
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "64",
    "fetch.message.max.bytes": "16384",
}


def oldest_time_ms(
    properties: ClientProperties, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> int | None:
    """The smallest timestamp of the first unread records, in milliseconds since 1970; None if none arrived.

    Args:
        unread: the next offset to read, for each partition with unread records.
    """
    if not unread:
        return None
    behind = [(ends[key] - offset, key) for key, offset in unread.items()]
    asked = [key for _, key in sorted(behind, reverse=True)[:MOST_PARTITIONS]]
    # A new consumer for each call: librdkafka 2.16 can crash when a topic that a consumer has read is
    # recreated.
    consumer = new_consumer(replace(properties, values={**properties.values, **_SMALL_FETCHES}))
    try:
        consumer.assign([imported().TopicPartition(*key, unread[key]) for key in asked])
        return min(_first_times(consumer, len(asked)).values(), default=None)
    finally:
        consumer.close()


def _first_times(consumer: Consumer, partitions: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + LONGEST_S
    while len(found) < partitions and time.monotonic() < deadline:
        for message in consumer.consume(partitions, 0.05):
            topic, number = message.topic(), message.partition()
            if message.error() is None and topic is not None and number is not None:
                found.setdefault((topic, number), message.timestamp()[1])
    return found
