"""Kafka topics that are written while a query copies them, and are compared with the copy at the end."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from tests.kafka_server import CODECS, KafkaBroker, read_to_end, send
from tests.server_process import DEADLINE_S

from .shapes import Count, Shape

if TYPE_CHECKING:
    from confluent_kafka import Producer

PARTITIONS = 20
MOST_RECORDS = 3_000
"""The most records that are sent in one go."""
LEAD_RECORDS = 6_000
RECORDS_PER_BATCH = 4_000
"""Producers may send LEAD_RECORDS, plus RECORDS_PER_BATCH for each batch that the query has committed."""
KILLS_PER_CHANGE = 2
"""The number of kills after which partitions are added or, one time in three, a topic."""
TRANSACTIONS = 0.4
ABORTS = 0.4
GROUP = "topic-copy"

Key = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class TopicCopy(Shape):
    """Copies all topics that match a pattern to Parquet."""

    name = "topic-copy"
    feeds = ()

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        options = {
            "enumerator": "kafka",
            "kafka.bootstrap.servers": self.given["kafka"],
            "subscribePattern": "orders_[0-9]+",
            "startingOffsets": "earliest",
            **self.places.state_options("copy"),
            "parallelism": "2",
            "maxOffsetsPerTrigger": "4000",
            # A batch has 27 tasks and cuts the ranges of up to 26 partitions.
            "maxRecordsPerPartition": "150",
            "discoveryInterval": "50ms",
            "commitOffsets": "true",
            "kafka.group.id": GROUP,
            "kafka.log_level": "0",
            "kafka.reconnect.backoff.max.ms": "300",
            "fetchOffset.retryIntervalMs": "100",
        }
        return self._to_lake(spark.readStream.format("flip27").options(**options, **self.run_options).load())

    def rows(self) -> list[tuple[Key, bytes]]:
        """The records in the sink."""
        return [((row["topic"], row["partition"], row["offset"]), row["value"]) for row in self._lake_rows()]

    def count(self, arrived: int) -> Count:
        """Compare the records in the sink with those of the broker."""
        return Count.of(Counter(self.rows()), held(self.given["kafka"]).items())


def held(address: str) -> dict[Key, bytes]:
    """The values of all committed records of a broker, to which nothing is being written."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "audit",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    topics = consumer.list_topics(timeout=DEADLINE_S).topics
    places = [
        TopicPartition(name, number, 0)
        for name, topic in topics.items()
        if name.startswith("orders_")
        for number in topic.partitions
    ]
    return {_key_of(message): message.value() for message in read_to_end(consumer, places)}


def _key_of(message: Any) -> Key:
    return message.topic(), message.partition(), message.offset()


class WrittenTopics:
    """Topics of a broker, and producers that write to them as fast as possible whenever the broker is up.

    Each value is a number that is sent once.

    Attributes:
        acknowledged: the values of records that the broker has acknowledged and, in a transaction, committed.
        aborted: the values of the records in aborted transactions.
    """

    def __init__(self, broker: KafkaBroker, seed: int) -> None:
        self._broker = broker
        self._chance = random.Random(seed)
        self._partitions: dict[str, int] = {}
        self._numbers = 0
        self._kills = 0
        self._sending = threading.Lock()
        self.acknowledged: dict[Key, bytes] = {}
        self.aborted: set[bytes] = set()
        self.add_topic(PARTITIONS)

    @property
    def partitions(self) -> int:
        """The number of partitions of all topics."""
        return sum(self._partitions.values())

    @property
    def sent(self) -> int:
        """The number of records that were given to producers."""
        return self._numbers

    def add_topic(self, partitions: int) -> None:
        name = self._broker.topic(partitions, name=f"orders_{len(self._partitions)}")
        self._partitions[name] = partitions

    def add_partitions(self) -> None:
        name = self._chance.choice(list(self._partitions))
        total = self._partitions[name] + self._chance.randint(1, 4)
        self._broker.add_partitions(name, total)
        self._partitions[name] = total

    def grow(self) -> None:
        """Now and then add partitions or a topic; called after each kill."""
        self._kills += 1
        if self._kills % KILLS_PER_CHANGE:
            return
        if self._chance.random() < 1 / 3:
            self.add_topic(self._chance.randint(1, 5))
        else:
            self.add_partitions()

    @contextmanager
    def server_is_away(self) -> Iterator[None]:
        """Kill the broker; start it again at the end. Everything that was sent before is acknowledged."""
        with self._sending:
            self._broker.kill()
        yield
        self._broker.start()

    def write(self, stop: threading.Event, batches: Callable[[], int]) -> None:
        """Write until ``stop`` is set. Records that a killed broker has not acknowledged are not sent again.

        Args:
            batches: returns the number of batches that the query has committed.
        """
        from confluent_kafka import KafkaException

        while not stop.is_set():
            producer = self._broker.producer(
                linger_ms=5, retries=0, compression_type=self._chance.choice(CODECS)
            )
            with contextlib.suppress(KafkaException):
                while not stop.is_set():
                    if self._numbers > LEAD_RECORDS + RECORDS_PER_BATCH * batches():
                        stop.wait(0.02)
                    elif self._chance.random() < TRANSACTIONS:
                        self._send_a_transaction()
                    else:
                        self._send(producer)

    def _send(self, producer: Producer) -> None:
        with self._sending:
            self.acknowledged.update(self._acknowledged(producer, self._chance.randint(1, MOST_RECORDS)))

    def _send_a_transaction(self) -> None:
        # A new producer each time: noida hides what a producer commits after an abort from consumers
        # that start in between.
        producer = self._broker.producer(linger_ms=5, transactional_id=f"soak_{self._numbers}")
        with self._sending:
            producer.init_transactions(DEADLINE_S)
            producer.begin_transaction()
            found = self._acknowledged(producer, self._chance.randint(1, MOST_RECORDS // 4))
            if self._chance.random() < ABORTS:
                producer.abort_transaction(DEADLINE_S)
                self.aborted.update(found.values())
            else:
                producer.commit_transaction(DEADLINE_S)
                self.acknowledged.update(found)

    def _acknowledged(self, producer: Producer, count: int) -> dict[Key, bytes]:
        """Send records, and wait until each is acknowledged or refused; return the acknowledged ones."""
        found: dict[Key, bytes] = {}

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                found[_key_of(message)] = message.value()

        topics = list(self._partitions.items())
        for _ in range(count):
            topic, partitions = self._chance.choice(topics)
            send(producer, topic, self._chance.randrange(partitions), b"%d" % self._numbers, delivered)
            self._numbers += 1
        producer.flush(DEADLINE_S)
        return found

    def complaints(self, rows: Iterable[tuple[Key, bytes]]) -> list[str]:
        """What is wrong with the rows of a complete copy."""
        copied = dict(rows)
        lacking = [key for key, value in self.acknowledged.items() if copied.get(key) != value]
        numbers = Counter(copied.values())
        unknown = [key for key, value in copied.items() if not 0 <= int(value) < self._numbers]
        aborted = [key for key, value in copied.items() if value in self.aborted]
        again = [value for value, times in numbers.items() if times > 1]
        return [
            f"{len(found)} {what}, the first are {found[:5]}"
            for what, found in (
                ("acknowledged records are not in the copy", lacking),
                ("rows are of records that nobody sent", unknown),
                ("rows are of aborted transactions", aborted),
                ("records were sent once and are at two offsets", again),
            )
            if found
        ]
