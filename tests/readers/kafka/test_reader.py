"""The rows of the kafka source are those of Spark's own source, whatever the log contains."""

from __future__ import annotations

import datetime as dt
import logging
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from flip27_source import edits
from flip27_source.coordination.split_rules import SplitErrorPolicy
from flip27_source.enumerators.kafka.split import KafkaSplit
from flip27_source.errors import AccessError, DataLossError, SchemaError, SplitReadError
from flip27_source.readers.kafka import fetches, reader
from flip27_source.readers.kafka.arrow_records import HEADERS
from flip27_source.readers.kafka.fetches import Fetches
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.snapshots.locations import find_lineages
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.kafka.reading import continued, offsets_of, read, stream, values_of
from tests.kafka_server import CODECS, KafkaBroker, Record, broker_behind_a_line, kafka_broker
from tests.mutating import around
from tests.snapshots.spark_logs import view_rows

MIDNIGHT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MIDNIGHT_MS = int(MIDNIGHT.timestamp() * 1000)


def test_a_row_has_the_columns_of_sparks_own_source(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([Record(key=b"k", value=b"v", timestamp_ms=MIDNIGHT_MS)])
    engine = read(kafka, topic)
    assert engine.schema.names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    assert engine.rows == [(b"k", b"v", topic, 0, 0, MIDNIGHT, 0)]


def test_keys_and_values_may_be_null_or_empty(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([Record(value=None), Record(key=b"", value=b""), Record(key=b"k", value=None)])
    engine = read(kafka, topic)
    assert [row[:2] for row in engine.rows] == [(None, None), (b"", b""), (b"k", None)]


def test_headers_keep_their_order_and_equal_names(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    headers = [("trace", b"1"), ("retry", None), ("trace", b"2")]
    kafka.produce(topic, [Record(value=b"a", headers=headers), b"b"])
    engine = read(kafka, topic, includeHeaders="true")
    assert [row[7] for row in engine.rows] == [
        [{"key": "trace", "value": b"1"}, {"key": "retry", "value": None}, {"key": "trace", "value": b"2"}],
        None,
    ]


def test_log_append_times_have_timestamp_type_1(kafka: KafkaBroker) -> None:
    topic = kafka.topic(config={"message.timestamp.type": "LogAppendTime"})
    kafka.produce(topic, [Record(value=b"a", timestamp_ms=MIDNIGHT_MS)])
    engine = read(kafka, topic)
    [row] = engine.rows
    assert row[6] == 1
    assert row[5] > MIDNIGHT


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(kafka: KafkaBroker, codec: str) -> None:
    topic = kafka.filled_topic([b"a" * 1000, b"b" * 1000], codec=codec)
    engine = read(kafka, topic)
    assert values_of(engine.rows) == [b"a" * 1000, b"b" * 1000]


class MeasuringReader(KafkaReader):
    """A reader that notes the sizes of its batches."""

    sizes: ClassVar[list[int]] = []

    def read_together(self, splits: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        for batch in super().read_together(splits):
            self.sizes.append(batch.nbytes)
            yield batch


@pytest.mark.parametrize("column", ["value", "key", "headers"])
def test_fields_of_a_megabyte_are_read_in_batches_of_limited_size(kafka: KafkaBroker, column: str) -> None:
    topic = kafka.topic(2)
    large = [bytes([number]) * 1_000_000 for number in range(40)]
    records = [
        {"value": large[number], "key": Record(value=b"", key=large[number])}.get(
            column, Record(value=b"", headers=[("h", large[number])])
        )
        for number in range(40)
    ]
    for partition in (0, 1):
        kafka.produce(topic, records, partition=partition)
    MeasuringReader.sizes.clear()
    engine = read(kafka, topic, parallelism=1, includeHeaders="true", reader=MeasuringReader)
    found = [row[engine.schema.names.index(column)] for row in engine.rows]
    assert [item if column != "headers" else item[0]["value"] for item in found] == [*large, *large]
    assert max(MeasuringReader.sizes) <= KafkaReader.most_bytes + fetches.CALL_BYTES


def test_damaged_bytes_are_not_delivered() -> None:
    with broker_behind_a_line({b"good": b"goad"}) as broker:
        topic = broker.filled_topic([b"good"])
        engine = stream(broker, topic, **{"kafkaConsumer.pollTimeoutMs": 2_000})
        with pytest.raises(SplitReadError, match=r"the records from offset 0 on are damaged: .*CRC32C"):
            engine.run_batch()


def test_a_header_whose_name_is_not_utf8_is_refused_and_other_columns_are_delivered(tmp_path: Path) -> None:
    with broker_behind_a_line({b"trace": b"tr\xffce"}) as broker:
        records = [b"{}", Record(value=b"broken", headers=[("retry", b""), ("trace", b"")])]
        topic = broker.filled_topic(records)
        more = {"schema": None, "kafka.check.crcs": "false"}
        engine = stream(broker, topic, includeHeaders="true", **more)
        said = f"{topic}/0 at offset 1 has a header whose name is not UTF-8(?s:.*)includeHeaders=false"
        with pytest.raises(SplitReadError, match=said):
            engine.run_batch()
        assert values_of(read(broker, topic, **more).rows) == [b"{}", b"broken"]
        more |= {"valueFormat": "json", "onRecordError": "quarantine", "stateLocation": tmp_path}
        order = pa.struct({"id": pa.int64()})
        engine = read(broker, topic, **{**more, "schema": pa.schema({"value": order})})
        assert engine.rows == [({"id": None},)]
        assert engine.holder.report()["quarantinedSplits"] == 1
        edits.submit(edits.plan("quarantine retry", state=str(tmp_path), why="fixed", glob="*"))
        schema = pa.schema({"value": order, "headers": HEADERS})
        engine.given = replace(engine.given.with_options(includeHeaders="true"), schema=schema)
        engine.source = engine.given.resolve()
        engine.restart()
        with pytest.raises(SplitReadError, match=said):
            engine.process_all_available()
        broker.produce(topic, [b"later"])
        more = {"onSplitError": "quarantine", "maxSplitAttempts": 1, "kafka.check.crcs": "false"}
        state = tmp_path / "past"
        engine = read(
            broker, topic, includeHeaders="true", maxOffsetsPerTrigger=1, stateLocation=state, **more
        )
        assert values_of(engine.rows) == [b"{}", b"later"]
        (line,) = view_rows("quarantine", find_lineages(str(state), {}))
        assert line["split_id"] == f"{topic}/0@1-1"
        assert "has a header whose name is not UTF-8" in line["error"]


def test_an_aborted_transaction_at_the_end_of_a_batch_does_not_stall_it(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"], transaction="committed")
    kafka.produce(topic, [b"b", b"c"], transaction="aborted")
    engine = stream(kafka, topic, **{"kafkaConsumer.pollTimeoutMs": 20_000})
    assert len(engine.process_all_available()) == 1
    kafka.produce(topic, [b"d"])
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"d"]


def test_a_batch_with_only_an_aborted_transaction_has_no_rows(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"b", b"c"], transaction="aborted")
    kafka.produce(topic, [b"d"])
    engine = stream(kafka, topic, maxOffsetsPerTrigger=2)
    assert [values_of(batch.rows) for batch in engine.process_all_available()] == [[], [b"d"]]


def test_records_of_an_open_transaction_come_with_its_commit(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    with kafka.open_transaction(topic, [b"a"]) as producer:
        kafka.produce(topic, [b"b"])
        engine = read(kafka, topic)
        assert engine.rows == []
        producer.commit_transaction(30)
    engine.process_all_available()
    assert values_of(engine.rows) == [b"a", b"b"]


def test_with_read_uncommitted_aborted_records_are_delivered(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"b"], transaction="aborted")
    engine = read(kafka, topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert values_of(engine.rows) == [b"b"]


@pytest.mark.parametrize("more", [{}, {"available_now": True}], ids=["a stream", "a run that ends"])
@pytest.mark.parametrize("is_planned", [False, True])
def test_records_of_an_open_transaction_that_were_read_uncommitted_are_not_lost(
    kafka: KafkaBroker, more: dict[str, Any], *, is_planned: bool
) -> None:
    topic = kafka.filled_topic([b"a"])
    more = {"kafka.isolation.level": "read_uncommitted", "kafkaConsumer.pollTimeoutMs": 3_000, **more}
    with kafka.open_transaction(topic, [b"b", b"c"]) as producer:
        engine = stream(kafka, topic, **more)
        if is_planned:
            assert engine.trigger()
        else:
            engine.process_all_available()
        engine.restart(options={"kafka.isolation.level": "read_committed"})
        if is_planned:
            with pytest.raises(SplitReadError, match="a transaction is open from offset 1 on"):
                engine.process_all_available()
        else:
            engine.process_all_available()
        producer.commit_transaction(30)
    kafka.produce(topic, [b"d"])
    continued(engine)
    assert values_of(engine.rows) == [b"a", b"b", b"c", b"d"]


def test_partitions_of_a_task_are_delivered_one_after_another(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"%d" % number for number in range(50)], partitions=3)
    engine = read(kafka, topic, parallelism=1)
    places = [(row[3], row[4]) for row in engine.rows]
    assert places == [(partition, offset) for partition in range(3) for offset in range(50)]


def test_a_consumer_serves_batches_that_end_before_the_end_of_the_partition(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"%d" % number for number in range(30)], partitions=2)
    engine = stream(kafka, topic, maxOffsetsPerTrigger=8, parallelism=1)
    batches = engine.process_all_available()
    assert len(batches) == 8
    assert offsets_of(engine.rows) == {f"{topic}/{partition}": list(range(30)) for partition in (0, 1)}


def test_a_schema_chooses_columns(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"])
    schema = pa.schema({"offset": pa.int64(), "value": pa.binary()})
    engine = read(kafka, topic, schema=schema)
    assert engine.rows == [(0, b"a")]


def test_an_unknown_record_column_is_refused(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b"a"])
    engine = stream(kafka, topic, schema=pa.schema({"amount": pa.int64()}))
    with pytest.raises(SchemaError, match="the schema has amount int64"):
        engine.process_all_available()


def losing(broker: KafkaBroker, *, dies: bool = False, **options: object) -> MicroBatchEngine:
    """Return a query with a planned batch of ten records, of which the first four have expired since.

    Args:
        dies: they expire after they were read and reported, but the driver died then.
    """
    topic = broker.filled_topic([b"%d" % number for number in range(10)])
    engine = stream(broker, topic, **options)
    if dies:
        with pytest.raises(Crashed):
            engine.run_batch(crash_at=Step.TASKS_ENDED)
        engine.restart()
    else:
        assert engine.trigger()
    broker.delete_records(topic, {0: 4})
    return engine


GONE = "offsets 0 to 3 are gone: they expired or were deleted"
LEFT = [4, 5, 6, 7, 8, 9]


def offsets(engine: MicroBatchEngine) -> list[int]:
    return [row[4] for row in engine.rows]


@pytest.mark.parametrize("policy", [{"onDataLoss": "report"}, {"failOnDataLoss": "false"}])
@pytest.mark.parametrize("dies", [False, True], ids=["before they are read", "after they were reported"])
@pytest.mark.parametrize("is_electing", [False, True])
def test_the_rest_of_a_range_whose_records_expire_is_read_and_the_loss_is_reported(
    kafka: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    policy: dict[str, str],
    *,
    dies: bool,
    is_electing: bool,
) -> None:
    given = {"stateLocation": tmp_path, "kafkaConsumer.pollTimeoutMs": 5_000}
    engine = losing(kafka, dies=dies, **given, **policy)
    offset_at = Fetches._offset_at

    def without_a_leader(fetches: Fetches, item: Any, at: int) -> None:
        monkeypatch.setattr(Fetches, "_offset_at", offset_at)

    if is_electing:
        monkeypatch.setattr(Fetches, "_offset_at", without_a_leader)
    engine.process_all_available()
    assert offsets(engine) == LEFT
    assert engine.holder.report()["dataLosses"] == 1


@around(Fetches, "_fetch")
def look_for_the_end_first(fetch: Any, self: Fetches, ranges: Any, first: Any) -> None:
    """As after a silence of the brokers."""
    self._check_end(first)
    fetch(self, ranges, first)


@pytest.mark.parametrize("is_silent", [False, True], ids=["at once", "after a silence"])
def test_only_the_last_records_of_a_partition_that_an_unclean_election_has_shortened_are_lost(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_silent: bool
) -> None:
    if is_silent:
        look_for_the_end_first(monkeypatch)
    topic = kafka.filled_topic([b"0", b"1", b"2", b"3", b"4"])
    engine = stream(kafka, topic, stateLocation=tmp_path, onDataLoss="report")
    assert engine.trigger()
    # A single broker elects no leader; without ids of topics, the topic with fewer records looks like it.
    kafka.recreate_topic(topic, [b"0", b"1", b"2"])
    engine.run_batch()
    assert values_of(engine.rows) == [b"0", b"1", b"2"]
    (loss,) = view_rows("losses", find_lineages(str(tmp_path), {}))
    assert loss["what"] == "offsets 3 to 4 are gone: the partition ends at offset 3 now"
    engine.stop()


def test_with_fail_on_data_loss_false_and_no_state_location_tasks_log_losses(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    engine = losing(kafka, failOnDataLoss="false", inline_state=True)
    with caplog.at_level(logging.WARNING, "flip27_source"):
        engine.process_all_available()
    assert offsets(engine) == LEFT
    assert f"split '{engine.rows[0][2]}/0': {GONE}" in caplog.text


@pytest.mark.parametrize("policy", [{}, {"onDataLoss": "fail"}, {"failOnDataLoss": "true"}])
def test_a_loss_in_a_planned_batch_names_the_option_to_continue(
    kafka: KafkaBroker, tmp_path: Path, policy: dict[str, str]
) -> None:
    given = {"stateLocation": tmp_path, "taskReports": "always"}
    engine = losing(kafka, dies=bool(policy), **given, **policy)
    said = rf"{GONE}(?s:.*)restart the query with (\w+)=(\w+)"
    with pytest.raises(DataLossError, match=said) as raised:
        engine.process_all_available()
    option, value = re.search(said, str(raised.value)).groups()
    engine.restart(options={option: value})
    engine.process_all_available()
    assert offsets(engine) == LEFT
    assert engine.holder.report()["dataLosses"] == 1


def test_reported_losses_do_not_delay_rows(kafka: KafkaBroker, tmp_path: Path) -> None:
    engine = stream(kafka, kafka.topic(), onDataLoss="report", stateLocation=tmp_path)
    policy = SplitErrorPolicy.of(engine.source)
    assert (policy.reports_loss, policy.fails_always) == (True, True)


def test_a_topic_that_is_deleted_between_planning_and_reading_is_a_loss(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.filled_topic([b"a"], partitions=3)
    engine = stream(kafka, topic, inline_state=True, **{"kafkaConsumer.pollTimeoutMs": 6_000})
    assert engine.trigger()
    kafka.delete_topic(topic)
    with pytest.raises(DataLossError, match="offsets 0 to 0 are gone"):
        engine.run_batch()
    engine.restart(options={"failOnDataLoss": "false"})
    with caplog.at_level(logging.WARNING, "flip27_source"):
        engine.run_batch()
    assert caplog.text.count("offsets 0 to 0 are gone: the topic was deleted") == 3


@pytest.mark.parametrize("is_checked", [False, True], ids=["before its id is checked", "afterwards"])
@pytest.mark.parametrize("is_reported", [False, True])
def test_a_topic_that_is_recreated_between_planning_and_reading_is_a_loss(
    tansu: KafkaBroker, monkeypatch: pytest.MonkeyPatch, *, is_reported: bool, is_checked: bool
) -> None:
    topic = tansu.filled_topic([b"a"])
    engine = stream(tansu, topic, onDataLoss="report" if is_reported else "fail", max_failures=2)
    assert engine.trigger()
    tansu.recreate_topic(topic, [b"b", b"c"])

    def as_before(*_splits: Any, **_more: Any) -> dict[str, str]:
        monkeypatch.undo()
        return {}

    if is_checked:
        monkeypatch.setattr(reader, "other_topics", as_before)
    if not is_reported:
        with pytest.raises(
            DataLossError, match="offsets 0 to 0 are gone: the topic was deleted and recreated"
        ):
            engine.run_batch()
        return
    engine.process_all_available()
    assert values_of(engine.rows) == [b"b", b"c"]
    assert engine.holder.report()["dataLosses"] == 2, "by the task, and by the next plan"


def test_a_topic_that_restarting_brokers_do_not_know_briefly_is_not_lost() -> None:
    with kafka_broker("noida") as broker:
        topic = broker.filled_topic([b"a"])
        engine = stream(broker, topic)
        assert engine.trigger()
        with ThreadPoolExecutor(1) as thread:
            with broker.forgetful():
                batch = thread.submit(engine.run_batch)
                time.sleep(3)  # for this long the broker does not know the topic
            batch.result()
        assert values_of(engine.rows) == [b"a"]


def test_a_record_that_the_client_refuses_is_not_a_deleted_topic_and_its_size_is_the_named_cause(
    kafka: KafkaBroker,
) -> None:
    topic = kafka.topic(config={"max.message.bytes": "20000000"})
    kafka.produce(topic, [b"a", b"x" * 3_000_000])
    limits = {"kafka.receive.message.max.bytes": 1_000_512, "kafka.fetch.max.bytes": 1_000_000}
    more = {"kafkaConsumer.pollTimeoutMs": 6_000, "failOnDataLoss": "false", **limits}
    engine = stream(kafka, topic, **more)
    with pytest.raises(
        AccessError, match=r"increase receive\.message\.max\.bytes(?s:.*)raise kafka\.receive"
    ):
        engine.run_batch()


def test_the_task_fails_at_its_timeout_if_brokers_stay_unreachable() -> None:
    with kafka_broker("noida") as broker:
        topic = broker.filled_topic([b"a"])
        engine = stream(broker, topic, **{"kafkaConsumer.pollTimeoutMs": 2_000})
        assert engine.trigger()
        broker.kill()
        with pytest.raises(
            SplitReadError,
            match=r"has offsets up to 0, but no record from offset 0 on arrived for 2 s.*Connection refused",
        ):
            engine.run_batch()
