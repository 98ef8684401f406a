"""Records that cannot be decoded are set aside with their bytes, and can be read again after a fix."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import edits
from flip27_source.cli.main import main
from flip27_source.errors import AttemptError, QuarantineError, SchemaError, SplitReadError
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.snapshots.locations import find_lineages
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.kafka.reading import continued, read, stream
from tests.enumerators.kafka.test_batches import batch_read
from tests.kafka_server import KafkaBroker, Record
from tests.readers.kafka.decoding.test_values import avro
from tests.schema_registry_server import SchemaRegistryServer, framed, schema_registry
from tests.snapshots.spark_logs import savepoint_of, view_rows

ORDER = pa.struct([("id", pa.int64())])
SCHEMA = pa.schema(
    [pa.field("value", ORDER), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)
TEXTS = pa.schema([pa.field("value", pa.string()), pa.field("offset", pa.int64())])
DEATHS = Step.OFFSET_LOGGED, Step.REPORT_WRITE, Step.REPORT_WRITTEN, Step.SINK_WRITTEN, Step.COMMIT_LOGGED
BROKEN = b'{"id": oh no}'


class Queries:
    """Queries of JSON that set aside what cannot be decoded."""

    def __init__(self, kafka: KafkaBroker, folder: Path) -> None:
        self.kafka = kafka
        self.folder = folder
        self.engines: list[MicroBatchEngine] = []

    def started(self, topic: str, state: str = "", *, reads: bool = True, **more: Any) -> MicroBatchEngine:
        """Start a query, and let it read everything available."""
        given = {"valueFormat": "json", "schema": SCHEMA, "onRecordError": "quarantine", **more}
        self.engines.append(stream(self.kafka, topic, stateLocation=self.folder / state, **given))
        if reads:
            self.engines[-1].process_all_available()
        return self.engines[-1]

    def lines(self, state: str = "") -> list[dict[str, Any]]:
        """The rows of the view ``quarantine``."""
        return view_rows("quarantine", find_lineages(str(self.folder / state), {}))

    def quarantined(self, state: str = "") -> list[str]:
        """The ids of the records in the view."""
        return [line["split_id"] for line in self.lines(state)]


@pytest.fixture
def queries(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Queries]:
    queries = Queries(kafka, tmp_path)
    yield queries
    for engine in queries.engines:
        engine.stop()


def delivered(number: int, offset: int, partition: int = 0) -> tuple[Any, ...]:
    """A delivered row."""
    return {"id": number}, partition, offset


def retry(engine: MicroBatchEngine, *split_ids: str, **options: Any) -> list[tuple[Any, ...]]:
    """Retry records of the quarantine; return the rows that the query then delivers."""
    state = engine.source.options["stateLocation"]
    chosen: dict[str, Any] = {"splits": split_ids} if split_ids else {"glob": "*"}
    edits.submit(edits.plan("quarantine retry", state=state, why="fixed", **chosen))
    before = len(engine.rows)
    continued_with(engine, **options)
    return engine.rows[before:]


def continued_with(engine: MicroBatchEngine, **options: Any) -> None:
    """Restart the query with other options, and let it read everything available."""
    restart_with(engine, **options)
    engine.process_all_available()


def restart_with(engine: MicroBatchEngine, *, schema: pa.Schema | None = None, **options: Any) -> None:
    """Restart the query with other options."""
    given = engine.given.with_options(**{name: str(value) for name, value in options.items()})
    engine.given = given if schema is None else replace(given, schema=schema)
    engine.source = engine.given.resolve()
    engine.restart()


def test_the_other_records_of_a_batch_with_a_quarantined_record_are_delivered(queries: Queries) -> None:
    topic = queries.kafka.topic(2)
    queries.kafka.produce(topic, [b'{"id": 1}', BROKEN, None, b'{"id": 2}'])
    queries.kafka.produce(topic, [b"", b'{"id": 3}'], partition=1)
    engine = queries.started(topic)
    assert sorted(engine.rows, key=lambda found: found[1:]) == [
        delivered(1, 0), (None, 0, 2), delivered(2, 3), delivered(3, 1, partition=1),
    ]  # fmt: skip


def test_the_state_has_the_record_with_its_position_bytes_time_and_error(
    queries: Queries, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = queries.kafka.topic(2)
    record = Record(key=b"\xffk", value=BROKEN, timestamp_ms=86_400_000)
    queries.kafka.produce(topic, [b'{"id": 1}'])
    queries.kafka.produce(topic, [b'{"id": 2}', record], partition=1)
    engine = queries.started(topic)
    (line,) = queries.lines()
    place = (line["split_id"], line["topic"], line["partition"], line["offset"])
    assert place == (f"{topic}/1@1", topic, 1, 1)
    assert (line["key"], line["value"]) == (b"\xffk", BROKEN)
    assert line["timestamp"] == dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    assert line["error"].startswith(f"the value of the record {topic}/1 at offset 1 cannot be decoded")
    assert main(["state", "splits", str(queries.folder), "--status", "quarantined", "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert printed["split_id"] == f"{topic}/1@1"
    assert engine.holder.report()["quarantinedSplits"] == 1


@pytest.mark.parametrize("unit_per_s", [10**6, 10**9])
def test_a_record_with_a_time_in_a_smaller_unit_is_quarantined_and_retried(
    queries: Queries, unit_per_s: int
) -> None:
    topic = queries.kafka.filled_topic([Record(value=BROKEN, timestamp_ms=1_760_000_000 * unit_per_s)])
    engine = queries.started(topic)
    (line,) = queries.lines()
    assert (line["value"], line["timestamp"]) == (BROKEN, None)
    texts = SCHEMA.set(0, pa.field("value", pa.string()))
    assert retry(engine, schema=texts, valueFormat="string") == [(BROKEN.decode(), 0, 0)]


def test_a_record_is_delivered_with_all_its_columns_after_the_schema_is_fixed(queries: Queries) -> None:
    topic = queries.kafka.topic()
    record = Record(key=b"k", value=b"seven", timestamp_ms=1000, headers=[("h", b"1")])
    queries.kafka.produce(topic, [record, b'{"id": 8}'])
    columns = [pa.field("key", pa.binary()), pa.field("timestamp", pa.timestamp("us", "UTC")), *SCHEMA]
    headers = record_schema(include_headers=True).field("headers")
    schema = pa.schema([*columns, headers])
    engine = queries.started(topic, includeHeaders="true", schema=schema)
    assert [found[4] for found in engine.rows] == [1]
    texts = schema.set(2, pa.field("value", pa.string()))
    (found,) = retry(engine, f"{topic}/0@0", schema=texts, valueFormat="string")
    time = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert found == (b"k", time, "seven", 0, 0, [{"key": "h", "value": b"1"}])
    assert queries.quarantined() == []


def test_a_record_is_delivered_after_the_file_with_the_columns_is_corrected(
    queries: Queries, tmp_path: Path
) -> None:
    file = tmp_path / "columns.ddl"
    file.write_text("id BIGINT")
    topic = queries.kafka.filled_topic([b'{"id": "x1", "more": "m"}'])
    engine = queries.started(topic, "state", schema=None, valueSchemaFile=file)
    assert queries.quarantined("state") == [f"{topic}/0@0"]
    file.write_text("id STRING, more STRING")
    edits.submit(edits.plan("quarantine retry", state=str(queries.folder / "state"), why="fixed", glob="*"))
    restart_with(engine)
    engine.process_all_available()
    assert [row[1] for row in engine.rows] == [{"id": "x1", "more": "m"}]
    assert queries.quarantined("state") == []


NOT_NULL = [
    pytest.param({"value": b"{}"}, {}, "key", id="a record without key"),
    pytest.param({"value": None, "key": b"k"}, {}, "value", id="a tombstone"),
    pytest.param({"value": None, "key": b"k"}, {"valueFormat": None}, "value", id="a binary tombstone"),
    pytest.param(
        {"value": BROKEN, "key": b"k"}, {"onRecordError": "null"}, "value", id="null for what is broken"
    ),
]


@pytest.mark.parametrize(("record", "given", "column"), NOT_NULL)
def test_a_null_in_a_column_that_is_not_null_is_an_error_that_names_column_and_record(
    record: dict[str, Any], given: dict[str, Any], column: str, queries: Queries
) -> None:
    kind = ORDER if "valueFormat" not in given else pa.binary()
    columns = [pa.field("key", pa.binary(), nullable=False), pa.field("value", kind, nullable=False)]
    topic = queries.kafka.filled_topic([Record(key=b"k", value=b'{"id": 1}'), Record(**record)])
    found = f"{column} is NOT NULL .*{topic}/0 at offset 1|{topic}/0 at offset 1 .*{column} is NOT NULL"
    with pytest.raises((SchemaError, SplitReadError), match=found):
        queries.started(topic, schema=pa.schema(columns), **{"onRecordError": "fail", **given})


def test_a_tombstone_is_quarantined_if_the_column_value_is_not_null(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([b'{"id": 1}', None])
    schema = pa.schema([pa.field("value", ORDER, nullable=False)])
    assert queries.started(topic, schema=schema).rows == [({"id": 1},)]
    assert queries.quarantined() == [f"{topic}/0@1"]


def test_headers_that_are_added_at_a_restart_are_delivered_with_a_recorded_schema(
    queries: Queries, registry: SchemaRegistryServer
) -> None:
    topic = queries.kafka.topic()
    number = registry.add(f"{topic}-value", AVRO)
    engine = queries.started(topic, schema=None, valueFormat="avro", schemaRegistryUrl=registry.url)
    value = framed(number, avro({"id": 1}, AVRO))
    queries.kafka.produce(topic, [Record(value=value, headers=[("h", b"1")])])
    restart_with(engine, includeHeaders="true")
    engine.process_all_available()
    assert engine.rows[-1][-1] == [{"key": "h", "value": b"1"}]


def test_a_record_is_delivered_after_its_schema_is_registered(
    queries: Queries, registry: SchemaRegistryServer
) -> None:
    topic = queries.kafka.topic()
    queries.kafka.produce(topic, [framed(1, avro({"id": 7}, AVRO))])
    engine = queries.started(topic, valueFormat="avro", schemaRegistryUrl=registry.url)
    assert engine.rows == []
    registry.add(f"{topic}-value", AVRO)
    assert retry(engine) == [delivered(7, 0)]


def test_a_record_is_read_from_the_state_if_the_broker_no_longer_has_it(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([b"text", b'{"id": 1}'])
    engine = queries.started(topic)
    queries.kafka.delete_records(topic, {0: 1})
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert found == [("text", 0)]


def test_a_record_that_still_does_not_decode_stays_in_the_quarantine(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN, b'{"id": "x"}'])
    engine = queries.started(topic)
    assert retry(engine, f"{topic}/0@1") == []
    assert queries.quarantined() == [f"{topic}/0@0", f"{topic}/0@1"]
    texts = pa.schema([pa.field("value", pa.struct([("id", pa.string())])), pa.field("offset", pa.int64())])
    assert retry(engine, schema=texts) == [({"id": "x"}, 1)]
    assert queries.quarantined() == [f"{topic}/0@0"]


def test_dropped_records_are_removed_from_the_quarantine(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN, BROKEN])
    engine = queries.started(topic)
    words = ("--state", str(queries.folder), "--split", f"{topic}/0@0", "--why", "test", "--execute")
    assert main(["edit", "quarantine", "drop", *words]) == 0
    continued(engine)
    assert queries.quarantined() == [f"{topic}/0@1"]


def records_of_two_topics(queries: Queries) -> tuple[MicroBatchEngine, str]:
    """A query with two records in its quarantine, of a topic and of the one that replaced it; their id."""
    topic = queries.kafka.filled_topic([b"older", b'{"id": 1}'])
    engine = queries.started(topic, onDataLoss="report")
    queries.kafka.recreate_topic(topic, [b"newer"])
    engine.now_ms = 60_000
    engine.process_all_available()
    engine.stop()
    assert queries.quarantined() == [f"{topic}/0@0"] * 2
    return engine, f"{topic}/0@0"


def test_a_dry_run_shows_each_of_the_records_with_one_id_that_a_drop_removes(queries: Queries) -> None:
    engine, record = records_of_two_topics(queries)
    plan = edits.plan("quarantine drop", state=str(queries.folder), why="test", splits=[record])
    assert [change.then for change in plan.changes] == ["is never read"] * 2
    assert ["older" in change.now for change in plan.changes] == [True, False]
    edits.submit(plan)
    continued(engine)
    assert queries.quarantined() == []


def test_a_dry_run_by_time_shows_the_later_record_with_the_id_too(queries: Queries) -> None:
    _, record = records_of_two_topics(queries)
    before = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    plan = edits.plan("quarantine drop", state=str(queries.folder), why="test", glob="*", until=before)
    assert [change.split_id for change in plan.changes] == [record, record]


def test_of_records_with_one_id_a_retry_reads_the_first_as_its_dry_run_says(queries: Queries) -> None:
    engine, record = records_of_two_topics(queries)
    plan = edits.plan("quarantine retry", state=str(queries.folder), why="test", splits=[record])
    first, other = plan.changes
    assert (first.then, "older" in first.now) == ("is tried again", True)
    assert (other.then.partition(":")[0], "newer" in other.now) == ("is left alone", True)
    assert retry(engine, record, schema=TEXTS, valueFormat="string") == [("older", 0)]
    assert retry(engine, record) == [("newer", 0)]
    assert queries.quarantined() == []


@pytest.mark.parametrize("limits", [{"maxOffsetsPerTrigger": 2}, {"minPartitions": 6}])
def test_records_are_retried_within_the_limits_of_batches(queries: Queries, limits: dict[str, int]) -> None:
    topic = queries.kafka.filled_topic([b"%d" % number for number in range(5)])
    engine = queries.started(topic, **limits)
    assert engine.rows == []
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(found) == [(str(number), number) for number in range(5)]
    assert max(len(batch.rows) for batch in engine.batches) <= limits.get("maxOffsetsPerTrigger", 5)


@pytest.mark.parametrize("step", DEATHS, ids=lambda step: step.name)
def test_a_record_is_delivered_or_quarantined_once_whichever_process_is_killed(
    queries: Queries, step: Step
) -> None:
    topic = queries.kafka.filled_topic([b"0", b"1", b'{"id": 2}', b"3", b'{"id": 4}'])
    engine = queries.started(topic, reads=False, maxOffsetsPerTrigger=3)
    engine.crash_at(step, batch_id=1)
    engine.process_all_available(through_crashes=True)
    assert sorted(engine.rows, key=lambda found: found[2]) == [delivered(2, 2), delivered(4, 4)]
    assert sorted(queries.quarantined()) == [f"{topic}/0@{offset}" for offset in (0, 1, 3)]
    edits.submit(edits.plan("quarantine retry", state=str(queries.folder), why="fixed", glob="*"))
    restart_with(engine, schema=TEXTS, valueFormat="string")
    engine.crash_at(step)
    engine.process_all_available(through_crashes=True)
    assert sorted(found[-1] for found in engine.rows) == [0, 1, 2, 3, 4]
    assert queries.quarantined() == []


def test_a_record_is_in_the_state_once_its_batch_is_complete(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN])
    engine = queries.started(topic, reads=False)
    engine.crash_at(Step.ROWS_READ)
    with pytest.raises(Crashed):
        engine.process_all_available()
    assert queries.quarantined() == []
    continued(engine)
    assert queries.quarantined() == [f"{topic}/0@0"]


AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def planned(queries: Queries, registry: SchemaRegistryServer) -> MicroBatchEngine:
    """A query whose only batch is planned, with two records, of schemas 1 and 2; schema 1 is registered."""
    registry.add("a", AVRO)
    topic = queries.kafka.topic(2)
    for number in (1, 2):
        queries.kafka.produce(topic, [framed(number, avro({"id": number}, AVRO))], partition=number - 1)
    more = {"valueFormat": "avro", "schemaRegistryUrl": registry.url, "parallelism": 1}
    engine = queries.started(topic, reads=False, **more)
    assert engine.trigger()
    return engine


def test_a_repeated_task_quarantines_the_same_records_even_if_their_schema_is_known_by_then(
    planned: MicroBatchEngine, registry: SchemaRegistryServer
) -> None:
    (task,) = planned.partitions()
    assert list(planned.attempt(task)) == [delivered(1, 0)]
    registry.add("b", AVRO)
    assert list(planned.attempt(task, number=1)) == [delivered(1, 0)]
    planned.process_all_available()
    assert planned.rows == [delivered(1, 0)]
    assert retry(planned) == [delivered(2, 0, partition=1)]


def test_a_slower_task_that_can_decode_records_that_the_first_quarantined_fails(
    planned: MicroBatchEngine, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaReader, "most_rows", 1)
    (task,) = planned.partitions()
    slower = planned.attempt(task, number=1)
    assert next(slower) == delivered(1, 0)
    assert list(planned.attempt(task)) == [delivered(1, 0)]
    registry.add("b", AVRO)
    with pytest.raises(AttemptError):
        list(slower)


def test_a_repeated_task_that_cannot_decode_records_that_the_first_delivered_fails(
    planned: MicroBatchEngine, registry: SchemaRegistryServer
) -> None:
    registry.add("b", AVRO)
    with schema_registry() as emptier:
        emptier.add("a", AVRO)
        (task,) = planned.partitions()
        assert list(planned.attempt(task)) == [delivered(1, 0), delivered(2, 0, partition=1)]
        restart_with(planned, schemaRegistryUrl=emptier.url)
        (task,) = planned.partitions()
        with pytest.raises(AttemptError, match="has delivered"):
            list(planned.attempt(task))
        continued_with(planned, schemaRegistryUrl=registry.url)
        assert planned.rows == [delivered(1, 0), delivered(2, 0, partition=1)]


def test_too_many_quarantined_records_fail_the_task_and_nothing_is_delivered(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([b'{"id": 1}', BROKEN, BROKEN, BROKEN])
    engine = queries.started(topic, reads=False, maxQuarantinedSplits=2)
    with pytest.raises(QuarantineError, match="3 parts of splits, more than maxQuarantinedSplits=2"):
        engine.process_all_available()
    assert (engine.rows, queries.quarantined()) == ([], [])
    continued_with(engine, maxQuarantinedSplits=3)
    assert (engine.rows, len(queries.quarantined())) == ([delivered(1, 0)], 3)


def test_records_of_several_batches_stop_the_query_together_and_none_is_lost(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN, b'{"id": 1}', BROKEN, BROKEN, b'{"id": 4}'])
    engine = queries.started(topic, reads=False, maxQuarantinedSplits=2, maxOffsetsPerTrigger=1)
    with pytest.raises(QuarantineError, match="3 splits cannot be read and are quarantined"):
        engine.process_all_available()
    continued_with(engine, maxQuarantinedSplits=3)
    assert engine.rows == [delivered(1, 1), delivered(4, 4)]
    assert queries.quarantined() == [f"{topic}/0@{offset}" for offset in (0, 2, 3)]


def test_a_query_that_was_stopped_by_a_record_continues_with_quarantine(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([b'{"id": 1}', BROKEN, b'{"id": 2}'])
    engine = queries.started(topic, reads=False, onRecordError="fail")
    with pytest.raises(SplitReadError, match="onRecordError=quarantine"):
        engine.process_all_available()
    continued_with(engine, onRecordError="quarantine")
    queries.kafka.produce(topic, [b'{"id": 3}'])
    engine.process_all_available()
    assert engine.rows == [delivered(1, 0), delivered(2, 2), delivered(3, 3)]
    assert queries.quarantined() == [f"{topic}/0@1"]


def test_a_record_that_is_read_again_after_an_edit_of_the_position_is_listed_once(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN, b'{"id": 1}'])
    engine = queries.started(topic)
    edits.submit(
        edits.plan(
            "set-position", state=str(queries.folder), why="test", splits=[f"{topic}/0"], position={"next": 0}
        )
    )
    continued(engine)
    assert engine.rows == [delivered(1, 1), delivered(1, 1)]
    assert len(queries.quarantined()) == 1
    assert engine.holder.report()["quarantinedSplits"] == 1


def test_large_records_are_written_once_and_survive_a_restart(queries: Queries) -> None:
    topic = queries.kafka.topic()
    values = [b"%d" % number * 300_000 for number in range(1, 4)]
    queries.kafka.produce(topic, values)
    engine = queries.started(topic, maxOffsetsPerTrigger=1, retainedCheckpoints=1000)
    queries.kafka.produce(topic, [b'{"id": 1}', b'{"id": 2}'])
    continued(engine)
    assert max(file.stat().st_size for file in queries.folder.glob("*/checkpoints/*")) < 10_000
    assert len(list(queries.folder.glob("*/segments/*.quarantine.*"))) == 3
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(found) == [(value.decode(), number) for number, value in enumerate(values)]


def test_a_retry_adds_only_as_many_records_to_a_batch_as_can_be_sent_to_tasks(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.coordination.batch_limits.MOST_CARRIED_BYTES", 70_000)
    topic = queries.kafka.filled_topic([b"%d" % number * 20_000 for number in range(5)])
    engine = queries.started(topic)
    before = len(engine.batches)
    found = retry(engine, schema=TEXTS, valueFormat="string")
    assert sorted(offset for _, offset in found) == [0, 1, 2, 3, 4]
    assert [len(batch.rows) for batch in engine.batches[before:]] == [2, 2, 1]
    documents = queries.folder.glob("*/checkpoints/*")
    assert max(file.stat().st_size for file in documents) < 10_000, "what waits is in segments"


def test_a_task_quarantines_a_limited_number_of_bytes(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.executor.events_and_losses.MOST_BYTES", 30_000)
    topic = queries.kafka.filled_topic([b"a" * 20_000, b"b" * 20_000])
    engine = queries.started(topic, reads=False)
    with pytest.raises(QuarantineError, match="more than 30000 bytes"):
        engine.process_all_available()
    assert queries.quarantined() == []


def test_a_fork_has_the_quarantined_records(queries: Queries) -> None:
    topic = queries.kafka.topic()
    values = [b"x" * 20_000, b"small"]
    queries.kafka.produce(topic, values)
    engine = queries.started(topic, "first")
    directory = savepoint_of(engine, queries.folder / "checkpoint")
    queries.kafka.produce(topic, [b'{"id": 1}'])
    fork = queries.started(topic, "fork", savepoint=directory)
    found = retry(fork, schema=TEXTS, valueFormat="string")
    assert sorted(found, key=lambda row: row[1]) == [(value.decode(), n) for n, value in enumerate(values)]
    assert len(queries.quarantined("first")) == 2


def test_a_batch_read_names_the_record_and_quarantines_nothing(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([BROKEN])
    with pytest.raises(SplitReadError, match=f"{topic}/0 at offset 0 cannot be decoded"):
        batch_read(queries.kafka, topic, schema=SCHEMA, valueFormat="json", onRecordError="quarantine")


def test_with_null_a_record_that_does_not_decode_keeps_its_other_columns(queries: Queries) -> None:
    topic = queries.kafka.filled_topic([Record(key=b"k", value=BROKEN, timestamp_ms=1000)])
    columns = [pa.field("key", pa.binary()), pa.field("topic", pa.string()), *SCHEMA]
    engine = read(queries.kafka, topic, valueFormat="json", schema=pa.schema(columns), onRecordError="null")
    assert engine.rows == [(b"k", topic, None, 0, 0)]
    engine.stop()
