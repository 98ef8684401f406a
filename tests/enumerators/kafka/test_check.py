"""What ``flip27 check`` finds about a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.enumerators.kafka.enumerator import KafkaEnumerator
from flip27_source.source import Source
from flip27_source.source_checks import Finding, Status
from tests.enumerators.kafka.reading import options_of, read
from tests.kafka_server import KafkaBroker


def check(broker: KafkaBroker, topic: str, **more: object) -> dict[str, Finding]:
    options = Source.resolve(options_of(broker, topic, **more)).options
    return {finding.check: finding for finding in KafkaEnumerator.check_source(options)}


def test_a_ready_cluster_passes(tansu: KafkaBroker) -> None:
    topic = tansu.topic(2)
    tansu.produce(topic, [b"a", b"b", b"c"])
    found = check(tansu, topic)
    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys(
        ("encryption", "brokers", "topics", "topic ids", "offsets", "reading", "start"), Status.OK
    )
    assert found["offsets"].found == "3 offsets can be read"


def test_brokers_without_topic_ids_get_a_warning(kafka: KafkaBroker) -> None:
    found = check(kafka, kafka.topic())
    assert found["topic ids"].status is Status.WARNING
    assert found["reading"].status is Status.SKIPPED


def test_a_missing_topic_fails(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    found = check(kafka, f"{topic},nowhere")
    assert found["topics"].status is Status.FAILED
    assert "names nowhere" in found["topics"].found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 7}}'}, "sets offset 7"),
        ({"startingOffsets": '{"TOPIC": {"1": 0}}'}, "does not match the partitions"),
        ({"startingTimestamp": "4102444800000"}, "has no record at"),
    ],
)
def test_a_start_that_the_topic_does_not_have_fails(
    given: dict[str, str], found: str, kafka: KafkaBroker
) -> None:
    topic = kafka.filled_topic([b"a", b"b"])
    given = {name: value.replace("TOPIC", topic) for name, value in given.items()}
    start = check(kafka, topic, **given)["start"]
    assert start.status is Status.FAILED
    assert found in start.found


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"stateLocation": "new"}, Status.FAILED),
        ({"stateLocation": "new", "failOnDataLoss": "false"}, Status.WARNING),
        ({}, Status.WARNING),
    ],
    ids=["fail", "report", "Spark's checkpoint may have a state"],
)
def test_a_start_at_expired_offsets_is_a_data_loss(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str], status: Status
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.filled_topic([b"a", b"b", b"c"])
    kafka.delete_records(topic, {0: 2})
    given = {"startingOffsets": f'{{"{topic}": {{"0": 1}}}}', **more}
    start = check(kafka, topic, **given)["start"]
    assert start.status is status
    assert f"startingOffsets sets offset 1 for {topic}/0, which begins at 2" in start.found
    forked = check(kafka, topic, **given, savepoint="/savepoints/1")["start"]
    assert forked.status is Status.SKIPPED
    assert check(kafka, topic)["start"].status is Status.OK


def test_a_query_with_state_does_not_start_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.filled_topic([b"a", b"b"])
    read(kafka, topic, stateLocation=tmp_path).stop()
    later = {"startingTimestamp": "4102444800000", "stateLocation": str(tmp_path)}
    assert check(kafka, topic, **later)["start"].status is Status.SKIPPED


def test_after_a_first_start_that_failed_the_start_is_checked_again(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.filled_topic([b"a", b"b"])
    (tmp_path / "schemas/kafka").mkdir(parents=True)
    (tmp_path / "schemas/kafka/1.json").write_text("{}")
    given = {"startingOffsets": f'{{"{topic}": {{"0": 7}}}}', "stateLocation": str(tmp_path)}
    assert check(kafka, topic, **given)["start"].status is Status.FAILED


def test_unreachable_brokers_fail(kafka: KafkaBroker) -> None:
    more = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "1000"}
    found = check(kafka, "orders", **more)
    assert found["brokers"].status is Status.FAILED
    assert "127.0.0.1:1" in found["brokers"].found


def test_a_password_in_the_code_and_a_readable_connection_are_warnings(kafka: KafkaBroker) -> None:
    more = {
        "kafka.bootstrap.servers": "broker.invalid:9092", "kafka.request.timeout.ms": "1000",
        "kafka.sasl.password": "correct-horse",
    }  # fmt: skip
    found = check(kafka, "orders", **more)
    assert found["encryption"].status is Status.WARNING
    assert found["secrets"].status is Status.WARNING
    assert "correct-horse" not in str(found)


def test_many_partitions_need_a_state_location(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic(20)
    small = {"inlineStateLimit": "1k"}
    assert check(kafka, topic, **small)["state"].status is Status.FAILED
    assert "state" not in check(kafka, topic, **small, stateLocation=tmp_path)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"eventTimeOrder": "true"}, Status.OK, "a watermark delay of 60 s loses no record that is in order"),
        ({"eventTimeOrder": "true", "watermarkDelay": "5s"}, Status.OK, "1 of 2 partitions have records"),
        (
            {"eventTimeOrder": "true", "watermarkDelay": "5s", "maxEventTimeDrift": "9s"},
            Status.WARNING,
            "a watermark delay of 9 s",
        ),
        ({"replaySpeed": "10"}, Status.OK, "1 of 2 partitions have records with times"),
    ],
)
def test_a_query_that_follows_event_times_learns_what_its_watermark_needs(
    given: dict[str, str], status: Status, said: str, kafka: KafkaBroker
) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b"a"])
    found = check(kafka, topic, **given)["event time"]
    assert found.status is status
    assert said in found.found
    assert "event time" not in check(kafka, topic)
