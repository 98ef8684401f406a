"""``flip27 import kafka``: the positions of a Spark query or of a consumer group, on a real broker."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from flip27_source.enumerators.kafka import migration
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27
from tests.enumerators.kafka.reading import continued, read, values_of
from tests.kafka_server import KafkaBroker


def spark_checkpoint(root: Path, *batches: str, committed: int) -> Path:
    """Write the logs of a query, as Spark does, whose second source is not a Kafka source."""
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(parents=True)
    for number, offsets in enumerate(batches):
        metadata = '{"batchWatermarkMs":0,"batchTimestampMs":1767312000000,"conf":{}}'
        (root / f"offsets/{number}").write_text(f'v1\n{metadata}\n{offsets}\n{{"logOffset":{number}}}')
        if number <= committed:
            (root / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return root


def servers_of(broker: KafkaBroker) -> list[str]:
    return ["--option", f"kafka.bootstrap.servers={broker.address}"]


def rows(broker: KafkaBroker, options: dict[str, str]) -> list[tuple[int, int]]:
    """Return partition and offset of the records that a new query with these options reads first."""
    given = {"enumerator": "kafka", "kafka.bootstrap.servers": broker.address, **options}
    engine = MicroBatchEngine(given)
    engine.process_all_available()
    engine.stop()
    return sorted((row[3], row[4]) for row in engine.rows)


def test_a_new_query_starts_where_the_last_committed_batch_of_spark_ends(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(3)
    for partition in range(3):
        kafka.produce(topic, [b"a", b"b", b"c"], partition=partition)
    checkpoint = spark_checkpoint(
        tmp_path / "old",
        json.dumps({topic: {"0": 1, "1": 1}}),
        json.dumps({topic: {"0": 2, "1": 3}}),
        json.dumps({topic: {"0": 3, "1": 3}}),
        committed=1,
    )
    said = flip27("import", "kafka", "--checkpoint", checkpoint, *servers_of(kafka), "--json")
    assert said.code == 0, said.err
    assert (said.data["batch_id"], said.data["is_replanned"]) == (1, True)
    assert [(p["partition"], p["offset"], p["end"], p["records"]) for p in said.data["positions"]] == [
        (0, 2, 3, 1), (1, 3, 3, 0), (2, -2, 3, 3),
    ]  # fmt: skip
    assert rows(kafka, said.data["options"]) == [(0, 2), (2, 0), (2, 1), (2, 2)]


def test_records_that_are_gone_and_partitions_that_are_missing_are_reported(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b"a", b"b", b"c"])
    kafka.delete_records(topic, {0: 2})
    checkpoint = spark_checkpoint(tmp_path, json.dumps({topic: {"0": 1, "1": 7, "2": 0}}), committed=0)
    said = flip27("import", "kafka", "--checkpoint", checkpoint, *servers_of(kafka))
    assert said.code == 3
    assert "records have expired: set onDataLoss=report" in said.err
    table = said.lines[1:4]
    assert "offsets 1 to 1 are gone" in table[0][-1]
    assert "the partition ends at offset 0: the topic was recreated, or lost records" in table[1][-1]
    assert "the cluster does not have this partition" in table[2][-1]
    alone = flip27("import", "kafka", "--checkpoint", checkpoint)
    assert alone.code == 0
    assert "the cluster was not queried" in alone.err


def test_the_printed_options_start_a_query_if_topics_partitions_and_last_records_are_gone(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic, gone = kafka.filled_topic([b"a", b"b"]), kafka.topic()
    kafka.delete_topic(gone)
    known = json.dumps({topic: {"0": 3, "1": 1}, gone: {"0": 1}})
    said = flip27("import", "kafka", "--checkpoint", spark_checkpoint(tmp_path, known, committed=0),
                  *servers_of(kafka), "--json")  # fmt: skip
    assert said.code == 3
    assert said.data["options"] == {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":-2}}}}'}
    assert [
        (p["topic"], p["partition"], p["offset"], p["records"]) for p in said.data["positions"]
    ] == sorted([(topic, 0, -2, 2), (topic, 1, None, None), (gone, 0, None, None)])
    assert "offset 3 was to be read next" in str(said.data["positions"])
    assert rows(kafka, said.data["options"]) == [(0, 0), (0, 1)]


def test_no_options_are_printed_if_all_topics_are_gone(kafka: KafkaBroker, tmp_path: Path) -> None:
    gone = kafka.topic()
    kafka.delete_topic(gone)
    checkpoint = spark_checkpoint(tmp_path, json.dumps({gone: {"0": 1}}), committed=0)
    said = flip27("import", "kafka", "--checkpoint", checkpoint, *servers_of(kafka))
    assert said.code == 3
    assert "startingOffsets" not in said.out
    assert "there is nothing that a query could read" in said.err


def test_records_of_an_open_transaction_that_the_other_reader_has_are_not_gone(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.filled_topic([b"a"])
    with kafka.open_transaction(topic, [b"b", b"c"]) as producer:
        checkpoint = spark_checkpoint(tmp_path, json.dumps({topic: {"0": 3}}), committed=0)
        said = flip27("import", "kafka", "--checkpoint", checkpoint, *servers_of(kafka), "--json")
        assert said.code == 0, said.err
        engine = read(kafka, topic, startingOffsets=said.data["options"]["startingOffsets"])
        producer.commit_transaction(30)
    kafka.produce(topic, [b"d"])
    continued(engine)
    assert values_of(engine.rows) == [b"d"]


def test_a_new_query_starts_at_the_offsets_of_a_consumer_group(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    for partition in range(2):
        kafka.produce(topic, [b"a", b"b"], partition=partition)
    consumer = kafka.consumer(group_id=f"{topic}-readers")
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    said = flip27("import", "kafka", "--group", f"{topic}-readers", *servers_of(kafka), "--json")
    assert said.code == 0, said.err
    assert said.data["options"] == {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":1,"1":-2}}}}'}
    assert rows(kafka, said.data["options"]) == [(0, 1), (1, 0), (1, 1)]
    nothing = flip27("import", "kafka", "--group", "no-such-group", *servers_of(kafka))
    assert nothing.code == 1
    assert "the group no-such-group has committed no offsets" in nothing.err


class AdminWithoutACoordinator:
    """An admin client whose answer for one partition is an error."""

    def list_consumer_group_offsets(self, groups: list[Any], *, request_timeout: float) -> dict[str, Any]:
        found: Future[Any] = Future()
        error = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
        unstable = SimpleNamespace(topic="orders", partition=1, offset=-1001, error=error)
        found.set_result(SimpleNamespace(topic_partitions=[TopicPartition("orders", 0, 5), unstable]))
        return {"g": found}


def test_a_partition_whose_offset_the_group_cannot_tell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "new_admin", lambda _: AdminWithoutACoordinator())
    said = flip27("import", "kafka", "--group", "g", "--option", "kafka.bootstrap.servers=kafka1:9092")
    assert said.code == 1
    assert "requesting the offset of orders/1 of the group g failed" in said.err


def test_missing_arguments_are_named(tmp_path: Path) -> None:
    two = f"{json.dumps({'a': {'0': 1}})}\n{json.dumps({'b': {'0': 1}})}"
    checkpoint = spark_checkpoint(tmp_path / "two", two, committed=0)
    assert "add --source" in flip27("import", "kafka", "--checkpoint", checkpoint).err
    second = flip27("import", "kafka", "--checkpoint", checkpoint, "--source", "1", "--json")
    assert second.data["options"]["subscribe"] == "b"
    files = spark_checkpoint(tmp_path / "files", '{"logOffset":1}', committed=0)
    assert "has 0 Kafka sources" in flip27("import", "kafka", "--checkpoint", files).err
    assert "give either --checkpoint or --group" in flip27("import", "kafka").err
    assert "the brokers store the group's offsets" in flip27("import", "kafka", "--group", "g").err
