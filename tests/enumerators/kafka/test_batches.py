"""How much of a partition a batch contains: limits, parts for tasks, batch reads, commits, also of forks."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from flip27_source.enumerators.kafka import group_offsets
from flip27_source.enumerators.kafka.client import new_consumer
from flip27_source.enumerators.kafka.client_properties import Clients, client_properties
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.errors import OptionError
from flip27_source.source import Source
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.batch_read import planned_read
from tests.enumerators.kafka.reading import continued, offsets_of, options_of, read, stream
from tests.kafka_server import KafkaBroker, Record
from tests.snapshots.spark_logs import savepoint_of

HOUR_MS = 3_600_000


def batch_read(
    broker: KafkaBroker, topic: str, schema: pa.Schema | None = None, **more: object
) -> dict[str, list[int]]:
    """Return the offsets that ``spark.read`` delivers, by partition."""
    return offsets_of(planned_read(options_of(broker, topic, **more), schema).rows())


@pytest.mark.parametrize("most", [3, 7])
def test_the_parts_of_a_partition_are_in_the_order_of_their_offsets(most: int, kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"%d" % number for number in range(20)])
    given = {"maxRecordsPerPartition": most}
    assert offsets_of(read(kafka, topic, **given).rows) == {f"{topic}/0": list(range(20))}
    assert batch_read(kafka, topic, **given) == {f"{topic}/0": list(range(20))}


def filled(broker: KafkaBroker, *counts: int) -> str:
    """Return a topic whose partitions have as many records as given, an hour apart, starting in 1970."""
    topic = broker.topic(len(counts))
    for partition, count in enumerate(counts):
        records = [Record(value=b"%d" % hour, timestamp_ms=(hour + 1) * HOUR_MS) for hour in range(count)]
        broker.produce(topic, records, partition=partition)
    return topic


def test_partitions_share_the_offsets_of_a_batch(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 20, 2, 20)
    engine = stream(kafka, topic, maxOffsetsPerTrigger=12)
    first = engine.run_batch()
    assert first is not None
    assert Counter(row[3] for row in first.rows) == {0: 5, 1: 2, 2: 5}
    engine.process_all_available()
    assert {name: len(found) for name, found in offsets_of(engine.rows).items()} == {
        f"{topic}/0": 20, f"{topic}/1": 2, f"{topic}/2": 20,
    }  # fmt: skip


def test_each_partition_has_its_own_limit(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 7, 2)
    engine = stream(kafka, topic, maxOffsetsPerPartition=3)
    batches = engine.process_all_available()
    assert [Counter(row[3] for row in batch.rows) for batch in batches] == [{0: 3, 1: 2}, {0: 3}, {0: 1}]


def test_a_batch_waits_for_the_minimum_number_of_offsets(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 1)
    engine = read(kafka, topic, minOffsetsPerTrigger=3, maxOffsetsPerTrigger=3)
    assert len(engine.rows) == 1, "the first batch does not wait"
    kafka.produce(topic, [b"b", b"c"])
    assert engine.run_batch() is None
    kafka.produce(topic, [b"d", b"e"])
    engine.process_all_available()
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3]}, "one record is not enough"


def test_a_batch_does_not_wait_longer_than_the_delay(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 1)
    engine = read(kafka, topic, minOffsetsPerTrigger=3, maxTriggerDelay="0ms")
    kafka.produce(topic, [b"b"])
    engine.process_all_available()
    assert len(engine.rows) == 2


def test_a_batch_read_that_is_to_end_within_an_open_transaction_says_so(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 3)
    ends = json.dumps({topic: {"0": 5}})
    with kafka.open_transaction(topic, [b"a", b"b"]) as producer:
        with pytest.raises(OptionError, match="where a transaction is open from 3 on"):
            batch_read(kafka, topic, endingOffsets=ends)
        producer.commit_transaction(30)
    assert batch_read(kafka, topic, endingOffsets=ends) == {f"{topic}/0": [0, 1, 2, 3, 4]}


def test_available_now_ends_at_the_offsets_at_its_start(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 4)
    engine = stream(kafka, topic, available_now=True, maxOffsetsPerTrigger=3, minOffsetsPerTrigger=2)
    engine.run_batch()
    kafka.produce(topic, [b"later"])
    engine.process_all_available()
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3]}
    continued(engine)
    assert offsets_of(engine.rows) == {f"{topic}/0": [0, 1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("counts", "options", "tasks"),
    [
        ((30, 10), {"minPartitions": 4, "maxOffsetsPerTrigger": 2**63 - 1}, 4),
        ((25,), {"maxRecordsPerPartition": 10}, 3),
        ((2,) * 12, {"parallelism": 2}, 2),
    ],
)
def test_the_number_of_tasks_follows_the_cores_and_the_limits_and_not_the_partitions(
    kafka: KafkaBroker, counts: tuple[int, ...], options: dict[str, int], tasks: int
) -> None:
    topic = filled(kafka, *counts)
    engine = stream(kafka, topic, **options)
    assert engine.trigger()
    assert len(engine.partitions()) == tasks
    engine.run_batch()
    found = {name: sorted(offsets) for name, offsets in offsets_of(engine.rows).items()}
    assert found == {f"{topic}/{number}": list(range(count)) for number, count in enumerate(counts)}


@pytest.mark.parametrize("available_now", [False, True])
def test_parts_of_a_partition_continue_after_a_restart(kafka: KafkaBroker, *, available_now: bool) -> None:
    topic = filled(kafka, 30)
    engine = stream(kafka, topic, minPartitions=3, available_now=available_now)
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.TASKS_ENDED)
    kafka.add_partitions(topic, 2)
    continued(engine)
    kafka.produce(topic, [b"later"])
    continued(engine)
    assert sorted(offsets_of(engine.rows)[f"{topic}/0"]) == list(range(31))


def test_a_batch_read_reads_all_records_by_default(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 3, 1)
    assert batch_read(kafka, topic, startingOffsets=None) == {f"{topic}/0": [0, 1, 2], f"{topic}/1": [0]}


@pytest.mark.parametrize(
    ("starts", "ends", "read"),
    [((1, -2), (3, -1), {0: [1, 2], 1: [0, 1]}), ((3, 1), (1, 2), {1: [1]}), ((9, 1), (-1, -1), {1: [1]})],
    ids=["ends after the starts", "an end before a start", "a start after the end"],
)
def test_a_batch_read_ends_at_the_given_offsets(
    kafka: KafkaBroker, starts: tuple[int, int], ends: tuple[int, int], read: dict[int, list[int]]
) -> None:
    topic = filled(kafka, 4, 2)
    first, last = (json.dumps({topic: dict(enumerate(offsets))}) for offsets in (starts, ends))
    found = batch_read(kafka, topic, startingOffsets=first, endingOffsets=last)
    assert found == {f"{topic}/{partition}": offsets for partition, offsets in read.items()}


@pytest.mark.parametrize(
    ("bounds", "read"),
    [
        ({"startingOffsetsByTimestamp": 2 * HOUR_MS}, [1, 2, 3]),
        ({"startingOffsetsByTimestamp": 2 * HOUR_MS, "endingOffsets": 3}, [1, 2]),
        ({"startingOffsetsByTimestamp": 2 * HOUR_MS, "endingOffsetsByTimestamp": 4 * HOUR_MS}, [1, 2]),
        ({"startingOffsets": 1, "endingOffsetsByTimestamp": 4 * HOUR_MS}, [1, 2]),
        ({"startingTimestamp": 2 * HOUR_MS, "endingTimestamp": 4 * HOUR_MS}, [1, 2]),
        ({"startingTimestamp": 3 * HOUR_MS, "startingOffsetsByTimestamp": 0, "startingOffsets": 1}, [2, 3]),
        ({"startingOffsetsByTimestamp": 3 * HOUR_MS, "startingOffsets": 0}, [2, 3]),
        ({"endingTimestamp": 3 * HOUR_MS, "endingOffsetsByTimestamp": 0, "endingOffsets": 1}, [0, 1]),
    ],
)
def test_a_batch_read_is_between_offsets_and_times(
    kafka: KafkaBroker, bounds: dict[str, int], read: list[int]
) -> None:
    topic = filled(kafka, 4)
    options = {
        name: value if name.endswith("ingTimestamp") else json.dumps({topic: {"0": value}})
        for name, value in bounds.items()
    }
    assert batch_read(kafka, topic, **options) == {f"{topic}/0": read}


def test_a_batch_read_whose_ends_leave_out_a_partition_is_refused(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    with pytest.raises(OptionError, match=f"endingOffsets(?s:.*)leaves out {topic}/1"):
        batch_read(kafka, topic, endingOffsets=json.dumps({topic: {"0": 0}}))


@pytest.fixture
def an_answer_without_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer about times leaves out a partition, as brokers do while it has no leader."""

    class Electing(Cluster):
        is_electing = True

        def offsets(self, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            found = super().offsets(places)
            if self.is_electing and any(at > 0 for at in places.values()):
                self.is_electing = False
                del found[min(found)]
            return found

    monkeypatch.setattr(KafkaEnumerator, "connect", staticmethod(Electing))


@pytest.mark.usefixtures("an_answer_without_a_leader")
def test_a_batch_read_ends_before_the_given_time(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 4, 2)
    assert batch_read(kafka, topic, endingTimestamp=3 * HOUR_MS) == {
        f"{topic}/0": [0, 1], f"{topic}/1": [0, 1],
    }  # fmt: skip
    ends = json.dumps({topic: {"0": 2 * HOUR_MS, "1": 9 * HOUR_MS}})
    assert batch_read(kafka, topic, endingOffsetsByTimestamp=ends) == {
        f"{topic}/0": [0], f"{topic}/1": [0, 1],
    }  # fmt: skip


def test_a_batch_read_whose_partitions_are_cut_reads_every_record_once(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 20, 3)
    found = batch_read(kafka, topic, minPartitions=5, maxOffsetsPerPartition=6)
    assert {name: sorted(offsets) for name, offsets in found.items()} == {
        f"{topic}/0": list(range(20)), f"{topic}/1": [0, 1, 2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is set, and a stream has no end"),
        ({"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 3}, "is above maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "true", "onDataLoss": "report"}, "contradict each other"),
        ({"commitOffsets": "true"}, "kafka.group.id is not set"),
        ({"startingOffsets": "newest"}, "earliest or latest, or JSON"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "an offset is 0 or more"),
        ({"startingOffsets": '{"a": "newest"}'}, "earliest or latest, or JSON"),
        ({"startingOffsets": '{"a": {"0": 9223372036854775808}}'}, "earliest or latest, or JSON"),
        ({"startingTimestamp": str(2**64)}, "milliseconds since 1970 UTC"),
        ({"startingTimestamp": "today"}, "milliseconds since 1970 UTC"),
        ({"kafkaConsumer.polTimeoutMs": "1"}, "did you mean kafkaConsumer.pollTimeoutMs"),
    ],
)
def test_invalid_options_are_refused(kafka: KafkaBroker, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stream(kafka, "orders", **options).run_batch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "a batch read ends there"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "a batch read ends there"),
        ({"endingOffsets": "earliest"}, "option endingOffsets has the value 'earliest'"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "an offset is 0 or more, -1 is latest"),
    ],
)
def test_a_batch_read_that_starts_at_latest_or_ends_at_earliest_is_refused(
    kafka: KafkaBroker, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        batch_read(kafka, "orders", **options)


def committed(broker: KafkaBroker, group: str, topic: str, partitions: int) -> list[int]:
    """Return the committed offsets of a group; -1001 where there is none."""
    consumer = broker.consumer(group_id=group)
    try:
        wanted = [Place(topic, partition) for partition in range(partitions)]
        return [place.offset for place in consumer.committed(wanted, timeout=30)]
    finally:
        consumer.close()


def test_offsets_are_committed_to_the_group_once_a_batch_is_complete(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 3, 2)
    engine = stream(kafka, topic, commitOffsets="true", **{"kafka.group.id": topic})
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.SINK_WRITTEN)
    assert committed(kafka, topic, topic, 2) == [-1001, -1001]
    continued(engine)
    kafka.produce(topic, [b"more"], partition=1)
    engine.process_all_available()
    assert committed(kafka, topic, topic, 2) == [3, 3]


