"""Partitions that are read in step in event time, with a real broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place

from flip27_source import edits
from flip27_source.enumerator_mixins import NamedPosition
from flip27_source.enumerators.kafka.client import KafkaError
from flip27_source.enumerators.kafka.client_properties import client_properties
from flip27_source.enumerators.kafka.cluster import Cluster
from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.enumerators.kafka.split import TopicPartition
from flip27_source.source import Source
from flip27_source.source_options import MAX_EVENT_TIME_DRIFT
from flip27_source.testing import MicroBatchEngine
from tests.deadline import until
from tests.enumerators.kafka.reading import (
    ReaderOfDamagedLogs,
    continued,
    damaged_records,
    offsets_of,
    options_of,
    stream,
)
from tests.kafka_server import KafkaBroker, Record, kafka_broker

MINUTE_MS = 60_000


def filled(broker: KafkaBroker, *minutes: Iterable[float], **more: Any) -> str:
    """Return a topic whose partitions have a record at each of these minutes after the first one of 1970."""
    topic = broker.topic(len(minutes), **more)
    for partition, times in enumerate(minutes):
        records = [Record(value=b"v", timestamp_ms=round((minute + 1) * MINUTE_MS)) for minute in times]
        broker.produce(topic, records, partition=partition)
    return topic


def ahead(engine: MicroBatchEngine, minutes: Sequence[Iterable[float]]) -> float:
    """By how many minutes the newest time in batches was ahead of the oldest one that waited after them."""
    left = Counter(round((minute + 1) * MINUTE_MS) for times in minutes for minute in times)
    most = newest = 0
    for batch in engine.batches:
        read = [round(row[5].timestamp() * 1000) for row in batch.rows]
        left.subtract(read)
        assert min(left.values()) >= 0, "something is read twice"
        left = +left
        newest = max([newest, *read])
        most = max(most, newest - min(left, default=newest))
    assert not left, "something is lost"
    return most / MINUTE_MS


def read_all(engine: MicroBatchEngine) -> None:
    """Read all: a partition in which nothing waits holds the others back for a minute."""
    while engine.process_all_available():
        engine.now_ms += 60_000


def summary(engine: MicroBatchEngine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.logs.offsets[-1])["summary"]
    return found


@pytest.mark.parametrize("more", [{}, {"maxOffsetsPerTrigger": 20}, {"maxOffsetsPerPartition": 7}])
def test_partitions_are_read_in_step(kafka: KafkaBroker, more: Mapping[str, object]) -> None:
    dense, sparse = [0.1 * number for number in range(600)], [float(number) for number in range(0, 200, 2)]
    topic = filled(kafka, dense, sparse, [])
    engine = stream(kafka, topic, maxEventTimeDrift="5 minutes", **more)
    read_all(engine)
    assert ahead(engine, [dense, sparse]) <= 10.01


DAY_MINUTES = 1440


def evenly(count: int, minutes: float, first: float = 0) -> list[float]:
    return [first + number * minutes / count for number in range(count)]


@pytest.mark.parametrize("drift_minutes", [1, 30])
@pytest.mark.parametrize(
    "times",
    [
        pytest.param([evenly(5000, 10 * DAY_MINUTES), evenly(50, 10 * DAY_MINUTES)], id="100:1"),
        pytest.param([evenly(count, 10 * DAY_MINUTES) for count in (5000, 500, 50)], id="100:10:1"),
        pytest.param([evenly(2000, 10 * DAY_MINUTES) for _ in range(3)], id="even"),
        pytest.param(
            [evenly(4000, DAY_MINUTES), *(evenly(40, DAY_MINUTES, 0.3 * one) for one in range(8))],
            id="one of nine",
        ),
        pytest.param(
            [evenly(3000, DAY_MINUTES, 9 * DAY_MINUTES), evenly(3000, 10 * DAY_MINUTES)], id="one is ahead"
        ),
        pytest.param(
            [[*evenly(2000, DAY_MINUTES), *evenly(50, 9 * DAY_MINUTES, DAY_MINUTES)],
             [*evenly(50, 9 * DAY_MINUTES), *evenly(2000, DAY_MINUTES, 9 * DAY_MINUTES)]],
            id="first one, then the other",
        ),
    ],
)  # fmt: skip
def test_a_limited_batch_is_nearly_full_whichever_partition_has_most_records(
    kafka: KafkaBroker, times: Sequence[Sequence[float]], drift_minutes: int
) -> None:
    topic, limit = filled(kafka, *times), 300
    engine = stream(
        kafka, topic, maxEventTimeDrift=f"{drift_minutes} minutes", maxOffsetsPerTrigger=limit,
        parallelism=1,
    )  # fmt: skip
    read_all(engine)
    sizes = [len(batch.rows) for batch in engine.batches]
    full = sizes[: sum(map(len, times)) // limit - 1]
    # The records that wait can always be read in the order of their times.
    assert min(full) >= 0.8 * limit, sizes
    assert max(sizes) <= limit
    assert ahead(engine, times) <= 2 * drift_minutes + 0.01


def test_all_is_read_across_crashes_and_by_a_run_that_ends(kafka: KafkaBroker) -> None:
    times = [range(30), range(10, 90, 5), range(0, 100, 3)]
    topic = filled(kafka, *times)
    engine = stream(kafka, topic, maxEventTimeDrift="5 minutes", maxOffsetsPerTrigger=11, available_now=True)
    engine.run_batch()
    kafka.produce(topic, [Record(value=b"later", timestamp_ms=201 * MINUTE_MS)])
    engine.process_all_available()
    assert ahead(engine, times) <= 10.01
    continued(engine)
    assert offsets_of(engine.rows) == {
        f"{topic}/0": list(range(31)), f"{topic}/1": list(range(16)), f"{topic}/2": list(range(34)),
    }  # fmt: skip


def test_partitions_stay_in_step_after_the_slowest_was_read_to_its_end(kafka: KafkaBroker) -> None:
    """Their positions have not moved, and no poll comes in between: what was known begins too early."""
    times = [range(60), [1000 + 0.01 * number for number in range(100)], range(1000, 9000, 40)]
    topic = filled(kafka, *times)
    given = {"eventTimeOrder": "true", "maxEventTimeDrift": "100 ms", "discoveryInterval": "1h"}
    engine = stream(kafka, topic, available_now=True, **given)
    engine.process_all_available()
    assert ahead(engine, times) * MINUTE_MS <= 100


class CountingCluster(Cluster):
    """Counts the requests for times."""

    requests: list[str]

    def first_at(self, times_ms: Any) -> Any:
        self.requests += ["first"] * max(map(len, times_ms.values()))
        return super().first_at(times_ms)

    def latest_records(self, partitions: Iterable[TopicPartition]) -> Any:
        self.requests.append("latest")
        return super().latest_records(partitions)


class CountingEnumerator(KafkaEnumerator):
    @staticmethod
    def connect(properties: Any) -> Cluster:
        CountingCluster.requests = []
        return CountingCluster(properties)


def test_without_these_options_no_times_are_asked_for(kafka: KafkaBroker) -> None:
    topic = filled(kafka, range(10), range(10))
    engine = MicroBatchEngine(options_of(kafka, topic, maxOffsetsPerTrigger=5), enumerator=CountingEnumerator)
    engine.process_all_available()
    assert CountingCluster.requests == []


def test_an_idle_stream_asks_for_no_times(kafka: KafkaBroker) -> None:
    topic = filled(kafka, range(10), range(10))
    engine = MicroBatchEngine(
        options_of(kafka, topic, maxEventTimeDrift="1h"), enumerator=CountingEnumerator, max_failures=1
    )
    engine.process_all_available()
    assert 0 < len(CountingCluster.requests) < 40
    before = len(CountingCluster.requests)
    for _ in range(20):
        with suppress(TimeoutError):
            assert engine.run_batch() is None
    assert len(CountingCluster.requests) == before


def test_in_event_time_order_the_smallest_watermark_delay_loses_nothing(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    times = [range(0, 300, 2), range(100, 200), range(50, 400, 7)]
    topic = filled(kafka, *times)
    given = {"eventTimeOrder": "true", "maxOffsetsPerTrigger": 13}
    engine = stream(kafka, topic, watermarkDelay="10s", maxEventTimeDrift="3 minutes", **given)
    read_all(engine)
    delays = [json.loads(text)["summary"]["smallestWatermarkDelayMs"] for text in engine.logs.offsets]
    assert ahead(engine, times) * MINUTE_MS < max(delays)
    assert max(delays) <= 3 * MINUTE_MS
    assert "lateSplits" not in summary(engine)
    warned = [record.getMessage() for record in caplog.records if "watermarkDelay" in record.getMessage()]
    assert len(warned) == 1
    assert "smallest watermark delay that loses nothing of the backlog is 180.000 s" in warned[0]
    assert "set a smaller maxEventTimeDrift" in warned[0]


def test_in_event_time_order_partitions_are_a_minute_apart_or_as_the_watermark_allows(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    times = [[0.1 * number for number in range(100)], [0.1 * number for number in range(0, 200, 3)]]
    topic = filled(kafka, *times)
    for delay, drift_s in (None, 60), ("20s", 20), ("2 minutes", 60):
        given = {"eventTimeOrder": "true", "maxOffsetsPerTrigger": 9, "watermarkDelay": delay}
        engine = stream(kafka, topic, **given)
        read_all(engine)
        assert ahead(engine, times) * 60 <= drift_s
    assert not [record for record in caplog.records if "watermarkDelay" in record.getMessage()]
    none = Source.resolve(options_of(kafka, topic, eventTimeOrder="true", watermarkDelay="0s"))
    assert none.options[MAX_EVENT_TIME_DRIFT] == 0.001


ALIGNED = {"maxEventTimeDrift": "5 minutes"}


def numbers(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[int]]:
    """The offsets of rows by partition."""
    return {int(name.rpartition("/")[2]): found for name, found in offsets_of(rows).items()}


def test_gaps_and_a_partition_that_is_added_later(kafka: KafkaBroker) -> None:
    times = [[*range(5), *range(500_000, 500_005)], [3, 500_003]]
    topic = filled(kafka, *times)
    engine = stream(kafka, topic, **ALIGNED, maxOffsetsPerTrigger=4)
    engine.run_batch()
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, [Record(value=b"old", timestamp_ms=MINUTE_MS)], partition=2)
    read_all(engine)
    assert ahead(engine, [*times, [0]]) <= 500_005
    assert numbers(engine.rows) == {0: list(range(10)), 1: [0, 1], 2: [0]}


def test_transactions_and_records_that_are_gone(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    records = [Record(value=b"v", timestamp_ms=minute * MINUTE_MS) for minute in range(1, 41)]
    kafka.produce(topic, records[:10], transaction="aborted")
    kafka.produce(topic, records[10:20])
    kafka.produce(topic, records, partition=1)
    kafka.delete_records(topic, {1: 15})
    with kafka.open_transaction(topic, [b"open"]) as producer:
        engine = stream(kafka, topic, **ALIGNED, maxOffsetsPerTrigger=6, failOnDataLoss="false")
        engine.run_batch()
        kafka.delete_records(topic, {1: 30})
        read_all(engine)
        assert numbers(engine.rows)[0] == list(range(11, 21))
        producer.commit_transaction(30)
    read_all(engine)
    assert [row[1] for row in engine.rows].count(b"open") == 1
    found = numbers(engine.rows)[1]
    assert found == sorted(set(found))
    assert set(range(30, 40)) <= set(found)


def test_a_recreated_topic_is_read_from_its_beginning(kafka: KafkaBroker) -> None:
    topic = filled(kafka, range(1000, 1050), range(1000, 1100))
    engine = stream(kafka, topic, **ALIGNED, maxOffsetsPerTrigger=20, failOnDataLoss="false")
    engine.run_batch()
    read = len(engine.rows)
    new = [Record(value=b"new", timestamp_ms=minute * MINUTE_MS) for minute in range(1, 4)]
    kafka.recreate_topic(topic, new, partitions=2)
    read_all(engine)
    assert [row[1] for row in engine.rows[read:]] == [b"new"] * 3


@pytest.mark.parametrize("position", [{"word": "earliest"}, {"timestamp_ms": 10 * MINUTE_MS}, {"offset": 9}])
def test_a_rewind_is_read_in_step(kafka: KafkaBroker, position: dict[str, Any], tmp_path: Path) -> None:
    topic = filled(kafka, range(60), range(0, 60, 2))
    engine = stream(kafka, topic, **ALIGNED, maxOffsetsPerTrigger=20, stateLocation=tmp_path)
    read_all(engine)
    edits.submit(
        edits.plan(
            "set-position", state=str(tmp_path), why="test", splits=[f"{topic}/0"],
            position=NamedPosition(**position),
        )
    )  # fmt: skip
    engine.restart()
    read_all(engine)
    first = 0 if position.get("word") else 9
    assert numbers(engine.rows) == {0: [*range(60), *range(first, 60)], 1: list(range(30))}


def test_the_brokers_own_times_are_followed(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2, config={"message.timestamp.type": "LogAppendTime"})
    for partition in (0, 1, 0):
        kafka.produce(topic, [b"v"] * 20, partition=partition)
    engine = stream(kafka, topic, maxEventTimeDrift="1 ms", maxOffsetsPerTrigger=8)
    read_all(engine)
    assert {row[6] for row in engine.rows} == {1}
    assert numbers(engine.rows) == {0: list(range(40)), 1: list(range(20))}


def test_times_ahead_of_the_clock_are_warned_of_once(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Of one record of the year 2100; the others are in step."""
    topic = filled(kafka, [1, 68_374_000, 2], range(10))
    engine = stream(kafka, topic, **ALIGNED)
    read_all(engine)
    assert len(engine.rows) == 13
    (warned,) = [
        one.getMessage() for one in caplog.records if "ahead of the driver's clock" in one.getMessage()
    ]
    assert f"records of {topic}/0 have times" in warned


