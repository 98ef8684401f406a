"""The time of the oldest record that is not read yet: a look at the first records of some partitions."""

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
"""Partitions that are asked: those with the most offsets to read."""

LONGEST_S = 1.0
_SMALL_FETCHES = {
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "64",
    "fetch.message.max.bytes": "16384",
}


class OldestRecord:
    """Asks for the first unread records, with a consumer of its own that fetches little."""

    def __init__(self, properties: ClientProperties) -> None:
        self._properties = replace(properties, values={**properties.values, **_SMALL_FETCHES})
        self._consumer: Consumer | None = None

    def time_ms(self, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
        """The smallest timestamp of the first unread records, in milliseconds since 1970; None if none came.

        Args:
            unread: where partitions are read next, of those that have more.
        """
        if not unread:
            return None
        behind = [(ends[key] - offset, key) for key, offset in unread.items()]
        kafka = imported()
        if self._consumer is None:
            self._consumer = new_consumer(self._properties)
        asked = [key for _, key in sorted(behind, reverse=True)[:MOST_PARTITIONS]]
        self._consumer.assign([kafka.TopicPartition(*key, unread[key]) for key in asked])
        found: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + LONGEST_S
        while len(found) < len(asked) and time.monotonic() < deadline:
            for message in self._consumer.consume(len(asked), 0.05):
                topic, number = message.topic(), message.partition()
                if message.error() is None and topic is not None and number is not None:
                    found.setdefault((topic, number), message.timestamp()[1])
        self._consumer.unassign()
        return min(found.values(), default=None)

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
