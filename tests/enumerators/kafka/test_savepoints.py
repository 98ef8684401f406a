"""Queries that start from a savepoint of another one: each continues with its own offsets."""

from __future__ import annotations

from pathlib import Path

from flip27_source.testing import MicroBatchEngine
from tests.enumerators.kafka.reading import continued, offsets_of, stream
from tests.enumerators.kafka.test_batches import committed
from tests.kafka_server import KafkaBroker
from tests.snapshots.spark_logs import savepoint_of


def query(broker: KafkaBroker, topic: str, state: Path, group: str, **more: str) -> MicroBatchEngine:
    """Return a query that commits to a group."""
    committing = {"commitOffsets": "true", "kafka.group.id": group}
    return stream(broker, topic, stateLocation=state, **committing, **more)


def test_a_fork_continues_with_its_own_offsets_and_does_not_touch_the_group_of_the_first_query(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b"a", b"b", b"c"])
    kafka.produce(topic, [b"d"], partition=1)
    first = query(kafka, topic, tmp_path / "first", f"{topic}-first")
    first.process_all_available()
    directory = savepoint_of(first, tmp_path / "checkpoint")
    kafka.produce(topic, [b"e", b"f"])
    fork = query(kafka, topic, tmp_path / "fork", f"{topic}-fork", savepoint=directory)
    fork.process_all_available()
    fork.process_all_available()
    assert offsets_of(fork.rows) == {f"{topic}/0": [3, 4]}
    assert committed(kafka, f"{topic}-first", topic, 2) == [3, 1]
    assert committed(kafka, f"{topic}-fork", topic, 2) == [5, -1001]
    fork.stop()
    first.restart()
    kafka.produce(topic, [b"g"], partition=1)
    first.process_all_available()
    assert offsets_of(first.rows) == {f"{topic}/0": [0, 1, 2, 3, 4], f"{topic}/1": [0, 1]}
    first.stop()
    continued(fork)
    assert offsets_of(fork.rows) == {f"{topic}/0": [3, 4], f"{topic}/1": [1]}
    fork.stop()