class OldCluster(Cluster):
    """Brokers before Kafka 3.0."""

    def latest_records(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return {}


class SilentCluster(Cluster):
    """Brokers that do not answer for the times of one partition."""

    def first_at(self, times_ms: Any) -> Any:
        answers = super().first_at(times_ms)
        return {key: known for key, known in answers.items() if key[1] != 0}


@pytest.mark.parametrize(("kind", "most"), [(OldCluster, 10.01), (SilentCluster, 1000)])
def test_brokers_that_do_not_tell_all_times(kafka: KafkaBroker, kind: type[Cluster], most: float) -> None:
    class Enumerator(KafkaEnumerator):
        connect = staticmethod(kind)

    times = [range(100), range(40, 140, 3)]
    topic = filled(kafka, *times)
    given = options_of(kafka, topic, **ALIGNED, maxOffsetsPerTrigger=9)
    engine = MicroBatchEngine(given, enumerator=Enumerator, max_failures=1)
    read_all(engine)
    assert ahead(engine, times) <= most


def test_a_partition_without_a_leader_has_no_times_and_brokers_that_are_down_are_an_error() -> None:
    with kafka_broker() as broker:
        topic = broker.filled_topic([b"v"])
        options = options_of(broker, topic, **{"kafka.request.timeout.ms": 2000})
        with closing(Cluster(client_properties(Source.resolve(options).options))) as cluster:
            assert cluster.first_at({(topic, 0): [0]})[topic, 0][0] is not None
            assert cluster.first_at({(topic, 7): [0]}) == {}
            broker.kill()
            # The client may not have noticed it yet.
            with pytest.raises(KafkaError, match="failed at"):
                until(lambda: bool(cluster.first_at({(topic, 0): [0]})) and False)


def test_a_quarantined_range_is_retried_while_others_are_held(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = filled(kafka, range(10), range(100, 110))
    more = {"onSplitError": "quarantine", "maxSplitAttempts": 1, "reader": ReaderOfDamagedLogs}
    engine = stream(kafka, topic, **ALIGNED, **more, stateLocation=tmp_path)
    with damaged_records():
        engine.run_batch()
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path), why="test", glob="*"))
    engine.restart()
    read_all(engine)
    assert {name: sorted(found) for name, found in numbers(engine.rows).items()} == {
        0: list(range(10)), 1: list(range(10)),
    }  # fmt: skip