@pytest.mark.parametrize("form", ["kafka.group.idFile", "kafka.group.idEnv"])
def test_the_group_may_be_named_by_a_file_or_an_environment_variable(
    form: str, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(kafka, 3)
    (tmp_path / "group").write_text(f"{topic}\n")
    monkeypatch.setenv("GROUP_OF_TEST", topic)
    given = {form: tmp_path / "group" if form.endswith("File") else "GROUP_OF_TEST"}
    continued(read(kafka, topic, commitOffsets="true", **given))
    assert committed(kafka, topic, topic, 1) == [3]


class FailsOnce:
    """A consumer whose first commit fails, as while a broker restarts."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.has_failed = False

    def commit(self, **places: Any) -> Any:
        if not self.has_failed:
            self.has_failed = True
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.consumer.commit(**places)

    def close(self) -> None:
        self.consumer.close()


def test_offsets_that_could_not_be_committed_are_committed_with_those_of_the_next_batch(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(kafka, 3, 2)
    monkeypatch.setattr(group_offsets, "new_consumer", lambda given: FailsOnce(new_consumer(given)))
    engine = read(kafka, topic, commitOffsets="true", **{"kafka.group.id": topic})
    kafka.produce(topic, [b"more"], partition=1)
    engine.process_all_available()
    engine.stop()
    assert committed(kafka, topic, topic, 2) == [3, 3]


def test_the_offsets_of_a_recreated_topic_are_committed_though_they_are_lower(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 5)
    given = {"commitOffsets": "true", "failOnDataLoss": "false"}
    engine = read(kafka, topic, **given, **{"kafka.group.id": topic})
    kafka.produce(topic, [b"more"])
    continued(engine)
    kafka.recreate_topic(topic, [b"new"] * 2)
    engine.process_all_available()
    kafka.produce(topic, [b"more"])
    engine.process_all_available()
    kafka.produce(topic, [b"another"])
    engine.process_all_available()
    assert committed(kafka, topic, topic, 1) == [4]


def test_without_the_option_nothing_is_committed(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 3)
    engine = read(kafka, topic, **{"kafka.group.id": topic})
    engine.process_all_available()
    assert committed(kafka, topic, topic, 1) == [-1001]


def test_the_backlog_has_the_time_of_the_oldest_unread_record(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 5)
    engine = stream(kafka, topic, maxOffsetsPerTrigger=2)
    engine.run_batch()
    engine.run_batch()
    assert engine.holder.report()["backlogOldestEventTime"] == "1970-01-01T03:00:00+00:00"
    engine.process_all_available()
    assert "backlogOldestEventTime" not in engine.holder.report()


def test_the_time_of_the_oldest_unread_record_does_not_wait_for_records_that_were_aborted(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.filled_topic([b"a", b"b"])
    kafka.produce(topic, [b"never"], transaction="aborted")
    asked = itertools.count()

    def now_s() -> float:
        """Stands still, so a wait for a record does not end by itself."""
        assert next(asked) < 100
        return 0.0

    properties = client_properties(Source.resolve(options_of(kafka, topic)).options)
    with closing(Cluster(replace(properties, clients=Clients(now_s=now_s)))) as cluster:
        assert cluster.oldest_time_ms({(topic, 0): 2}, {(topic, 0): 4}) is None
        assert cluster.oldest_time_ms({(topic, 0): 0}, {(topic, 0): 4}) is not None


@pytest.mark.parametrize("unit_per_s", [10**6, 10**9])
def test_a_record_with_a_time_in_a_smaller_unit_does_not_stop_the_query(
    kafka: KafkaBroker, unit_per_s: int
) -> None:
    topic = kafka.filled_topic(
        [Record(value=b"%d" % n, timestamp_ms=1_760_000_000 * unit_per_s) for n in range(5)]
    )
    engine = stream(kafka, topic, maxOffsetsPerTrigger=2, schema=pa.schema([("offset", pa.int64())]))
    engine.run_batch()
    engine.run_batch()
    told = engine.holder.report()
    assert told["backlogRows"] == 1
    assert "backlogOldestEventTime" not in told
    engine.process_all_available()
    assert len(engine.rows) == 5


def test_the_backlog_is_in_offsets(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 5, 2)
    engine = stream(kafka, topic, maxOffsetsPerTrigger=3)
    engine.run_batch()
    told = engine.holder.report()
    assert (told["backlogRows"], told["backlogSplits"]) == (4, 2)


def test_the_lag_of_each_partition_is_told_if_it_is_asked_for(kafka: KafkaBroker) -> None:
    topic = filled(kafka, 5, 2, 0)
    engine = stream(kafka, topic, maxOffsetsPerTrigger=3, partitionLag=True)
    engine.run_batch()
    lags = engine.holder.report()["parts"]["partitionLag"]
    assert lags.keys() == {f"{topic}/{number}" for number in range(3)}
    assert sum(lags.values()) == engine.holder.report()["backlogRows"] == 4
    engine.process_all_available()
    assert set(engine.holder.report()["parts"]["partitionLag"].values()) == {0}
    without = stream(kafka, topic, maxOffsetsPerTrigger=3)
    without.run_batch()
    assert "parts" not in without.holder.report()


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
