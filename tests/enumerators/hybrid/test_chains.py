"""Chains of sources: each is read to its end, and the next one starts where it has ended."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_source import Option, ReturnSplit, hybrid
from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.enumerators.sequence import SequenceEnumerator, SequenceSplit
from flip27_source.errors import (
    DataLossError,
    DiscoveryError,
    EditError,
    Flip27Error,
    IncompatibleStateError,
    OptionError,
    SchemaError,
)
from flip27_source.options import integer, optional
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.sequence import SequenceReader
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine, SourceUnderTest, check_source
from tests.batch_read import planned_read
from tests.edits.edited import Edited
from tests.enumerators.kafka.reading import options_of
from tests.kafka_server import KafkaBroker, Record
from tests.postgres_server import PostgresServer
from tests.simulator.pages_life import StreamsEnumerator, StreamsReader
from tests.timed_tracks import ROADS, Road, TrackReader, Tracks
from tests.toy_sources import LINES, NumbersAsLines

IDS = pa.schema([("id", pa.int64())])
RECORDS = record_schema(include_headers=False)
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def sequence(start: Any, end: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    return "sequence", {"start": start, "end": end, **more}


def json_files(folder: Path, *ids: int, **more: Any) -> tuple[str, dict[str, Any]]:
    """A source of one file for each id; the files are read in the order of the ids."""
    land(folder, *ids)
    return "files", {"path": folder, "reader": "json", **more}


def land(folder: Path, *ids: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in ids:
        path = folder / f"{number}.json"
        path.write_text(json.dumps({"id": number}))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def read(chain: Mapping[str, str], **given: Any) -> list[int]:
    engine = MicroBatchEngine(chain, schema=IDS, **given)
    engine.process_all_available()
    return [row[0] for row in engine.rows]


def test_each_source_is_read_to_its_end_before_the_next_one_starts(tmp_path: Path) -> None:
    chain = hybrid(
        sequence(0, 3), json_files(tmp_path, 50, 51), sequence(100, 102), maxFilesPerTrigger=1, parallelism=1
    )
    engine = MicroBatchEngine(chain, schema=IDS)
    batches = [[row[0] for row in batch.rows] for batch in engine.process_all_available()]
    assert batches == [[0, 1, 2], [50], [51], [100, 101]]


def test_the_switch_is_where_the_source_before_has_ended() -> None:
    assert read(hybrid(sequence(0, 3), sequence("{switch}", 5))) == [0, 1, 2, 3, 4]


def test_the_switch_stays_where_it_was_when_the_query_is_restarted() -> None:
    engine = MicroBatchEngine(hybrid(sequence(0, 3), sequence("{switch}", 7, rowsPerSplit=1)), schema=IDS)
    engine.run_batch()
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    assert [row[0] for row in engine.rows] == [0, 1, 2, 3, 4, 5, 6]


def test_a_source_without_data_is_passed_over(tmp_path: Path) -> None:
    assert read(hybrid(json_files(tmp_path / "none"), sequence(0, 2))) == [0, 1]


def test_a_chain_of_many_sources_ends_with_the_last_one_and_a_bounded_run_ends() -> None:
    parts = [sequence(0, 1), *(sequence("{switch}", end) for end in range(2, 31))]
    assert read(hybrid(*parts), available_now=True) == list(range(30))


def test_files_that_come_after_the_switch_are_not_read(tmp_path: Path) -> None:
    engine = MicroBatchEngine(hybrid(json_files(tmp_path, 1), sequence(5, 8, rowsPerSplit=1)), schema=IDS)
    engine.run_batch()
    engine.run_batch()
    land(tmp_path, 2)
    engine.restart()
    engine.process_all_available()
    assert sorted(row[0] for row in engine.rows) == [1, 5, 6, 7]


def test_the_first_batch_of_each_source_is_small_if_batches_size_themselves(tmp_path: Path) -> None:
    """Their units differ: of files, bytes are known, and of the records of a log, rows."""
    ROADS["sized"] = Road(times={"a": [0] * 150_000})
    log = Tracks, {"road": "sized", "reader": f"{TrackReader.__module__}:TrackReader"}
    sizes = []
    given = {"maxFilesPerTrigger": 1, "targetBatchDuration": "30s"}
    schema = pa.schema([("id", pa.string()), ("number", pa.int64())])
    engine = MicroBatchEngine(hybrid(json_files(tmp_path / "in", 0, 1), log, **given), schema=schema)
    while batch := engine.run_batch():
        sizes.append(len(batch.rows))
        engine.now_ms += 1000
    del ROADS["sized"]
    assert sizes == [1, 1, 100_000, 50_000]


@pytest.mark.parametrize(
    ("operation", "what"), [("rewind", {"to_checkpoint": 1}), ("replay", {"glob": "1:*"})]
)
def test_files_that_an_edit_reads_again_after_the_switch_are_not_one_batch_if_batches_size_themselves(
    tmp_path: Path, operation: str, what: dict[str, Any]
) -> None:
    """What was measured by the rows of a log says nothing of them."""
    ROADS["again"] = Road(times={"a": [0] * 150_000})
    log = Tracks, {"road": "again", "reader": f"{TrackReader.__module__}:TrackReader"}
    chain = hybrid(json_files(tmp_path / "in", *range(250)), log, targetBatchDuration="30s")
    query = Edited(tmp_path, chain, schema=pa.schema([("id", pa.string()), ("number", pa.int64())]))

    def sizes() -> Iterator[int]:
        while (batch := query.batch()) is not None:
            yield len(batch)
            query.engine.now_ms += 1000

    assert list(sizes())[-2:] == [100_000, 50_000]
    query.ask(operation, **what)
    query.engine.now_ms += 10_000
    assert next(sizes()) == 100
    del ROADS["again"]


def test_a_chain_keeps_the_laws_of_sources() -> None:
    middle = sequence("{switch}", 12, numSplits=2, rowsPerSplit=2)
    check_source(hybrid(sequence(0, 7, rowsPerSplit=2), middle, sequence("{switch}", 15)))


def test_a_chain_with_files_keeps_the_laws_of_sources(tmp_path: Path) -> None:
    chain = hybrid(
        sequence(0, 5, rowsPerSplit=2), json_files(tmp_path, 20, 21), sequence(30, 34, rowsPerSplit=2)
    )
    check_source(SourceUnderTest(options=chain, schema=IDS), fast=True)


def test_files_are_archived_after_the_switch(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    files = json_files(tmp_path / "in", 1, cleanSource="archive", sourceArchiveDir=archive)
    engine = MicroBatchEngine(hybrid(files, sequence(5, 6)), schema=IDS)
    engine.process_all_available()
    engine.restart()
    engine.run_batch()
    assert [path.name for path in archive.rglob("*.json")] == ["1.json"]


def test_a_rewind_crosses_the_switch(tmp_path: Path) -> None:
    chain = hybrid(json_files(tmp_path / "in", 1, 2, 3), sequence(7, 9), maxFilesPerTrigger=1)
    query = Edited(tmp_path, chain, schema=IDS)
    assert query.batches() == [[1], [2], [3], [7, 8]]
    query.ask("rewind", to_checkpoint=2)
    assert query.batches() == [[3], [7, 8]]


def test_splits_are_skipped_by_the_names_that_the_chain_gives_them(tmp_path: Path) -> None:
    chain = hybrid(json_files(tmp_path / "in", 1, 2, 3), sequence(7, 9), maxFilesPerTrigger=1)
    query = Edited(tmp_path, chain, schema=IDS)
    assert query.batch() == [1]
    query.ask("skip", splits=[f"1:{tmp_path}/in/3.json"])
    assert query.batches() == [[2], [7, 8]]


def test_a_position_is_set_by_the_field_of_the_source(tmp_path: Path) -> None:
    chain = hybrid(sequence(0, 2), sequence(10, 14, rowsPerSplit=1))
    query = Edited(tmp_path, chain, schema=IDS)
    assert [query.batch(), query.batch()] == [[0, 1], [10]]
    query.ask("set-position", splits=["2:sequence-0"], position={"next": 13})
    assert query.batches() == [[13]]


def test_a_file_that_was_quarantined_before_the_switch_is_retried_after_it(tmp_path: Path) -> None:
    files = json_files(tmp_path / "in", 1, 2, mode="FAILFAST")
    (tmp_path / "in" / "2.json").write_text('{"id": 2}\n{broken')
    chain = hybrid(files, sequence(7, 9, rowsPerSplit=1), onSplitError="quarantine", maxSplitAttempts=1)
    query = Edited(tmp_path, chain, schema=IDS, max_failures=1)
    assert [query.batch(), query.batch()] == [[1], [7]]
    query.engine.restart(options={"hybrid.1.mode": "DROPMALFORMED"})
    query.ask("quarantine retry", splits=[f"1:{tmp_path}/in/2.json"])
    assert sorted(number for batch in query.batches() for number in batch) == [2, 8]


@pytest.mark.parametrize(
    ("chain", "says"),
    [
        ({"enumerator": "hybrid"}, "a chain has the parts none"),
        ({"enumerator": "hybrid", "hybrid.1.enumerator": "sequence"}, "a chain has the parts hybrid.1"),
        (
            {"enumerator": "hybrid", "hybrid.1.enumerator": "sequence", "hybrid.3.enumerator": "sequence"},
            "a chain has the parts hybrid.1, hybrid.3",
        ),
        (hybrid(sequence(0, 1), ("files", {"path": "/in"})), "option hybrid.2.reader is not set"),
        (hybrid(sequence(0, 1), ("sequenze", {})), "hybrid.2: enumerator 'sequenze' is unknown"),
        (hybrid(sequence(0, 1, ends=3), sequence(0, 1)), "option hybrid.1.ends is unknown"),
        (hybrid(sequence(0, "x"), sequence(0, 1)), "option hybrid.1.end has the value 'x'"),
        (hybrid(sequence("{switch}", 1), sequence(0, 1)), "no source is before it"),
        (hybrid(sequence(0, 1), sequence("{switch:now}", 1)), "{switch:now}, which is unknown"),
        (hybrid(sequence(0, 1), sequence("{switch:iso}", 1)), "which has no form iso"),
        (hybrid(sequence(0, 1), sequence(0, 1), path="/in"), "option path is /in"),
        (hybrid(sequence(0, 1), ("hybrid", {})), "a chain cannot be a part of a chain"),
        (hybrid(sequence(0, 1), sequence(0, 1), reader="json"), "option reader is json"),
        (
            hybrid(("files", {"path": "/in", "reader": "json"}), sequence("{switch}", 1)),
            "hybrid.1 (files) does not tell where it ends",
        ),
        (
            hybrid(sequence(0, 1), ("files", {"path": "/in", "reader": "splits"})),
            "whose rows only name files",
        ),
    ],
)
def test_what_is_wrong_with_a_chain_is_said_by_name(chain: dict[str, str], says: str) -> None:
    with pytest.raises(Flip27Error, match=re.escape(says)):
        Source.resolve(chain)


def test_the_start_of_a_source_is_fixed_once_it_has_started_and_not_before() -> None:
    chain = hybrid(sequence(0, 2), sequence(10, 12, rowsPerSplit=1), sequence(20, 22))
    engine = MicroBatchEngine(chain)
    engine.run_batch()
    engine.restart(options={"hybrid.2.start": "9"})
    engine.run_batch()
    engine.restart(options={"hybrid.2.start": "8"})
    with pytest.raises(IncompatibleStateError, match="start was '9' when"):
        engine.run_batch()
    engine.restart(options={"hybrid.2.start": "09", "hybrid.3.start": "19"})
    engine.process_all_available()
    assert sorted(row[0] for row in engine.rows) == [0, 1, 9, 10, 11, 19, 20, 21]


def test_sources_of_a_chain_have_names_of_their_own_for_what_they_create_elsewhere() -> None:
    table = ("postgres", {"host": "h", "database": "d", "user": "u", "tables": "t"})
    source = Source.resolve(hybrid(table, table, stateLocation="/state", uid="orders"))
    parts: Any = source.enumerator_type
    slots = [slot_name_of(part.source(source.options).options) for part in parts.parts]
    assert [slot.rpartition("_")[0] for slot in slots] == ["flip27_orders_1", "flip27_orders_2"]


def test_a_source_of_pages_ends_where_its_reader_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamsEnumerator, "streams", 1)
    for name, value in (("ends", {"stream-0": 2}), ("starts", {"stream-0": 0}), ("random", random.Random(1))):
        monkeypatch.setattr(StreamsReader, name, value, raising=False)
    land(tmp_path / "in", 7)
    pages = (StreamsEnumerator, {"reader": StreamsReader})
    files = ("files", {"path": tmp_path / "in", "reader": "text"})
    engine = MicroBatchEngine(hybrid(pages, files, pollInterval="1ms"), schema=LINES)
    engine.process_all_available()
    StreamsReader.ends["stream-0"] = 3
    engine.now_ms += 1000
    engine.process_all_available()
    assert [row[0] for row in engine.rows] == ["stream-0:0", "stream-0:1", '{"id": 7}']


def test_http_may_be_a_source_of_a_chain(tmp_path: Path) -> None:
    api = ("http", {"path": "http://127.0.0.1:9/orders", "pagination": "none"})
    files = ("files", {"path": tmp_path, "reader": "json"})
    assert issubclass(Source.resolve(hybrid(api, files)).reader_type, YieldsProgress)


def test_a_chain_is_not_read_in_one_batch() -> None:
    with pytest.raises(OptionError, match="cannot be read in one batch"):
        planned_read(hybrid(sequence(0, 1), sequence(0, 1)), IDS)


def test_an_event_time_is_written_as_the_option_takes_it(tmp_path: Path) -> None:
    history = parquet_records(tmp_path, 0, 1)
    chain = hybrid(history, ("files", {"path": "/in", "reader": "json", "modifiedAfter": "{switch}"}))
    Source.resolve(chain)


def parquet_records(folder: Path, *numbers: int) -> tuple[str, dict[str, Any]]:
    """Files of Kafka's records, one for each number, which is its value and its minute."""
    folder.mkdir(exist_ok=True)
    schema = RECORDS
    for number in numbers:
        record = {
            "key": None, "value": b"%d" % number, "topic": "orders", "partition": 0, "offset": number,
            "timestamp": BEGIN + dt.timedelta(minutes=number), "timestampType": 0,
        }  # fmt: skip
        pq.write_table(pa.Table.from_pylist([record], schema), folder / f"{number}.parquet")
    ordered = {"eventTimeOrder": True, "eventTimeColumn": "timestamp"}
    return "files", {"path": folder, "reader": "parquet", **ordered}


