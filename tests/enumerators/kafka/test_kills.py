"""The driver, tasks and the broker are killed, and partitions are added: the sink has every record once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from flip27_source.testing import Crashed, MicroBatchEngine, Step, Victim
from tests.enumerators.kafka.reading import stream
from tests.kafka_server import KafkaBroker, kafka_broker

ROUNDS = 6
RECORDS = 40
Place = tuple[int, int]

OF_DRIVER = [step for step in Step if not step.is_of_a_task]
OF_TASK = [step for step in Step if step.is_of_a_task]


class Producers:
    """Sends records to a topic, some of them in transactions that are aborted.

    Attributes:
        sent: partition and offset of each record that readers must see.
    """

    def __init__(self, broker: KafkaBroker, topic: str, choice: random.Random) -> None:
        self._broker, self._topic, self._choice = broker, topic, choice
        self.sent: set[Place] = set()

    def send(self, partitions: int) -> None:
        """Send a random number of records to every partition."""
        for partition in range(partitions):
            values = [b"x"] * self._choice.randrange(RECORDS)
            transaction = self._choice.choice([None, "committed", "aborted"])
            offsets = self._broker.produce(self._topic, values, partition=partition, transaction=transaction)
            if transaction != "aborted":
                self.sent.update((partition, offset) for offset in offsets)


def run_through_crashes(engine: MicroBatchEngine, sent: set[Place]) -> None:
    """Run batches until the sink has as many records as were sent."""
    for _ in range(200):
        try:
            engine.run_batch()
        except Crashed:
            engine.restart()
        if len(engine.rows) >= len(sent) and not engine.logs.has_uncommitted:
            return
    raise AssertionError(f"the sink has {len(engine.rows)} of {len(sent)} records")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_every_record_is_in_the_sink_once_whichever_process_is_killed(seed: int) -> None:
    choice = random.Random(seed)
    with kafka_broker() as broker:
        partitions = 3
        topic = broker.topic(partitions)
        producers = Producers(broker, topic, choice)
        producers.send(partitions)
        engine = stream(broker, topic, maxOffsetsPerTrigger=50, maxRecordsPerPartition=10)
        for _ in range(ROUNDS):
            for step in choice.sample(OF_DRIVER, 2):
                engine.crash_at(step, nth=choice.randrange(1, 3))
            engine.crash_at(
                choice.choice(OF_TASK), nth=choice.randrange(1, 20), victim=choice.choice([*Victim])
            )
            run_through_crashes(engine, producers.sent)
            if choice.random() < 0.5:
                broker.restart()
            if choice.random() < 0.5:
                partitions += 1
                broker.add_partitions(topic, partitions)
            producers.send(partitions)
        run_through_crashes(engine, producers.sent)
        engine.stop()
    assert producers.sent
    assert Counter((row[3], row[4]) for row in engine.rows) == Counter(producers.sent)
