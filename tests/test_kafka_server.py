"""The Kafka brokers that the tests run: what each of them can do, and that they end with the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.deadline import until
from tests.kafka_server import CODECS, KafkaBroker, Kind, Record, kafka_broker, results
from tests.server_process import DEADLINE_S

PROGRAM = """
import sys
from tests.kafka_server import kafka_broker
with kafka_broker(sys.argv[1]) as broker:
    print(broker.log.parent, broker.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as broker:
        yield broker


@pytest.fixture(params=["kafka", "tansu"])
def either(request: pytest.FixtureRequest) -> KafkaBroker:
    broker: KafkaBroker = request.getfixturevalue(request.param)
    return broker


def values(
    broker: KafkaBroker, topic: str, *, start: int = 0, isolation: str = "read_committed"
) -> list[bytes]:
    return [m.value() for m in broker.consume(topic, start=start, isolation_level=isolation)]


def end(broker: KafkaBroker, topic: str, isolation: IsolationLevel) -> int:
    place = TopicPartition(topic, 0)
    futures = broker.admin().list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
    return int(futures[place].result(DEADLINE_S).offset)


def topic_id(broker: KafkaBroker, topic: str) -> str:
    described = broker.admin().describe_topics(TopicCollection([topic]))
    return str(described[topic].result(DEADLINE_S).topic_id)


def test_keys_values_headers_and_timestamps_are_returned_unchanged(either: KafkaBroker) -> None:
    topic = either.topic()
    sent = [
        Record(value=b"v", key=b"k", headers=[("a", b"1"), ("a", b"2"), ("b", None)], timestamp_ms=1000),
        Record(value=None, key=b"k"),
        Record(value=b"", key=None),
        Record(value=b"x" * 1_000_000),
    ]
    assert either.produce(topic, sent) == [0, 1, 2, 3]
    got = either.consume(topic)
    assert [(m.key(), m.value(), m.headers()) for m in got] == [
        (b"k", b"v", [("a", b"1"), ("a", b"2"), ("b", None)]),
        (b"k", None, None),
        (None, b"", None),
        (None, b"x" * 1_000_000, None),
    ]
    assert got[0].timestamp() == (1, 1000)


def test_all_codecs_are_read(either: KafkaBroker) -> None:
    topic = either.topic()
    for codec in CODECS:
        either.produce(topic, [codec.encode() * 100], codec=codec)
    assert values(either, topic) == [codec.encode() * 100 for codec in CODECS]


def test_records_have_the_time_of_the_broker_if_the_topic_is_configured_so(kafka: KafkaBroker) -> None:
    topic = kafka.topic(config={"message.timestamp.type": "LogAppendTime"})
    kafka.produce(topic, [Record(value=b"x", timestamp_ms=1000)])
    (message,) = kafka.consume(topic)
    kind, timestamp_ms = message.timestamp()
    assert kind == 2
    assert timestamp_ms > 1_700_000_000_000


def test_aborted_records_and_open_transactions_are_hidden_and_take_offsets(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"a", b"b"], transaction="committed")
    kafka.produce(topic, [b"c"], transaction="aborted")
    assert values(kafka, topic) == [b"a", b"b"]
    assert values(kafka, topic, isolation="read_uncommitted") == [b"a", b"b", b"c"]
    assert kafka.bounds(topic) == (0, 5)
    open_one = kafka.producer(transactional_id="open")
    open_one.init_transactions(DEADLINE_S)
    open_one.begin_transaction()
    open_one.produce(topic, b"d")
    open_one.flush(DEADLINE_S)
    assert end(kafka, topic, IsolationLevel.READ_COMMITTED) == 5
    assert end(kafka, topic, IsolationLevel.READ_UNCOMMITTED) == 6
    open_one.commit_transaction(DEADLINE_S)
    assert end(kafka, topic, IsolationLevel.READ_COMMITTED) == 7
    assert values(kafka, topic) == [b"a", b"b", b"d"]