def test_the_offsets_of_a_partition_that_is_held_are_not_committed(kafka: KafkaBroker) -> None:
    topic = filled(kafka, range(1000, 1010), range(2000, 2010))
    given = {"commitOffsets": "true", "kafka.group.id": topic}
    engine = stream(kafka, topic, **ALIGNED, **given)
    engine.process_all_available()
    assert numbers(engine.rows) == {0: list(range(10))}
    engine.restart()
    consumer = kafka.consumer(group_id=topic)
    places = consumer.committed([Place(topic, 0), Place(topic, 1)], timeout=30)
    consumer.close()
    assert [place.offset for place in places] == [10, -1001]


def test_a_topic_is_replayed_in_pace(kafka: KafkaBroker) -> None:
    times = [[0.1 * number for number in range(600)], range(0, 60, 5)]
    topic = filled(kafka, *times)
    engine = stream(kafka, topic, replaySpeed="60")
    newest = 0.0
    for second in range(0, 62, 2):
        for batch in engine.process_all_available():
            newest = max([newest, *(row[5].timestamp() / 60 - 1 for row in batch.rows)])
        assert second - 4 <= newest <= second or newest > 59, "a minute passes in a second"
        engine.now_ms += 2000
    engine.process_all_available()
    assert ahead(engine, times) <= 5
