"""Every record is delivered once, whatever dies: drivers at every step, executors, and the broker."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from flip27_source.testing import Crashed, MicroBatchEngine, Step, Victim
from tests.enumerators.kafka.reading import stream
from tests.kafka_server import KafkaBroker, kafka_broker, raise_error, send

ROUNDS = 12
DRIVER_STEPS = [step for step in Step if not step.is_of_a_task]
TASK_STEPS = [step for step in Step if step.is_of_a_task]


def produce(broker: KafkaBroker, topic: str, partitions: int, rng: random.Random) -> None:
    """Some records in some partitions."""
    producer = broker.producer(linger_ms=5)
    for _ in range(rng.randrange(100)):
        send(producer, topic, rng.randrange(partitions), b"v", raise_error)
    assert producer.flush(60) == 0


def run_into_a_crash(engine: MicroBatchEngine, rng: random.Random) -> None:
    """Let a driver or an executor die at a random step, if the step is reached."""
    if rng.random() < 0.5:
        engine.crash_at(rng.choice(DRIVER_STEPS))
    else:
        engine.crash_at(rng.choice(TASK_STEPS), victim=Victim.EXECUTOR)
    try:
        engine.process_all_available()
    except Crashed:
        engine.restart()


def test_every_record_is_delivered_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    with kafka_broker("noida") as broker:
        partitions = 5
        topic = broker.topic(partitions)
        engine = stream(
            broker, topic, stateLocation=tmp_path, maxOffsetsPerTrigger=30, minPartitions=3, max_failures=4
        )
        for number in range(ROUNDS):
            produce(broker, topic, partitions, rng)
            if number % 4 == 1:
                partitions += 3
                broker.add_partitions(topic, partitions)
                produce(broker, topic, partitions, rng)
            if number % 5 == 2:
                broker.restart()
            run_into_a_crash(engine, rng)
        engine.process_all_available(through_crashes=True)
        expected = {
            (partition, offset): 1
            for partition in range(partitions)
            for offset in range(*broker.bounds(topic, partition))
        }
    assert len(expected) > 100
    assert Counter((row[3], row[4]) for row in engine.rows) == expected
