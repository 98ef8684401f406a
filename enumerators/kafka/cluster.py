"""Requests to the cluster: topics with their partitions and ids, offsets, and the oldest unread record.

Used on one thread. What must not live here: decisions, which belong to the assigner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from flip27_source.enumerators.kafka.client import failed, imported, new_admin, new_consumer
from flip27_source.enumerators.kafka.client_properties import ClientProperties, Clock
from flip27_source.enumerators.kafka.split import TopicPartition, split_id_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics, which its Java client leaves out too."""

REQUEST_TIMEOUT_S = 10.0
"""How long a request may take, unless kafka.request.timeout.ms says so."""

GONE_AFTER_S = 10.0
"""How long the brokers must not report a topic."""

DESCRIPTIONS_UNTIL_GONE = 3
"""How many descriptions in a row must lack the topic."""

_MOST_SAMPLED = 16
"""The most partitions whose first unread record is read for its time: those with the most offsets to read."""

_SAMPLE_S = 1.0
_SMALL_FETCHES = {
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "64",
    "fetch.message.max.bytes": "16384",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the brokers describe it.

    Attributes:
        topic_id: changes if the topic is deleted and recreated; None if the brokers do not report one.
        partitions: the numbers of its partitions, ascending.
    """

    topic_id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """An absence of a topic or a partition, which several descriptions in a row have shown.

    Brokers that restart do not know their topics for a moment. So an absence must last for some time and be
    seen in several descriptions: many of them within a moment are not enough, and neither are two far apart.

    Attributes:
        since_s, until_s: the times of the first and the last of them, by a clock that never goes back.
        descriptions: the number of these descriptions.
    """

    since_s: float
    until_s: float
    descriptions: int = 1

    @property
    def is_final(self) -> bool:
        """Whether the topic or partition counts as gone."""
        lasted_s = self.until_s - self.since_s
        return lasted_s >= GONE_AFTER_S and self.descriptions >= DESCRIPTIONS_UNTIL_GONE

    def then(self, later: Absence) -> Absence:
        """This absence and the one that follows it, joined into one."""
        return Absence(
            since_s=self.since_s, until_s=later.until_s, descriptions=self.descriptions + later.descriptions
        )


class Cluster:
    """A cluster of brokers; its clients are created at the first request."""

    def __init__(self, properties: ClientProperties) -> None:
        self._properties = properties
        given = properties.values.get("socket.timeout.ms", "")
        self._timeout_s = int(given) / 1000 if given.isdigit() else REQUEST_TIMEOUT_S
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._admin = None

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        """The topics that match; internal ones only if the pattern begins with two underscores."""
        kafka = imported()
        try:
            names = self._connected().list_topics(timeout=self._timeout_s).topics
        except kafka.KafkaException as error:
            raise failed(self._properties, "listing the topics", error) from None
        return sorted(
            name
            for name in names
            if pattern.fullmatch(name) and (name not in _INTERNAL or pattern.pattern.startswith("__"))
        )

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe these topics in one request; topics that do not exist are left out."""
        kafka = imported()
        requested = list(names)
        if not requested:
            return {}
        self._connected()
        assert self._admin is not None
        topics: dict[str, Topic] = {}
        try:
            answers = self._admin.describe_topics(
                kafka.TopicCollection(requested), request_timeout=self._timeout_s
            )
        except kafka.KafkaException as error:
            raise failed(self._properties, "describing the topics", error) from None
        for name, answer in answers.items():
            try:
                described = answer.result()
            except kafka.KafkaException as error:
                if is_unknown(error.args[0]):
                    continue
                raise failed(self._properties, f"describing the topic {name}", error) from None
            topics[name] = Topic(
                topic_id=_known_id(described.topic_id),
                partitions=tuple(sorted(partition.id for partition in described.partitions)),
            )
        return topics

    def offsets(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets of partitions: one request to each broker that leads some of them.

        Args:
            places: for each partition EARLIEST, LATEST, or a time in milliseconds since 1970.

        Returns:
            The offsets: with ``isolation.level=read_committed``, LATEST is where the first open transaction
            begins. LATEST (-1) for a time that no record has reached. Partitions without a leader are left
            out.

        Raises:
            KafkaError: the brokers do not answer, or no partition has a leader.
        """
        if not places:
            return {}
        answers = self._answers(places)
        unknown = {answer.topic for answer in answers if is_unknown(answer.error)}
        if unknown:
            # The client caches the partitions of topics, and does not know those that were added since.
            self._refresh(unknown)
            answers = self._answers(places)
        offsets = {
            (answer.topic, answer.partition): answer.offset for answer in answers if answer.error is None
        }
        if not offsets:
            first = answers[0]
            raise failed(
                self._properties, f"requesting offsets of {first.topic}/{first.partition}", first.error
            )
        return offsets

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions, behind all open transactions; partitions without a leader are left out."""
        places = dict.fromkeys(partitions, _specs().latest())
        answers, _ = self._listed([places], reads_open=True)[0]
        return {key: answer.offset for key, answer in answers.items()}

    def latest_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The offset and the time of the record with the largest time: one request to each broker.

        Partitions are left out that have none, or of whose last transactions one is open; with brokers before
        Kafka 3.0 all are.
        """
        answers, _ = self._listed([dict.fromkeys(partitions, _specs().max_timestamp())])[0]
        return {
            key: (answer.offset, answer.timestamp)
            for key, answer in answers.items()
            if answer.offset >= 0 and answer.timestamp >= 0
        }

    def first_at(
        self, times_ms: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, dict[int, tuple[int, int] | None]]:
        """The offsets and times of the first records at or after times: all requests at once.

        One request to each broker for each of the times of the partition that has most.

        Returns:
            None for a time that no record has reached. What a broker does not answer is left out.

        Raises:
            KafkaError: the brokers answer nothing, and not because there are no leaders.
        """
        spec = _specs().for_timestamp
        most = max(map(len, times_ms.values()))
        rounds = [
            {key: asked[number] for key, asked in times_ms.items() if number < len(asked)}
            for number in range(most)
        ]
        found: dict[TopicPartition, dict[int, tuple[int, int] | None]] = {}
        listed = self._listed([{key: spec(at_ms) for key, at_ms in places.items()} for places in rounds])
        for places, (answers, _) in zip(rounds, listed, strict=True):
            for key, answer in answers.items():
                known = None if answer.offset < 0 else (answer.offset, answer.timestamp)
                found.setdefault(key, {})[places[key]] = known
        error, key = listed[0][1], next(iter(times_ms))
        if not found and error is not None:
            if not _lacks_leader(error.args[0]):
                raise failed(self._properties, f"requesting offsets of {split_id_of(*key)} by time", error)
            # Brokers that cannot be reached have the same error; they do not tell the partitions either.
            self._refresh([key[0]])
        return found

    def _listed(
        self, requests: Sequence[Mapping[TopicPartition, Any]], *, reads_open: bool = False
    ) -> list[tuple[dict[TopicPartition, Any], Any]]:
        """For each request the answers of the partitions that have a leader, and the first error."""
        kafka = imported()
        if not any(requests):
            return [({}, None)] * len(requests)
        self._connected()
        assert self._admin is not None
        is_open = reads_open or self._properties.values.get("isolation.level") == "read_uncommitted"
        level = kafka.IsolationLevel.READ_UNCOMMITTED if is_open else kafka.IsolationLevel.READ_COMMITTED
        sent = [
            self._admin.list_offsets(
                {kafka.TopicPartition(*key): spec for key, spec in places.items()},
                isolation_level=level,
                request_timeout=self._timeout_s,
            )
            for places in requests
        ]
        listed: list[tuple[dict[TopicPartition, Any], Any]] = []
        for answers in sent:
            found, first_error = {}, None
            for place, answer in answers.items():
                try:
                    found[place.topic, place.partition] = answer.result()
                except kafka.KafkaException as error:
                    first_error = first_error or error
            listed.append((found, first_error))
        return listed

    def oldest_time_ms(
        self, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> int | None:
        """The time of the oldest unread record, in milliseconds since 1970; None if none arrived in time.

        It is the smallest of the times of the first unread records of some partitions.

        Args:
            unread: the next offset to read, for each partition with unread records.
        """
        if not unread:
            return None
        lengths = [(ends[key] - offset, key) for key, offset in unread.items()]
        sampled = [key for _, key in sorted(lengths, reverse=True)[:_MOST_SAMPLED]]
        return min(self.times_ms({key: unread[key] for key in sampled}).values(), default=None)

    def times_ms(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The time of the first record at each of these offsets or later, for those that arrived in time."""
        # A new consumer for each call: librdkafka 2.16 can crash when a topic that a consumer has read is
        # recreated.
        values = {**self._properties.values, **_SMALL_FETCHES}
        with closing(new_consumer(replace(self._properties, values=values))) as consumer:
            consumer.assign([imported().TopicPartition(*key, offset) for key, offset in offsets.items()])
            return _first_times(consumer, len(offsets), self._properties.clients)

    def _answers(self, places: Mapping[TopicPartition, int]) -> list[Any]:
        """The offset or the error of each partition."""
        kafka = imported()
        requested = [kafka.TopicPartition(topic, number, at) for (topic, number), at in places.items()]
        try:
            return self._connected().offsets_for_times(requested, timeout=self._timeout_s)
        except kafka.KafkaException as error:
            if not is_unknown(error.args[0]):
                raise failed(self._properties, "requesting offsets", error) from None
            # All of them are unknown.
            unknown = error.args[0]
            return [SimpleNamespace(topic=name, partition=number, error=unknown) for name, number in places]

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


def _specs() -> Any:
    """What an offset can be asked for by."""
    imported()
    from confluent_kafka import admin

    return vars(admin)["OffsetSpec"]


def _first_times(consumer: Consumer, partitions: int, clock: Clock) -> dict[TopicPartition, int]:
    """The times of the first records; a partition in which all records were aborted only has an end."""
    times: dict[TopicPartition, int] = {}
    ended: set[TopicPartition] = set()
    deadline = clock.now_s() + _SAMPLE_S
    while len(times.keys() | ended) < partitions and clock.now_s() < deadline:
        for message in consumer.consume(partitions, 0.05):
            topic, number, error = message.topic(), message.partition(), message.error()
            if topic is None or number is None:
                continue
            if error is None:
                times.setdefault((topic, number), message.timestamp()[1])
            elif error.code() == imported().KafkaError._PARTITION_EOF:
                ended.add((topic, number))
    return times


def gone_after_s(timeout_s: float) -> float:
    """How long brokers must not know a topic, for a task with this timeout."""
    return min(GONE_AFTER_S, timeout_s / 2)


def is_unknown(error: Any) -> bool:
    """Whether brokers or client do not know a topic or a partition."""
    if error is None:
        return False
    codes = imported().KafkaError
    return error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION)


def _lacks_leader(error: Any) -> bool:
    """Whether the partition of an error has no leader, or does not exist."""
    codes = imported().KafkaError
    lacking = (codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes._NOENT)
    return is_unknown(error) or error.code() in lacking


def _known_id(topic_id: Any) -> str | None:
    text = "" if topic_id is None else str(topic_id)
    return None if not text.strip("A=") else text
