"""Records that cannot be decoded are set aside with their bytes, and can be read again after a fix."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_source import edits
from flip27_source.cli.main import main
from flip27_source.errors import AttemptError, QuarantineError, SplitReadError, StateLocationError
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.state_tables.views import VIEWS
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.kafka.reading import stream
from tests.enumerators.kafka.test_batches import batch_read
from tests.enumerators.kafka.test_savepoints import saved
from tests.kafka_server import KafkaBroker, Record
from tests.schema_registry_server import SchemaRegistryServer, framed, schema_registry

ORDER = pa.struct([("id", pa.int64())])
SCHEMA = pa.schema(
    [pa.field("value", ORDER), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)
TEXTS = pa.schema([pa.field("value", pa.string()), pa.field("offset", pa.int64())])
DEATHS = (
    Step.OFFSET_LOGGED, Step.REPORT_WRITE, Step.REPORT_WRITTEN, Step.SINK_WRITTEN,
    Step.COMMIT_LOGGED,
)  # fmt: skip
BROKEN = b'{"id": oh no}'


def quarantining(broker: KafkaBroker, topic: str, folder: Path, **more: Any) -> MicroBatchEngine:
    """A query that decodes JSON and sets aside what cannot be decoded."""
    given = {"valueFormat": "json", "schema": SCHEMA, "onRecordError": "quarantine", **more}
    return stream(broker, topic, stateLocation=folder, **given)


def delivered(number: int, offset: int, partition: int = 0) -> tuple[Any, ...]:
    """A delivered row."""
    return {"id": number}, partition, offset


def quarantine(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The rows that ``flip27 state splits --status quarantined`` prints."""
    capsys.readouterr()
    assert main(["state", "splits", str(folder), "--status", "quarantined", "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def lines(folder: Path) -> list[dict[str, Any]]:
    """The rows of the view ``quarantine``."""
    (lineage,) = find_lineages(str(folder), {})
    return list(VIEWS["quarantine"].rows(History(lineage.store({}), lineage), EVERYTHING))


def set_aside(folder: Path) -> list[str]:
    """The ids of the records in the view."""
    return [line["split_id"] for line in lines(folder)]


def retry(engine: MicroBatchEngine, *split_ids: str, **options: Any) -> list[tuple[Any, ...]]:
    """Retry records of the quarantine; return the rows that the query then delivers."""
    state = engine.source.options["stateLocation"]
    chosen: dict[str, Any] = {"splits": split_ids} if split_ids else {"glob": "*"}
    edits.submit(edits.plan("quarantine retry", state=state, why="fixed", **chosen))
    before = len(engine.rows)
    restart_with(engine, **options)
    engine.process_all_available()
    return engine.rows[before:]


def restart_with(engine: MicroBatchEngine, *, schema: pa.Schema | None = None, **options: Any) -> None:
    """Restart the query with other options."""
    given = engine.given.with_options(**{name: str(value) for name, value in options.items()})
    engine.given = given if schema is None else replace(given, schema=schema)
    engine.source = engine.given.resolve()
    engine.restart()


def test_the_other_records_of_a_batch_with_a_quarantined_record_are_delivered(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b'{"id": 1}', BROKEN, None, b'{"id": 2}'])
    kafka.produce(topic, [b"", b'{"id": 3}'], partition=1)
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    assert sorted(engine.rows, key=lambda found: found[1:]) == [
        delivered(1, 0), (None, 0, 2), delivered(2, 3), delivered(3, 1, partition=1),
    ]  # fmt: skip
    engine.stop()


def test_the_state_has_the_record_with_its_position_bytes_time_and_error(
    kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.topic(2)
    record = Record(key=b"\xffk", value=BROKEN, timestamp_ms=86_400_000)
    kafka.produce(topic, [b'{"id": 1}'])
    kafka.produce(topic, [b'{"id": 2}', record], partition=1)
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    (line,) = lines(tmp_path)
    place = (line["split_id"], line["topic"], line["partition"], line["offset"])
    assert place == (f"{topic}/1@1", topic, 1, 1)
    assert (line["key"], line["value"]) == (b"\xffk", BROKEN)
    assert line["timestamp"] == dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    assert line["error"].startswith(f"the value of the record {topic}/1 at offset 1 cannot be decoded")
    (printed,) = quarantine(tmp_path, capsys)
    assert printed["split_id"] == f"{topic}/1@1"
    told = engine.holder.report()
    assert told is not None
    assert told["quarantinedSplits"] == 1
    engine.stop()


@pytest.mark.parametrize("unit_per_s", [10**6, 10**9])
def test_a_record_with_a_time_in_a_smaller_unit_is_set_aside_and_retried(
    kafka: KafkaBroker, tmp_path: Path, unit_per_s: int
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [Record(value=BROKEN, timestamp_ms=1_760_000_000 * unit_per_s)])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    (line,) = lines(tmp_path)
    assert (line["value"], line["timestamp"]) == (BROKEN, None)
    texts = SCHEMA.set(0, pa.field("value", pa.string()))
    assert retry(engine, schema=texts, valueFormat="string") == [(BROKEN.decode(), 0, 0)]
    engine.stop()


def test_a_record_is_delivered_with_all_its_columns_after_the_schema_is_fixed(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    record = Record(key=b"k", value=b"seven", timestamp_ms=1000, headers=[("h", b"1")])
    kafka.produce(topic, [record, b'{"id": 8}'])
    columns = [pa.field("key", pa.binary()), pa.field("timestamp", pa.timestamp("us", "UTC")), *SCHEMA]
    headers = record_schema(include_headers=True).field("headers")
    schema = pa.schema([*columns, headers])
    engine = quarantining(kafka, topic, tmp_path, includeHeaders="true", schema=schema)
    engine.process_all_available()
    assert [found[4] for found in engine.rows] == [1]
    texts = schema.set(2, pa.field("value", pa.string()))
    (found,) = retry(engine, f"{topic}/0@0", schema=texts, valueFormat="string")
    time = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert found == (b"k", time, "seven", 0, 0, [{"key": "h", "value": b"1"}])
    assert set_aside(tmp_path) == []
    engine.stop()


def test_a_record_is_delivered_after_its_schema_is_registered(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    with schema_registry() as registry:
        kafka.produce(topic, [framed(1, avro(7))])
        engine = quarantining(kafka, topic, tmp_path, valueFormat="avro", schemaRegistryUrl=registry.url)
        engine.process_all_available()
        assert engine.rows == []
        registry.add(f"{topic}-value", AVRO)
        assert retry(engine) == [delivered(7, 0)]
        engine.stop()


def test_a_record_is_read_from_the_state_if_the_broker_no_longer_has_it(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"text", b'{"id": 1}'])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    kafka.delete_records(topic, {0: 1})
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert found == [("text", 0)]
    engine.stop()


def test_a_record_that_still_does_not_decode_stays_in_the_quarantine(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN, b'{"id": "x"}'])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    assert retry(engine, f"{topic}/0@1") == []
    assert set_aside(tmp_path) == [f"{topic}/0@0", f"{topic}/0@1"]
    texts = pa.schema([pa.field("value", pa.struct([("id", pa.string())])), pa.field("offset", pa.int64())])
    assert retry(engine, schema=texts) == [({"id": "x"}, 1)]
    assert set_aside(tmp_path) == [f"{topic}/0@0"]
    engine.stop()


def test_dropped_records_are_removed_from_the_quarantine(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN, BROKEN])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    words = ("--state", str(tmp_path), "--split", f"{topic}/0@0", "--why", "test", "--execute")
    assert main(["edit", "quarantine", "drop", *words]) == 0
    engine.restart()
    engine.process_all_available()
    assert set_aside(tmp_path) == [f"{topic}/0@1"]
    engine.stop()


@pytest.mark.parametrize("limits", [{"maxOffsetsPerTrigger": 2}, {"minPartitions": 6}])
def test_records_are_retried_within_the_limits_of_batches(
    kafka: KafkaBroker, tmp_path: Path, limits: dict[str, int]
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"%d" % number for number in range(5)])
    engine = quarantining(kafka, topic, tmp_path, **limits)
    engine.process_all_available()
    assert engine.rows == []
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(found) == [(str(number), number) for number in range(5)]
    assert max(len(batch.rows) for batch in engine.batches) <= limits.get("maxOffsetsPerTrigger", 5)
    engine.stop()


