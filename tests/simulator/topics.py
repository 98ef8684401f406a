"""Topics of a simulated Kafka cluster: logs that expire, transactions, and topics that are recreated.

The enumerator of ``kafka``, its ``poller`` and its assigner are the real ones; the cluster that answers their
requests and the reader are simulated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flip27_source.enumerators.kafka.client import KafkaError
from flip27_source.enumerators.kafka.client_properties import ClientProperties
from flip27_source.enumerators.kafka.cluster import DESCRIPTIONS_UNTIL_GONE, GONE_AFTER_S, Cluster, Topic
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.poller import Clock
from flip27_source.enumerators.kafka.split import EARLIEST, LATEST, KafkaSplit, TopicPartition
from flip27_source.reader import SplitReader

TRANSACTION_RECORDS = 5
MOST_TOPICS = 3


@dataclass(slots=True)
class Log:
    """A partition.

    Attributes:
        name: topic, id of the topic and partition, which no other partition has.
        records: by offset; None where a reader sees no row, such as a marker.
        start: the first offset that has not expired.
        is_open: whether the last records belong to a transaction that has not ended.
        stable: the end offset that readers see: where the open transaction begins, if there is one.
    """

    name: str
    records: list[str | None] = field(default_factory=list)
    start: int = 0
    is_open: bool = False
    stable: int = 0

    def append(self, count: int) -> None:
        """Append records, each with a different text."""
        end = len(self.records)
        self.records += [f"{self.name}/{offset}" for offset in range(end, end + count)]
        if not self.is_open:
            self.stable = len(self.records)

    def end_transaction(self, *, is_aborted: bool) -> None:
        """End the open transaction by a marker; aborted records take offsets, but readers do not see them."""
        if is_aborted:
            self.records[self.stable :] = [None] * (len(self.records) - self.stable)
        self.records.append(None)
        self.is_open = False
        self.stable = len(self.records)


@dataclass(slots=True)
class SimulatedTopic:
    """A topic, until it is recreated."""

    topic_id: str | None
    logs: list[Log]


class SimulatedCluster:
    """The topics of a simulation, which change when data arrives.

    Attributes:
        trouble: probability that a request fails, or that its answer lacks a partition.
        forgetfulness: probability that an answer lacks a topic.
        now_s: the time; it only advances with each description of topics, so that the number of
            descriptions decides which topics count as gone.
        read: the records that tasks have read.
        logs: every partition that ever existed, by its name, with the id of the split that reads it.
    """

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.trouble = 0.0
        self.forgetfulness = 0.0
        self.now_s = 0.0
        # Brokers without ids cannot distinguish a recreated topic from one that has grown.
        self.has_ids = random_.random() < 0.8
        self.topics: dict[str, SimulatedTopic] = {}
        self.logs: dict[str, tuple[str, Log]] = {}
        self.read: set[str] = set()
        self._ids = 0
        self._forgotten = 0
        for number in range(random_.randint(1, MOST_TOPICS)):
            self.make(f"orders-{number}")

    def make(self, name: str) -> None:
        """Create a topic without records, replacing an existing one with the same name."""
        self._ids += 1
        topic_id = f"id{self._ids}" if self.has_ids else None
        self.topics[name] = SimulatedTopic(topic_id, [])
        for _ in range(self.random.randint(1, 3)):
            self._add_partition(name)

    def change(self) -> str:
        """Make a random change to a random topic, and return a description of it."""
        name = self.random.choice(list(self.topics))
        topic = self.topics[name]
        log = self.random.choice(topic.logs)
        kinds: list[Callable[[], str]] = [
            *[lambda: self._produced(log)] * 4, *[lambda: self._in_a_transaction(log)] * 3,
            lambda: self._partition_added(name), lambda: self._expired(log), lambda: self._recreated(name),
        ]  # fmt: skip
        return self.random.choice(kinds)()

    def expire(self) -> str:
        """Let records of every partition expire; returns a description."""
        logs = [log for topic in self.topics.values() for log in topic.logs]
        return ", ".join(map(self._expired, logs))

    def fails(self) -> bool:
        """Whether a request fails now."""
        return self.random.random() < self.trouble

    def forgets(self) -> bool:
        """Whether an answer lacks a topic; never so often in a row that the topic would count as gone."""
        self._forgotten = self._forgotten + 1 if self.random.random() < self.forgetfulness else 0
        if self._forgotten < DESCRIPTIONS_UNTIL_GONE:
            return self._forgotten > 0
        self._forgotten = 0
        return False

    def log_of(self, split: KafkaSplit) -> Log | None:
        """The partition that a split reads; None if it does not exist."""
        topic = self.topics.get(split.topic)
        if topic is None or split.partition >= len(topic.logs):
            return None
        return topic.logs[split.partition]

    def calm(self) -> None:
        """End all faults and open transactions."""
        self.trouble = self.forgetfulness = 0.0
        for topic in self.topics.values():
            for log in topic.logs:
                if log.is_open:
                    log.end_transaction(is_aborted=self.random.random() < 0.5)

    def _add_partition(self, name: str) -> None:
        topic = self.topics[name]
        number = len(topic.logs)
        log = Log(f"{name}#{topic.topic_id}/{number}")
        topic.logs.append(log)
        self.logs[log.name] = (f"{name}/{number}", log)

    def _produced(self, log: Log) -> str:
        if not log.is_open:
            log.append(self.random.randint(1, 8))
        return f"{log.name} has {len(log.records)} offsets"

    def _in_a_transaction(self, log: Log) -> str:
        if not log.is_open:
            log.is_open = True
            log.append(self.random.randint(1, TRANSACTION_RECORDS))
            if self.random.random() < 0.3:
                return f"{log.name} has an open transaction from {log.stable} on"
        is_aborted = self.random.random() < 0.5
        log.end_transaction(is_aborted=is_aborted)
        return f"{log.name}: a transaction is {'aborted' if is_aborted else 'committed'}, up to {log.stable}"

    def _expired(self, log: Log) -> str:
        log.start = self.random.randint(log.start, log.stable)
        return f"{log.name} begins at {log.start}"

    def _partition_added(self, name: str) -> str:
        if len(self.topics) < MOST_TOPICS and self.random.random() < 0.5:
            name = f"orders-{len(self.topics)}"
            self.make(name)
            return f"there is a topic {name}"
        self._add_partition(name)
        return f"{name} has {len(self.topics[name].logs)} partitions"

    def _recreated(self, name: str) -> str:
        if self.has_ids:
            self.make(name)
        return f"{name} has id {self.topics[name].topic_id} and {len(self.topics[name].logs)} partitions"


class SimulatedAnswers(Cluster):
    """The answers of a simulated cluster to the requests of the real enumerator."""

    def __init__(self, cluster: SimulatedCluster, properties: ClientProperties) -> None:
        super().__init__(properties)
        self._simulated = cluster

    def names(self, pattern: re.Pattern[str]) -> list[str]:
        return [name for name in sorted(self._simulated.topics) if pattern.fullmatch(name)]

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        self._simulated.now_s += GONE_AFTER_S / (DESCRIPTIONS_UNTIL_GONE - 1)
        self._may_fail("describing the topics")
        found = {
            name: Topic(topic_id=topic.topic_id, partitions=tuple(range(len(topic.logs))))
            for name in names
            if (topic := self._simulated.topics.get(name)) is not None
        }
        if self._simulated.forgets():
            del found[self._simulated.random.choice(sorted(found))]
        return found

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        self._may_fail("requesting offsets")
        found = {}
        for (name, number), at in wanted.items():
            topic = self._simulated.topics.get(name)
            if topic is None or number >= len(topic.logs) or self._simulated.fails():
                continue  # without a leader
            assert at in (EARLIEST, LATEST)
            found[name, number] = topic.logs[number].start if at == EARLIEST else topic.logs[number].stable
        if not found:
            raise KafkaError("no partition has a leader", remedy="wait for the brokers")
        return found

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            (name, number): len(topic.logs[number].records)
            for name, number in partitions
            if not self._simulated.fails()
            and (topic := self._simulated.topics.get(name)) is not None
            and number < len(topic.logs)
        }

    def oldest_time_ms(
        self, unread: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> int | None:
        return None

    def _may_fail(self, doing: str) -> None:
        if self._simulated.fails():
            raise KafkaError(f"{doing} failed", remedy="check the brokers")


class LogEnumerator(KafkaEnumerator):
    """The kafka enumerator, whose requests go to the simulated cluster."""

    cluster: ClassVar[SimulatedCluster]
    clock: ClassVar[Clock] = Clock(now_s=lambda: LogEnumerator.cluster.now_s, wait_s=lambda _: None)

    @staticmethod
    def connect(properties: ClientProperties) -> Cluster:
        return SimulatedAnswers(LogEnumerator.cluster, properties)


class LogReader(SplitReader[KafkaSplit]):
    """Reads ranges of simulated partitions; each row is the text of a record."""

    loses_whole_splits: ClassVar[bool] = False

    def read(self, split: KafkaSplit) -> Iterator[Any]:
        cluster = LogEnumerator.cluster
        log, topic = cluster.log_of(split), cluster.topics.get(split.topic)
        if split.end is None or split.end <= split.next:
            return None
        if topic is not None and topic.topic_id != split.topic_id:
            return self._lost(split, split.next, split.end, "the topic was deleted and recreated")
        if log is None:
            return self._lost(split, split.next, split.end, "the topic was deleted")
        if log.stable < split.end:
            return self._lost(split, split.next, split.end, f"the partition ends at offset {log.stable} now")
        first = min(max(log.start, split.next), split.end)
        if first > split.next:
            self._lost(split, split.next, first, "they expired or were deleted")
        for record in log.records[first : split.end]:
            if record is not None:
                cluster.read.add(record)
                yield (record,)

    def _lost(self, split: KafkaSplit, first: int, end: int, why: str) -> None:
        self.context.report_data_loss(
            f"offsets {first} to {end - 1} are gone: {why}",
            split_id=split.split_id,
            remedy="continue at earliest",
        )
