"""The Kafka brokers that the tests run: where they differ, and what happens to them when they are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, TopicCollection

from tests.kafka_server import KafkaBroker, kafka_broker
from tests.server_process import DEADLINE_S


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


def topic_id(broker: KafkaBroker, topic: str) -> str:
    described = broker.admin().describe_topics(TopicCollection([topic]))
    return str(described[topic].result(DEADLINE_S).topic_id)


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


def test_a_recreated_topic_is_empty_and_has_a_new_id_only_with_tansu(either: KafkaBroker) -> None:
    topic = either.filled_topic([b"a"])
    before = topic_id(either, topic)
    either.delete_topic(topic)
    either.topic(2, name=topic)
    assert either.bounds(topic) == (0, 0)
    assert (topic_id(either, topic) != before) == (either.kind == "tansu")


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
