"""Requests to the cluster, for topics with their partitions and ids, and for offsets. Used on one thread.

What must not live here: decisions, which belong to the assigner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flip27_source.enumerators.kafka.client import failed, imported, new_admin, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.oldest_record import oldest_time_ms
from flip27_source.enumerators.kafka.positions import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics, which its Java client leaves out too."""

REQUEST_TIMEOUT_S = 10.0
"""How long a request may take, unless kafka.request.timeout.ms says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the brokers describe it.

    Attributes:
        topic_id: changes if the topic is deleted and recreated; None if the brokers do not report one.
        partitions: the numbers of its partitions, ascending.
    """

    topic_id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The answer for a partition that the client does not know."""

    topic: str
    partition: int
    error: Any


class Cluster:
    """A cluster of brokers; its clients are created at the first request."""

    def __init__(self, properties: ClientProperties) -> None:
        self._properties = properties
        given = properties.values.get("socket.timeout.ms", "")
        self._timeout_s = int(given) / 1000 if given.isdigit() else REQUEST_TIMEOUT_S
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None

    def close(self) -> None:
        """End the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._admin = None

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """The names of the topics that match; internal ones only if the pattern begins with two underscores.

        Raises:
            KafkaError: the brokers do not answer.
        """
        kafka = imported()
        try:
            found = self._connected().list_topics(timeout=self._timeout_s).topics
        except kafka.KafkaException as error:
            raise failed(self._properties, "listing the topics", error) from None
        return sorted(
            name
            for name in found
            if pattern.fullmatch(name) and (name not in _INTERNAL or pattern.pattern.startswith("__"))
        )

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe these topics in one request; topics that do not exist are left out.

        Raises:
            KafkaError: the brokers do not answer, or refuse a topic.
        """
        kafka = imported()
        wanted = list(names)
        if not wanted:
            return {}
        self._connected()
        assert self._admin is not None
        found: dict[str, Topic] = {}
        try:
            answers = self._admin.describe_topics(
                kafka.TopicCollection(wanted), request_timeout=self._timeout_s
            )
        except kafka.KafkaException as error:
            raise failed(self._properties, "describing the topics", error) from None
        for name, answer in answers.items():
            try:
                described = answer.result()
            except kafka.KafkaException as error:
                if _is_unknown(error.args[0]):
                    continue
                raise failed(self._properties, f"describing the topic {name}", error) from None
            found[name] = Topic(
                topic_id=_known_id(described.topic_id),
                partitions=tuple(sorted(partition.id for partition in described.partitions)),
            )
        return found

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets of partitions: one request to each broker that leads some of them.

        Args:
            wanted: for each partition EARLIEST, LATEST, or a time in milliseconds since 1970.

        Returns:
            The offsets: with ``isolation.level=read_committed``, LATEST is where the first open transaction
            begins. LATEST (-1) for a time that no record has reached. Partitions without a leader are left
            out.

        Raises:
            KafkaError: the brokers do not answer, or no partition has a leader.
        """
        if not wanted:
            return {}
        answers = self._answers(wanted)
        unknown = {answer.topic for answer in answers if _is_unknown(answer.error)}
        if unknown:
            # The client caches the partitions of topics, and does not know those that were added since.
            self._refresh(unknown)
            answers = self._answers(wanted)
        found = {
            (answer.topic, answer.partition): answer.offset for answer in answers if answer.error is None
        }
        if not found:
            first = answers[0]
            raise failed(
                self._properties, f"requesting offsets of {first.topic}/{first.partition}", first.error
            )
        return found

    def oldest_time_ms(
        self, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> int | None:
        """The time of the oldest record from the offsets ``unread`` on, in milliseconds since 1970."""
        return oldest_time_ms(self._properties, unread, ends)

    def _answers(self, wanted: Mapping[TopicPartition, int]) -> list[Any]:
        """The offset or the error of each partition."""
        kafka = imported()
        asked = [kafka.TopicPartition(topic, number, at) for (topic, number), at in wanted.items()]
        try:
            return self._connected().offsets_for_times(asked, timeout=self._timeout_s)
        except kafka.KafkaException as error:
            if not _is_unknown(error.args[0]):
                raise failed(self._properties, "requesting offsets", error) from None
            # All of them are unknown.
            return [_Unknown(topic, number, error.args[0]) for topic, number in wanted]

    def _refresh(self, topics: Iterable[str]) -> None:
        kafka = imported()
        try:
            for topic in topics:
                self._connected().list_topics(topic, timeout=self._timeout_s)
        except kafka.KafkaException as error:
            raise failed(self._properties, "requesting the partitions", error) from None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = new_consumer(self._properties)
            self._admin = new_admin(self._properties)
        # Passes on librdkafka's log messages, which are queued until then.
        self._consumer.poll(0)
        return self._consumer


def _is_unknown(error: Any) -> bool:
    if error is None:
        return False
    codes = imported().KafkaError
    return error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION)


def _known_id(topic_id: Any) -> str | None:
    text = "" if topic_id is None else str(topic_id)
    return None if not text.strip("A=") else text