@pytest.mark.parametrize("step", DEATHS, ids=lambda step: step.name)
def test_a_record_is_delivered_or_quarantined_once_whichever_process_is_killed(
    kafka: KafkaBroker, tmp_path: Path, step: Step
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b"0", b"1", b'{"id": 2}', b"3", b'{"id": 4}'])
    engine = quarantining(kafka, topic, tmp_path, maxOffsetsPerTrigger=3)
    engine.crash_at(step, batch_id=1)
    engine.process_all_available(through_crashes=True)
    assert sorted(engine.rows, key=lambda found: found[2]) == [delivered(2, 2), delivered(4, 4)]
    assert sorted(set_aside(tmp_path)) == [f"{topic}/0@{offset}" for offset in (0, 1, 3)]
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path), why="fixed", glob="*"))
    restart_with(engine, schema=TEXTS, valueFormat="string")
    engine.crash_at(step)
    engine.process_all_available(through_crashes=True)
    assert sorted(found[-1] for found in engine.rows) == [0, 1, 2, 3, 4]
    assert set_aside(tmp_path) == []
    engine.stop()


def test_a_record_is_in_the_state_once_its_batch_is_complete(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN])
    engine = quarantining(kafka, topic, tmp_path)
    engine.crash_at(Step.ROWS_READ)
    with pytest.raises(Crashed):
        engine.process_all_available()
    assert set_aside(tmp_path) == []
    engine.restart()
    engine.process_all_available()
    assert set_aside(tmp_path) == [f"{topic}/0@0"]
    engine.stop()


AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def avro(number: int) -> bytes:
    """An order in Avro."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, AVRO, {"id": number})
    return data.getvalue()


def planned(
    broker: KafkaBroker, topic: str, folder: Path, registry: SchemaRegistryServer
) -> MicroBatchEngine:
    """A query whose only batch is planned, with two records, of schemas 1 and 2."""
    for number in (1, 2):
        broker.produce(topic, [framed(number, avro(number))], partition=number - 1)
    more = {"valueFormat": "avro", "schemaRegistryUrl": registry.url, "parallelism": 1}
    engine = quarantining(broker, topic, folder, **more)
    assert engine.trigger()
    return engine


def test_a_repeated_task_quarantines_the_same_records_even_if_their_schema_is_known_by_then(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    with schema_registry() as registry:
        registry.add("a", AVRO)
        engine = planned(kafka, topic, tmp_path, registry)
        (task,) = engine.partitions()
        assert list(engine.attempt(task)) == [delivered(1, 0)]
        registry.add("b", AVRO)
        assert list(engine.attempt(task, number=1)) == [delivered(1, 0)]
        engine.process_all_available()
        assert engine.rows == [delivered(1, 0)]
        assert retry(engine) == [delivered(2, 0, partition=1)]
        engine.stop()


def test_a_slower_task_that_can_decode_records_that_the_first_quarantined_fails(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.readers.kafka.reader.BATCH_ROWS", 1)
    topic = kafka.topic(2)
    with schema_registry() as registry:
        registry.add("a", AVRO)
        engine = planned(kafka, topic, tmp_path, registry)
        (task,) = engine.partitions()
        slower = engine.attempt(task, number=1)
        assert next(slower) == delivered(1, 0)
        assert list(engine.attempt(task)) == [delivered(1, 0)]
        registry.add("b", AVRO)
        with pytest.raises(AttemptError):
            list(slower)
        engine.stop()


def test_a_repeated_task_that_cannot_decode_records_that_the_first_delivered_fails(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    with schema_registry() as registry, schema_registry() as emptier:
        registry.add("a", AVRO)
        registry.add("b", AVRO)
        emptier.add("a", AVRO)
        engine = planned(kafka, topic, tmp_path, registry)
        (task,) = engine.partitions()
        assert list(engine.attempt(task)) == [delivered(1, 0), delivered(2, 0, partition=1)]
        restart_with(engine, schemaRegistryUrl=emptier.url)
        (task,) = engine.partitions()
        with pytest.raises(AttemptError, match="has delivered"):
            list(engine.attempt(task))
        restart_with(engine, schemaRegistryUrl=registry.url)
        engine.process_all_available()
        assert engine.rows == [delivered(1, 0), delivered(2, 0, partition=1)]
        engine.stop()


def test_too_many_quarantined_records_fail_the_task_and_nothing_is_delivered(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b'{"id": 1}', BROKEN, BROKEN, BROKEN])
    engine = quarantining(kafka, topic, tmp_path, maxQuarantinedSplits=2)
    with pytest.raises(QuarantineError, match="3 parts of splits, more than maxQuarantinedSplits=2"):
        engine.process_all_available()
    assert (engine.rows, set_aside(tmp_path)) == ([], [])
    restart_with(engine, maxQuarantinedSplits=3)
    engine.process_all_available()
    assert (engine.rows, len(set_aside(tmp_path))) == ([delivered(1, 0)], 3)
    engine.stop()


def test_records_of_several_batches_stop_the_query_together_and_none_is_lost(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN, b'{"id": 1}', BROKEN, BROKEN, b'{"id": 4}'])
    engine = quarantining(kafka, topic, tmp_path, maxQuarantinedSplits=2, maxOffsetsPerTrigger=1)
    with pytest.raises(QuarantineError, match="3 splits cannot be read and are quarantined"):
        engine.process_all_available()
    restart_with(engine, maxQuarantinedSplits=3)
    engine.process_all_available()
    assert engine.rows == [delivered(1, 1), delivered(4, 4)]
    assert set_aside(tmp_path) == [f"{topic}/0@{offset}" for offset in (0, 2, 3)]
    engine.stop()


def test_a_query_that_was_stopped_by_a_record_continues_with_quarantine(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [b'{"id": 1}', BROKEN, b'{"id": 2}'])
    engine = quarantining(kafka, topic, tmp_path, onRecordError="fail")
    with pytest.raises(SplitReadError, match="onRecordError=quarantine"):
        engine.process_all_available()
    restart_with(engine, onRecordError="quarantine")
    engine.process_all_available()
    kafka.produce(topic, [b'{"id": 3}'])
    engine.process_all_available()
    assert engine.rows == [delivered(1, 0), delivered(2, 2), delivered(3, 3)]
    assert set_aside(tmp_path) == [f"{topic}/0@1"]
    engine.stop()


def test_a_record_that_is_read_again_after_an_edit_of_the_position_is_listed_once(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN, b'{"id": 1}'])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    edits.submit(
        edits.plan(
            "set-position", state=str(tmp_path), why="test", splits=[f"{topic}/0"], position={"next": 0}
        )
    )
    engine.restart()
    engine.process_all_available()
    assert engine.rows == [delivered(1, 1), delivered(1, 1)]
    assert len(set_aside(tmp_path)) == 1
    told = engine.holder.report()
    assert told is not None
    assert told["quarantinedSplits"] == 1
    engine.stop()


def test_large_records_are_written_once_and_survive_a_restart(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    values = [b"%d" % number * 300_000 for number in range(1, 4)]
    kafka.produce(topic, values)
    engine = quarantining(kafka, topic, tmp_path, maxOffsetsPerTrigger=1, retainedCheckpoints=1000)
    engine.process_all_available()
    kafka.produce(topic, [b'{"id": 1}', b'{"id": 2}'])
    engine.restart()
    engine.process_all_available()
    assert max(file.stat().st_size for file in tmp_path.glob("*/checkpoints/*")) < 10_000
    assert len(list(tmp_path.glob("*/segments/*.quarantine.*"))) == 3
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(found) == [(value.decode(), number) for number, value in enumerate(values)]
    engine.stop()


def test_a_retry_adds_only_as_many_records_to_a_batch_as_can_be_sent_to_tasks(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.coordination.batch.MOST_CARRIED_BYTES", 70_000)
    topic = kafka.topic()
    kafka.produce(topic, [b"%d" % number * 20_000 for number in range(5)])
    engine = quarantining(kafka, topic, tmp_path)
    engine.process_all_available()
    before = len(engine.batches)
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(offset for _, offset in found) == [0, 1, 2, 3, 4]
    assert [len(batch.rows) for batch in engine.batches[before:]] == [2, 2, 1]
    documents = tmp_path.glob("*/checkpoints/*")
    assert max(file.stat().st_size for file in documents) < 10_000, "what waits is in segments"
    engine.stop()


def test_a_task_quarantines_a_limited_number_of_bytes(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.executor.parts_set_aside.MOST_BYTES", 30_000)
    topic = kafka.topic()
    kafka.produce(topic, [b"a" * 20_000, b"b" * 20_000])
    engine = quarantining(kafka, topic, tmp_path)
    with pytest.raises(QuarantineError, match="bytes, more than 30000"):
        engine.process_all_available()
    assert set_aside(tmp_path) == []


def test_a_fork_has_the_quarantined_records(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic()
    values = [b"x" * 20_000, b"small"]
    kafka.produce(topic, values)
    engine = quarantining(kafka, topic, tmp_path / "first")
    engine.process_all_available()
    directory = saved(engine, tmp_path / "checkpoint")
    kafka.produce(topic, [b'{"id": 1}'])
    fork = quarantining(kafka, topic, tmp_path / "fork", savepoint=directory)
    fork.process_all_available()
    found = retry(fork, schema=TEXTS, valueFormat="string")
    assert sorted(found, key=lambda row: row[1]) == [(value.decode(), n) for n, value in enumerate(values)]
    assert len(set_aside(tmp_path / "first")) == 2
    fork.stop()


def test_a_batch_read_names_the_record_and_quarantines_nothing(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [BROKEN])
    with pytest.raises(SplitReadError, match=f"{topic}/0 at offset 0 cannot be decoded"):
        batch_read(kafka, topic, schema=SCHEMA, valueFormat="json", onRecordError="quarantine")


def test_quarantine_needs_a_state_location(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    with pytest.raises(StateLocationError, match="stateLocation is not set"):
        stream(kafka, topic, valueFormat="json", schema=SCHEMA, onRecordError="quarantine", inline_state=True)


def test_with_null_a_record_that_does_not_decode_keeps_its_other_columns(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [Record(key=b"k", value=BROKEN, timestamp_ms=1000)])
    columns = [pa.field("key", pa.binary()), pa.field("topic", pa.string()), *SCHEMA]
    engine = stream(kafka, topic, valueFormat="json", schema=pa.schema(columns), onRecordError="null")
    engine.process_all_available()
    assert engine.rows == [(b"k", topic, None, 0, 0)]
    engine.stop()