def test_a_consumer_that_starts_after_an_abort_misses_what_the_same_producer_commits_later(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.topic()
    producer = kafka.producer(transactional_id=f"of_{topic}")
    producer.init_transactions(DEADLINE_S)
    for value, end_of_it in ((b"a", producer.abort_transaction), (b"b", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(DEADLINE_S)
        end_of_it(DEADLINE_S)
    assert values(kafka, topic) == [b"b"]
    assert values(kafka, topic, start=2) == [], (
        "Apache Kafka would return b; noida hides it because of the abort"
    )


def test_offsets_are_found_by_time(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [Record(value=b"x", timestamp_ms=time_ms) for time_ms in (1000, 2000, 3000)])
    consumer = kafka.consumer()
    asked = [TopicPartition(topic, 0, time_ms) for time_ms in (1, 2000, 2001)]
    assert [p.offset for time in asked for p in consumer.offsets_for_times([time], timeout=DEADLINE_S)] == [
        0,
        1,
        2,
    ]
    (beyond,) = consumer.offsets_for_times([TopicPartition(topic, 0, 3001)], timeout=DEADLINE_S)
    assert beyond.offset == -1
    consumer.close()


def test_partitions_are_added(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    kafka.add_partitions(topic, 5)
    assert len(kafka.admin().list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) == 5
    kafka.produce(topic, [b"x"], partition=4)
    assert kafka.bounds(topic, 4) == (0, 1)


def test_deleted_records_are_out_of_range(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"a", b"b", b"c"])
    kafka.delete_records(topic, {0: 2})
    assert kafka.bounds(topic) == (2, 3)
    assert values(kafka, topic, start=2) == [b"c"]
    with pytest.raises(RuntimeError, match="Offset out of range"):
        kafka.consume(topic, start=1)


def test_retention_deletes_records(kafka: KafkaBroker) -> None:
    topic = kafka.topic(config={"retention.ms": "100"})
    kafka.produce(topic, [b"a", b"b"])
    until(lambda: kafka.bounds(topic) == (2, 2))


def test_a_recreated_topic_is_empty_and_has_a_new_id_only_with_tansu(either: KafkaBroker) -> None:
    topic = either.topic()
    either.produce(topic, [b"a"])
    before = topic_id(either, topic)
    either.delete_topic(topic)
    either.topic(2, name=topic)
    assert either.bounds(topic) == (0, 0)
    assert (topic_id(either, topic) != before) == (either.kind == "tansu")


def test_a_group_keeps_the_offset_that_it_commits(either: KafkaBroker) -> None:
    topic = either.topic()
    either.produce(topic, [b"a", b"b"])
    place = TopicPartition(topic, 0, 1)
    for asked in (either.consumer(group_id="lag"), either.consumer(group_id="lag")):
        (found,) = asked.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
        if found.offset != 1:
            asked.commit(offsets=[place], asynchronous=False)
        asked.close()
    assert found.offset == 1


def test_many_values_are_sent_quickly_and_the_end_offset_is_known(either: KafkaBroker) -> None:
    topic = either.topic()
    sent = [b"%d" % number for number in range(20_000)]
    either.produce_quickly(topic, sent)
    assert either.bounds(topic) == (0, 20_000)
    assert values(either, topic) == sent


def test_acknowledged_records_survive_a_kill_and_a_restart_on_the_same_port(own_broker: KafkaBroker) -> None:
    topic, port = own_broker.topic(), own_broker.port
    own_broker.produce(topic, [b"a"] * 100)
    own_broker.produce(topic, [b"b"], transaction="aborted")
    own_broker.produce(topic, [b"last"])
    own_broker.kill()
    assert not own_broker.is_running
    with pytest.raises(KafkaException):
        own_broker.admin().list_topics(timeout=0.2)
    own_broker.start()
    assert own_broker.port == port
    assert values(own_broker, topic) == [*[b"a"] * 100, b"last"]
    assert own_broker.produce(topic, [b"c"]) == [103]


def test_a_suspended_broker_answers_nothing_and_then_continues(own_broker: KafkaBroker) -> None:
    topic = own_broker.topic()
    with own_broker.suspended(), pytest.raises(KafkaException) as caught:
        own_broker.admin().list_topics(timeout=0.2)
    assert caught.value.args[0].name() in ("_TRANSPORT", "_TIMED_OUT")
    assert own_broker.produce(topic, [b"a"]) == [0]


def test_creating_an_existing_topic_is_an_error(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    with pytest.raises(KafkaException, match="already exists"):
        kafka.topic(name=topic)
    with pytest.raises(KafkaException):
        results(kafka.admin().delete_topics(["no_such_topic"]))


@pytest.mark.parametrize("kind", ["noida", "tansu"])
def test_the_broker_and_its_folder_are_gone_when_the_tests_are_killed(kind: Kind) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        folder, pid = tests.stdout.readline().split()
        broker = psutil.Process(int(pid))
        keeper = next(p for p in psutil.Process(tests.pid).children() if p.pid != broker.pid)
        tests.kill()
    psutil.wait_procs([broker, keeper], timeout=60)
    assert not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE
    assert not Path(folder).exists()
