"""A topic of thousands of partitions: few tasks, small offsets, and little work while nothing is new."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flip27_source.enumerator import BoundedRange, Budget
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.split import KafkaSplit
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.kafka.reading import options_of, read
from tests.kafka_server import KafkaBroker, raise_error, send

PARTITIONS = 5_000


class CountingEnumerator(KafkaEnumerator):
    """Counts the splits that are bounded."""

    bounded = 0

    def bound_split(self, split: KafkaSplit, budget: Budget) -> BoundedRange[KafkaSplit] | None:
        type(self).bounded += 1
        return super().bound_split(split, budget)


@pytest.fixture
def counted() -> Iterator[type[CountingEnumerator]]:
    CountingEnumerator.bounded = 0
    yield CountingEnumerator
    CountingEnumerator.bounded = 0


def fill(broker: KafkaBroker, topic: str, partitions: int) -> None:
    """Produce one record into each partition."""
    producer = broker.producer(linger_ms=20)
    for partition in range(partitions):
        send(producer, topic, partition, b"v", raise_error)
    assert producer.flush(60) == 0


def test_five_thousand_partitions_need_four_tasks_and_a_small_offset(
    kafka: KafkaBroker, counted: type[CountingEnumerator]
) -> None:
    topic = kafka.topic(PARTITIONS)
    fill(kafka, topic, PARTITIONS)
    engine = MicroBatchEngine(options_of(kafka, topic), enumerator=counted, parallelism=4)
    assert engine.trigger()
    tasks = engine.partitions()
    assert len(tasks) == 4
    assert counted.bounded == PARTITIONS
    batch = engine.run_batch()
    assert batch is not None
    assert len({row[3] for row in batch.rows}) == PARTITIONS
    assert len(json.dumps(batch.end)) < 4096
    assert engine.run_batch() is None
    assert counted.bounded == PARTITIONS, "partitions without new records are not bounded"
    kafka.produce(topic, [b"more"], partition=17)
    engine.run_batch()
    assert counted.bounded == PARTITIONS + 1


def counting(monkeypatch: pytest.MonkeyPatch, name: str, calls: Counter[str]) -> None:
    """Count the calls of a method of the cluster whose argument is not empty; the method still runs."""
    method: Callable[..., Any] = getattr(Cluster, name)

    def counted(self: Cluster, *given: Any) -> Any:
        calls[name] += bool(given and given[0])
        return method(self, *given)

    monkeypatch.setattr(Cluster, name, counted)


def test_an_idle_poll_makes_one_request_for_offsets(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(50)
    fill(kafka, topic, 50)
    engine = read(kafka, topic, discoveryInterval="1 hour")
    calls: Counter[str] = Counter()
    for name in ("topics", "offsets", "names"):
        counting(monkeypatch, name, calls)
    assert [engine.run_batch() for _ in range(10)] == [None] * 10
    # Each batch of this engine makes a poll; topics and beginnings are requested less often than ends.
    assert calls == {"offsets": 10}