def topic_of(kafka: KafkaBroker, *numbers: int) -> tuple[str, dict[str, Any]]:
    topic = kafka.topic()
    for number in numbers:
        at = BEGIN + dt.timedelta(minutes=number)
        kafka.produce(topic, [Record(value=b"%d" % number, timestamp_ms=round(at.timestamp() * 1000))])
    given = options_of(kafka, topic, startingTimestamp="{switch}")
    return given.pop("enumerator"), given


def values(engine: MicroBatchEngine) -> list[int]:
    engine.process_all_available()
    return [int(row[1]) for row in engine.rows]


def test_kafka_goes_on_at_the_largest_event_time_of_the_files(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1, 2, 3), topic_of(kafka, 1, 2, 3, 4, 5)
    engine = MicroBatchEngine(hybrid(history, live, maxFilesPerTrigger=2))
    assert values(engine) == [0, 1, 2, 3, 3, 4, 5]


def test_kafka_goes_on_at_the_start_of_the_last_day_also_if_its_files_were_read_hour_by_hour(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    live = topic_of(kafka, 0, 60, 120, 1380)
    engine = MicroBatchEngine(hybrid(file_of_a_day(tmp_path, 0, 60), live))
    assert values(engine) == [0, 60, 0, 60, 120, 1380]


def file_of_a_day(folder: Path, *numbers: int) -> tuple[str, dict[str, Any]]:
    """One file of Kafka's records whose path has the day, read hour by hour."""
    of_day = folder / "dt=2026-01-01"
    name, given = parquet_records(of_day, *numbers)
    pq.write_table(pq.read_table(of_day, partitioning=None), of_day / "all.parquet")
    for number in numbers:
        (of_day / f"{number}.parquet").unlink()
    more = {"eventTimePattern": "dt=%Y-%m-%d", "eventTimeBucket": "1h", "recursiveFileLookup": "true"}
    return name, given | more | {"path": folder}


def test_the_next_source_goes_on_at_the_start_of_the_last_date_of_a_column_of_dates(tmp_path: Path) -> None:
    days = pa.schema([("day", pa.date32())])
    for number, name in enumerate(("archive", "live")):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "a.parquet"
        pq.write_table(pa.Table.from_pylist([{"day": BEGIN.date()}], days), path)
        noon = (BEGIN + dt.timedelta(hours=12)).timestamp()
        os.utime(path, (noon + number, noon + number))
    ordered = {"eventTimeOrder": True, "eventTimeColumn": "day"}
    archive = {"path": tmp_path / "archive", "reader": "parquet", **ordered}
    live = {"path": tmp_path / "live", "reader": "parquet", "modifiedAfter": "{switch}"}
    engine = MicroBatchEngine(hybrid(("files", archive), ("files", live)), schema=days)
    engine.process_all_available()
    assert len(engine.rows) == 2


def test_kafka_is_aligned_in_a_chain_by_the_option_of_the_chain(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1, 2, 3), topic_of(kafka, 1, 2, 3, 4, 5)
    with pytest.raises(OptionError, match=r"hybrid.2.eventTimeOrder is true, and hybrid.2 \(kafka\)"):
        Source.resolve(hybrid(history, (live[0], live[1] | {"eventTimeOrder": "true"})))
    engine = MicroBatchEngine(hybrid(history, live, maxEventTimeDrift="1 minute", maxRowsPerTrigger=2))
    assert sorted(values(engine)) == [0, 1, 2, 3, 3, 4, 5]
    shown = json.loads(engine.logs.offsets[-1])["summary"]
    assert shown["alignmentSlowest"].startswith("2:")


def test_the_overlap_is_read_from_both(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1, 2, 3), topic_of(kafka, 1, 2, 3, 4, 5)
    engine = MicroBatchEngine(hybrid(history, live, switchOverlap="2 minutes", parallelism=1))
    assert values(engine) == [0, 1, 2, 3, 1, 2, 3, 4, 5]


def test_kafka_starts_at_its_beginning_if_there_was_no_history(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path), topic_of(kafka, 1, 2)
    given = SourceUnderTest(options=hybrid(history, live), schema=RECORDS)
    assert values(MicroBatchEngine(given)) == [1, 2]


@pytest.mark.slow
def test_a_chain_of_files_and_kafka_keeps_the_laws_of_sources(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1, 2), topic_of(kafka, 2, 3, 4, 5)
    check_source(hybrid(history, live, maxRowsPerTrigger=2, maxFilesPerTrigger=2), fast=True)


def test_the_schemas_of_all_sources_are_compared_before_anything_is_read(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    history, live = parquet_records(tmp_path, 0), topic_of(kafka)
    assert (
        schema_of(Source.resolve(hybrid(history, live))).names == record_schema(include_headers=False).names
    )
    with pytest.raises(SchemaError, match="column 1 is key binary, and id int64"):
        schema_of(Source.resolve(hybrid(history, sequence(0, 1))))


def test_records_that_expired_before_the_switch_are_a_loss(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1), topic_of(kafka, 1, 2, 3, 4)
    kafka.delete_records(live[1]["subscribe"], {0: 2})
    engine = MicroBatchEngine(hybrid(history, live))
    with pytest.raises(DataLossError, match="may have been removed: it began earlier once"):
        engine.process_all_available()
    engine.restart(options={"hybrid.2.onExpiredStart": "continue"})
    assert values(engine) == [0, 1, 3, 4]


def test_a_partition_that_has_expired_up_to_the_switch_has_lost_nothing(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    history, live = parquet_records(tmp_path, 0, 2), topic_of(kafka, 0, 1, 2, 3)
    kafka.delete_records(live[1]["subscribe"], {0: 1})
    assert values(MicroBatchEngine(hybrid(history, live))) == [0, 2, 2, 3]


def test_a_partition_without_records_since_the_switch_starts_at_its_end(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    history, live = parquet_records(tmp_path, 0, 5), topic_of(kafka, 0, 1)
    engine = MicroBatchEngine(hybrid(history, live))
    assert values(engine) == [0, 5]
    kafka.produce(live[1]["subscribe"], [b"6"])
    assert values(engine) == [0, 5, 6]


def test_files_are_read_only_to_where_kafka_begins(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, *range(6)), topic_of(kafka, 0, 1, 2, 3, 4, 5, 6)
    kafka.delete_records(live[1]["subscribe"], {0: 3})
    chain = hybrid((history[0], {**history[1], "readUntil": "next"}), live, maxFilesPerTrigger=1)
    engine = MicroBatchEngine(chain)
    assert values(engine) == [0, 1, 2, 3, 4, 5, 6]
    engine.restart()
    assert values(engine) == [0, 1, 2, 3, 4, 5, 6]


def test_an_overlap_reads_more_of_the_files(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, *range(6)), topic_of(kafka, 2, 3, 4, 5, 6)
    chain = hybrid(
        (history[0], {**history[1], "readUntil": "next"}),
        live,
        maxFilesPerTrigger=1,
        switchOverlap="1 minute",
    )
    assert values(MicroBatchEngine(chain)) == [0, 1, 2, 3, 3, 4, 5, 6]


def test_history_that_ends_before_kafka_begins_is_read_to_its_end(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 1), topic_of(kafka, 1, 2, 3, 4)
    kafka.delete_records(live[1]["subscribe"], {0: 2})
    chain = hybrid((history[0], {**history[1], "readUntil": "next"}), live)
    with pytest.raises(DataLossError, match="may have been removed"):
        MicroBatchEngine(chain).process_all_available()


def test_hours_of_a_day_that_may_be_empty_do_not_hide_that_history_ends_before_kafka_begins(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    (name, history), live = file_of_a_day(tmp_path, 0, 60), topic_of(kafka, 0, 60, 120, 600, 610)
    kafka.delete_records(live[1]["subscribe"], {0: 3})
    chain = hybrid((name, {**history, "readUntil": "next"}), live)
    with pytest.raises(DataLossError, match="may have been removed"):
        MicroBatchEngine(chain).process_all_available()


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({}, {"startingTimestamp": "{switch}"}, "its eventTimeOrder is not true"),
        (
            {"eventTimeOrder": True, "eventTimeColumn": "timestamp"},
            {"startingOffsets": "earliest"},
            "hybrid.2 (kafka) does not start at a {switch}",
        ),
    ],
)
def test_reading_to_the_next_source_needs_times_and_a_switch(
    first: dict[str, Any], second: dict[str, Any], says: str
) -> None:
    files = {"path": "/in", "reader": "parquet", "readUntil": "next", **first}
    kafka = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "orders", **second}
    with pytest.raises(OptionError, match=re.escape(says)):
        Source.resolve(hybrid(("files", files), ("kafka", kafka)))


class Offered(SequenceReader):
    """Delivers the option ``first`` instead of its numbers."""

    options: ClassVar[tuple[Option[Any], ...]] = (
        Option(name="first", parse=optional(integer(minimum=0)), doc="."),
    )

    def read(self, split: Any) -> Iterator[Any]:
        yield (self.context.options["first"],)


def test_the_reader_of_a_source_has_the_switch_in_its_options_too() -> None:
    chain = hybrid(sequence(0, 4), sequence("{switch}", 5, first="{switch}", reader=Offered))
    engine = MicroBatchEngine(chain, schema=IDS)
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    assert [row[0] for row in engine.rows] == [0, 1, 2, 3, 4]


class Returning(SplitReader[Any]):
    """Delivers the names of files; returns the next one, once, if a test says so."""

    returns: ClassVar[bool] = False

    def read(self, split: Any) -> Iterator[Any]:
        if Returning.returns:
            Returning.returns = False
            raise ReturnSplit
        yield (split.path[-1],)


def test_a_split_of_a_source_that_has_ended_is_read_again_after_it_was_returned(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a\n")
    files = ("files", {"path": tmp_path / "in", "reader": Returning})
    chain = hybrid(files, sequence(1, 3, rowsPerSplit=1, reader=NumbersAsLines), taskReports="always")
    query = Edited(tmp_path, chain, schema=LINES)
    assert [query.batch(), query.batch()] == [["a"], ["1"]]
    Returning.returns = True
    query.ask("replay", splits=[f"1:{tmp_path}/in/a"])
    assert query.batch() == ["2"]
    query.engine.restart()
    assert query.batches() == [["a"]]


class NeedsStart(SequenceEnumerator):
    """Has a field from its start on."""

    def start(self) -> None:
        super().start()
        self.started = True

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert self.started

    def snapshot_state(self, checkpoint_id: int) -> list[SequenceSplit]:
        assert self.started
        return super().snapshot_state(checkpoint_id)


def test_a_source_that_has_ended_is_left_alone_after_a_restart() -> None:
    chain = hybrid((NeedsStart, {"end": 2, "reader": "sequence"}), sequence(5, 8, rowsPerSplit=1))
    engine = MicroBatchEngine(chain)
    engine.run_batch()
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    assert [row[0] for row in engine.rows] == [0, 1, 5, 6, 7]


def test_history_from_the_future_is_no_place_to_start(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path, 0, 40_000_000), topic_of(kafka, 1)
    with pytest.raises(DiscoveryError, match="is in the future"):
        MicroBatchEngine(hybrid(history, live)).process_all_available()


def test_a_rewind_across_the_switch_is_refused_if_the_log_would_not_come_again(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with postgres.database() as database, postgres.connect(database) as control:
        control.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
        table = postgres.options(database, tables="orders", snapshot="never", slotName=database)
        del table["enumerator"]
        query = Edited(tmp_path, hybrid(json_files(tmp_path / "in", 1), ("postgres", table)), schema=IDS)
        assert query.batches() == [[1], []]
        control.execute("INSERT INTO orders VALUES (7)")
        # A stream looks for changes only after a pause that grows with the time that a look takes.
        query.engine.restart(available_now=True)
        assert query.batches() == [[7]]
        with pytest.raises(EditError, match=r"slot|would be read again"):
            query.ask("rewind", to_checkpoint=1)
        query.engine.holder.close()


def test_a_source_that_leaves_rows_for_a_later_run_is_not_followed_by_another(tmp_path: Path) -> None:
    table = {"driver": "sqlite", "uri": f"file:{tmp_path}/a", "table": "t", "cursorColumns": "at"}
    with pytest.raises(OptionError, match=r"hybrid.1 \(sql\): a source follows"):
        Source.resolve(hybrid(("sql", table), sequence(0, 1)))


def test_a_time_in_an_option_that_takes_any_text_needs_a_form(tmp_path: Path) -> None:
    table = {"driver": "sqlite", "uri": f"file:{tmp_path}/a", "table": "t", "cursorColumns": "at"}
    history = parquet_records(tmp_path, 0)
    with pytest.raises(OptionError, match="the place is a time, and the option takes any text"):
        Source.resolve(hybrid(history, ("sql", {**table, "startingCursor": "{switch}"})))
    Source.resolve(hybrid(history, ("sql", {**table, "startingCursor": "{switch:sql}"})))


def test_pages_and_splits_that_their_enumerator_bounds_are_not_in_one_chain() -> None:
    api = ("http", {"path": "http://127.0.0.1:9/orders", "pagination": "none"})
    with pytest.raises(OptionError, match="one chain cannot have both"):
        Source.resolve(hybrid(api, sequence(0, 1)))


def test_a_rewind_across_the_switch_is_refused_if_the_next_source_starts_at_its_end(tmp_path: Path) -> None:
    land(tmp_path / "live", 50)
    now = {"includeExistingFiles": "false", "discoveryInterval": "0s"}
    live = ("files", {"path": tmp_path / "live", "reader": "json", **now})
    query = Edited(tmp_path, hybrid(json_files(tmp_path / "in", 1), live), schema=IDS)
    assert query.batches()[0] == [1]
    land(tmp_path / "live", 51)
    assert query.batches() == [[51]]
    with pytest.raises(EditError, match="would start anew at the present end of its data"):
        query.ask("rewind", to_checkpoint=1)


def test_an_empty_source_in_between_keeps_the_place(tmp_path: Path, kafka: KafkaBroker) -> None:
    history, live = parquet_records(tmp_path / "a", 0, 3), topic_of(kafka, 1, 2, 3, 4)
    chain = hybrid(history, parquet_records(tmp_path / "b"), live)
    given = SourceUnderTest(options=chain, schema=RECORDS)
    assert values(MicroBatchEngine(given)) == [0, 3, 3, 4]


class TellsNothing(SequenceEnumerator):
    """Tells no place although its next source needs one."""

    def switch_position(self, end: Any) -> str | None:
        return None


def test_a_source_that_tells_no_place_stops_the_chain() -> None:
    first = (TellsNothing, {"end": 1, "reader": "sequence"})
    with pytest.raises(DiscoveryError, match="tells no place"):
        MicroBatchEngine(hybrid(first, sequence("{switch}", 3))).process_all_available()


def test_an_option_with_the_place_is_fixed_once_the_source_has_started() -> None:
    chain = hybrid(sequence(0, 2), sequence("{switch}", 5, rowsPerSplit=1, first=7, reader=Offered))
    engine = MicroBatchEngine(chain, schema=IDS)
    engine.run_batch()
    engine.run_batch()
    engine.restart(options={"hybrid.2.first": "{switch}"})
    with pytest.raises(IncompatibleStateError, match=re.escape("option hybrid.2.first was None")):
        engine.run_batch()


def test_files_by_notifications_are_not_followed_by_another_source(tmp_path: Path) -> None:
    files = ("files", {"path": "s3://b/in", "reader": "json", "discovery": "notifications"})
    with pytest.raises(OptionError, match="messages that come while it is read"):
        Source.resolve(hybrid(files, sequence(0, 1), stateLocation=tmp_path))
