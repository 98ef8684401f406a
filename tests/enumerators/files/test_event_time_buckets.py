"""``eventTimeBucket``: a file with rows of several hours is read once for each of them, and each row once."""

from __future__ import annotations

import datetime as dt
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from flip27_source import edits
from flip27_source.enumerators.files.cleaning import FinishedRanges, PartlyRead
from flip27_source.enumerators.files.migration.known_files import read_files
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.event_time import EventTimeBucket, EventTimeRange, bucket_ranges
from flip27_source.file_systems.file_ids import FileSplitId
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.columnar.orc import OrcReader
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27
from tests.enumerators.files.test_event_time_order import ids

TIMES = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
BY_HOUR = {"eventTimeOrder": "true", "eventTimeColumn": "at", "eventTimeBucket": "1h"}
BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
BEGIN_US = 1_704_067_200_000_000
HOUR_US = 3_600_000_000
HOUR_MS = 3_600_000


def table_of(*hours: float | None, unit: str = "us", zone: str | None = "UTC") -> pa.Table:
    """Rows at these hours of 2024; their ids are 100 times the hours, and -1 without a time."""
    at = [None if hour is None else BEGIN + dt.timedelta(hours=hour) for hour in hours]
    ids = [-1 if hour is None else round(hour * 100) for hour in hours]
    times = pa.array(at, pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    return pa.table({"at": times, "id": pa.array(ids, pa.int64())})


def land(folder: Path, name: str, *hours: float | None, **writing: Any) -> Path:
    path = folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table_of(*hours), path, **writing)
    return path


def started(folder: Path, options: dict[str, str], **more: str) -> MicroBatchEngine:
    common = {
        "path": str(folder / "in"),
        "enumerator": "files",
        "reader": "parquet",
        "discoveryInterval": "0s",
    }
    common |= {"stateLocation": str(folder / "state"), "maxFilesPerTrigger": "1"}
    return MicroBatchEngine({**common, **options, **more}, schema=TIMES)


def test_a_file_of_several_hours_is_read_hour_by_hour(tmp_path: Path) -> None:
    land(tmp_path, "wide.parquet", 2.5, 0.25, 1.0, 0.5, 2.0)
    land(tmp_path, "narrow.parquet", 1.25, 1.75)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    assert ids(engine) == [[25, 50], [100], [125, 175], [200, 250]]


def test_the_smallest_delay_falls_to_the_width_of_a_bucket(tmp_path: Path) -> None:
    for number in range(3):
        land(tmp_path, f"{number}.parquet", number, number + 23.99)
    delays = []
    for uid, options in {"cut": BY_HOUR, "whole": BY_HOUR | {"eventTimeBucket": ""}}.items():
        given = {name: value for name, value in options.items() if value}
        engine = started(tmp_path, given, uid=uid)
        engine.process_all_available()
        assert sorted(row[-1] for row in engine.rows) == [0, 100, 200, 2399, 2499, 2599]
        delays.append(
            max(json.loads(offset)["summary"]["smallestWatermarkDelayMs"] for offset in engine.logs.offsets)
        )
    assert delays[0] <= HOUR_MS
    assert delays[1] > 22 * HOUR_MS


def test_rows_without_a_time_are_in_the_first_bucket(tmp_path: Path) -> None:
    land(tmp_path, "a.parquet", None, 1.5, 0.5, None)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    assert ids(engine) == [[-1, -1, 50], [150]]


def test_each_row_is_read_once_even_if_the_times_of_the_file_are_wrong(tmp_path: Path) -> None:
    """The times are those of the date in its name; most rows are of other days."""
    land(tmp_path, "2024-01-01T05.parquet", 4.0, 5.2, 5.4, 77.0, -3.0, None)
    options = BY_HOUR | {"eventTimePattern": "%Y-%m-%dT%H", "eventTimeBucket": "30 minutes"}
    engine = started(tmp_path, options)
    engine.process_all_available()
    assert ids(engine) == [[-300, -1, 400, 520, 540], [7700]]


@pytest.mark.parametrize("zone", ["UTC", None, "Asia/Tokyo"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_every_unit_are_compared_exactly(tmp_path: Path, unit: str, zone: str | None) -> None:
    (tmp_path / "in").mkdir()
    table = table_of(0.0, 0.9999, 1.0, 1.9999, 2.0, unit=unit, zone=zone)
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    assert ids(engine) == [[0, 100], [100, 200], [200]]


def test_buckets_are_aligned_to_the_epoch_and_their_last_hours_are_open() -> None:
    times = EventTimeRange(BEGIN_US + HOUR_US // 2, BEGIN_US + 2 * HOUR_US)
    assert [(b.start_us, b.end_us, r) for b, r in bucket_ranges(times, HOUR_US, "at")] == [
        (None, BEGIN_US + HOUR_US, EventTimeRange(times.earliest_us, BEGIN_US + HOUR_US - 1)),
        (
            BEGIN_US + HOUR_US,
            BEGIN_US + 2 * HOUR_US,
            EventTimeRange(BEGIN_US + HOUR_US, BEGIN_US + 2 * HOUR_US - 1),
        ),
        (BEGIN_US + 2 * HOUR_US, None, EventTimeRange(BEGIN_US + 2 * HOUR_US, BEGIN_US + 2 * HOUR_US)),
    ]
    assert bucket_ranges(EventTimeRange(BEGIN_US, BEGIN_US + HOUR_US - 1), HOUR_US, "at") == []


@given(
    st.integers(-(10**16), 10**16),
    st.integers(0, 10**13),
    st.integers(1, 10**12),
    st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=20),
    st.tuples(st.integers(-(10**16), 10**16), st.integers(-(10**16), 10**16)),
)
def test_each_time_is_in_exactly_one_bucket(
    earliest_us: int, length_us: int, width_us: int, times_us: list[int | None], part_us: tuple[int, int]
) -> None:
    times = EventTimeRange(earliest_us, earliest_us + length_us)
    buckets = bucket_ranges(times, width_us, "at")
    assert len(buckets) <= 1000
    for time_us in (*times_us, times.earliest_us, times.latest_us):
        assert sum(bucket.has(time_us) for bucket, _ in buckets) == (1 if buckets else 0)
    batch = pa.record_batch({"at": pa.array(times_us, pa.timestamp("us"))})
    rows = [bucket.rows_of(batch, "/a").column(0).cast(pa.int64()).to_pylist() for bucket, _ in buckets]
    assert rows == [[time for time in times_us if bucket.has(time)] for bucket, _ in buckets]
    # A part of the file whose times are wrong, too.
    parts = [bucket.of_part(EventTimeRange(*part_us)) for bucket, _ in buckets]
    for time_us in (*times_us, *part_us):
        assert sum(part.has(time_us) for part in parts if part) == (1 if buckets else 0)


def test_a_file_of_too_many_buckets_has_wider_ones_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    land(tmp_path, "a.parquet", *(float(hour) for hour in range(8785)))
    with caplog.at_level(logging.WARNING):
        engine = started(tmp_path, BY_HOUR, maxFilesPerTrigger="10000")
        engine.process_all_available()
    assert sorted(row[-1] for row in engine.rows) == [100 * hour for hour in range(8785)]
    (said,) = [message for message in caplog.messages if "eventTimeBucket" in message]
    assert "a.parquet spans 8785 buckets" in said
    assert "57600 s" in said


def test_orc_files_are_read_bucket_by_bucket_too(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    orc.write_table(table_of(None, 2.5, 0.25, 1.0, 0.5), tmp_path / "in" / "2024-01-01.orc")
    options = {"eventTimePattern": "%Y-%m-%d", "reader": "orc", "timeZone": "UTC"}
    engine = started(tmp_path, BY_HOUR | options)
    engine.process_all_available()
    assert [rows for rows in ids(engine) if rows] == [[-1, 25, 50], [100], [250]]


@pytest.mark.parametrize("restarted_in", ["Europe/Berlin", "Asia/Tokyo"])
def test_clock_times_in_orc_files_are_cut_in_the_zone_in_which_the_file_was_found(
    tmp_path: Path, restarted_in: str
) -> None:
    (tmp_path / "in").mkdir()
    table = table_of(2.5, 1.25, 1.0, 3.5, zone=None)
    orc.write_table(table, tmp_path / "in" / "2024-01-01.orc")
    options = {"eventTimePattern": "%Y-%m-%d", "reader": "orc", "timeZone": "Europe/Berlin"}
    engine = started(tmp_path, BY_HOUR | options, maxFilesPerTrigger="2")
    engine.run_batch()
    engine.restart(options={"timeZone": restarted_in})
    engine.process_all_available()
    # At first the hours from 23:00 to 1:00 in UTC, which are those from 0:00 to 2:00 in Berlin.
    assert next(rows for rows in ids(engine) if rows) == [100, 125]
    assert sorted(row[-1] for row in engine.rows) == [100, 125, 250, 350]


@pytest.mark.parametrize("reader", [ParquetReader, OrcReader])
@pytest.mark.parametrize("columns", [("id",), ("other",), ("AT", "id")])
def test_waiting_buckets_are_cut_by_their_column_also_if_the_schema_has_it_no_longer(
    tmp_path: Path, reader: type[ParquetReader | OrcReader], columns: tuple[str, ...]
) -> None:
    path = tmp_path / "a"
    if reader is ParquetReader:
        pq.write_table(table_of(0.5, None, 1.5, 2.5), path)
    else:
        orc.write_table(table_of(0.5, None, 1.5, 2.5), path)
    names = {"id": pa.int64(), "other": pa.string(), "AT": pa.timestamp("us", "UTC")}
    options = Source.resolve({"path": str(path), "reader": reader.__name__[:-6].lower()}).options
    opened = reader()
    opened.open(
        SourceReaderContext(options=options, schema=pa.schema([(name, names[name]) for name in columns]))
    )
    rows = []
    for bounds in ((None, BEGIN_US + HOUR_US), (BEGIN_US + HOUR_US, None)):
        split = replace(bucket_of(*bounds), path=str(path), length=path.stat().st_size)
        split = replace(split, modified_us=path.stat().st_mtime_ns // 1000)
        rows.append(sum(batch.num_rows for batch in opened.read(split)))
    assert rows == [2, 2]


def test_row_groups_outside_a_bucket_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, "a.parquet", *(hour / 4 for hour in range(16)), row_group_size=4)
    read: list[int] = []
    whole = pq.ParquetFile.iter_batches

    def counted(self: Any, size: int, row_groups: list[int], **more: Any) -> Any:
        read.extend(row_groups)
        return whole(self, size, row_groups=row_groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    assert [len(batch.rows) for batch in engine.batches] == [4, 4, 4, 4]
    assert read == [0, 1, 2, 3]


@pytest.mark.parametrize("left", ["bucket", "whole"])
def test_a_file_is_cleaned_when_all_its_buckets_were_read(tmp_path: Path, left: str) -> None:
    path = land(tmp_path, "a.parquet", 0.5, 1.5, 2.5)
    engine = started(tmp_path, BY_HOUR, cleanSource="delete")
    for _ in range(2):
        engine.run_batch()
    assert path.exists()
    if left == "whole":
        engine.restart(options={"eventTimeBucket": None})
    engine.run_batch()
    engine.process_all_available()
    engine.stop()
    assert ids(engine) == [[50], [150], [250]]
    assert not path.exists()


def bucket_of(start: int | None, end: int | None) -> FileSplit:
    bucket = EventTimeBucket("at", start, end)
    return FileSplit(path="/a", length=9, modified_us=1, bucket=bucket)


def test_buckets_and_ranges_of_bytes_do_not_complete_each_other() -> None:
    finished = FinishedRanges()
    assert not finished.completes(bucket_of(None, 5))
    assert not finished.completes(FileSplit(path="/a", length=9, modified_us=1, start=4))
    assert not finished.completes(bucket_of(7, None))
    restored = FinishedRanges(finished.stored())
    assert restored.completes(bucket_of(5, 7))
    assert [item.by_time for item in restored.stored()] == [msgspec.UNSET]


def test_a_bucket_that_is_read_again_is_no_longer_finished() -> None:
    whole = PartlyRead(path="/a", modified_us=1, ranges=((0, 9),), length=9)
    left = whole.without([FileSplitId(path="/a", bucket=(5, 7))])
    finished = FinishedRanges([left])
    assert not finished.completes(bucket_of(None, 5))
    assert finished.completes(bucket_of(5, 7))


def test_one_bucket_can_be_quarantined_and_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    land(tmp_path, "a.parquet", 0.5, 1.5, 2.5)
    fails = True
    read = ParquetReader.rows_of_file

    def failing(self: Any, split: FileSplit, fetched: Any) -> Any:
        if fails and split.split_id.endswith(f"..{BEGIN_US + 2 * HOUR_US}"):
            raise pa.ArrowInvalid("a page is damaged")
        return read(self, split, fetched)

    monkeypatch.setattr(ParquetReader, "rows_of_file", failing)
    engine = started(tmp_path, BY_HOUR, onSplitError="quarantine", maxSplitAttempts="1")
    engine.process_all_available()
    assert ids(engine) == [[50], [], [250]]
    (split,) = flip27("state", "splits", tmp_path / "state", "--status", "quarantined", "--json").data
    assert split["split_id"] == (f"{tmp_path}/in/a.parquet#t{BEGIN_US + HOUR_US}..{BEGIN_US + 2 * HOUR_US}")
    fails = False
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path / "state"), glob="*", why="a test"))
    engine.restart()
    engine.process_all_available()
    assert ids(engine) == [[50], [], [250], [150]]


def test_waiting_buckets_keep_their_width(tmp_path: Path) -> None:
    land(tmp_path, "a.parquet", 0.5, 1.5, 2.5, 3.5)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    engine.restart(options={"eventTimeBucket": "2h"})
    land(tmp_path, "b.parquet", 1.75, 0.75, 3.75)
    engine.process_all_available()
    assert ids(engine) == [[50], [75, 175], [150], [250], [375], [350]]
    engine = started(tmp_path, BY_HOUR, uid="other")
    engine.run_batch()
    engine.restart(options={"eventTimeBucket": None, "eventTimeOrder": None})
    engine.process_all_available()
    assert sorted(row[-1] for row in engine.rows) == [50, 75, 150, 175, 250, 350, 375]


@pytest.mark.parametrize(
    "before",
    [{}, {"eventTimeOrder": "true", "eventTimeColumn": "at"}, BY_HOUR | {"eventTimeBucket": "1 day"}],
)
def test_whole_files_that_wait_are_cut_when_the_option_is_set_or_narrower(
    tmp_path: Path, before: dict[str, str]
) -> None:
    for name, hours in {"a": (0.5,), "b": (2.5, 4.5), "c": (1.5, 3.5, 3.75)}.items():
        land(tmp_path, f"{name}.parquet", *hours)
    engine = started(tmp_path, before, fileOrder="name")
    engine.run_batch()
    engine.restart(options=BY_HOUR)
    engine.run_batch()
    engine.restart()
    engine.process_all_available()
    assert [rows for rows in ids(engine) if rows] == [[50], [150], [250], [350, 375], [450]]


def test_a_wide_file_that_a_replay_holds_is_cut_when_the_option_is_set(tmp_path: Path) -> None:
    land(tmp_path, "first.parquet", 0.5)
    land(tmp_path, "wide.parquet", 1.0, 2.5, 3.5)
    engine = started(tmp_path, BY_HOUR | {"eventTimeBucket": "1d"})
    engine.now_ms = BEGIN_US // 1000 + 1000 * HOUR_MS
    engine.run_batch()
    engine.restart(options={"eventTimeBucket": "1h", "replaySpeed": "3600"})
    for passed_ms in (0, 1000, 1000, 1000):
        engine.now_ms += passed_ms
        engine.run_batch()
    assert ids(engine) == [[50], [100], [250], [350]]


def test_waiting_buckets_get_the_times_of_another_column_or_pattern(tmp_path: Path) -> None:
    land(tmp_path, "2024-01-01.parquet", 0.5, 1.5, 2.5)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    engine.restart(options={"eventTimePattern": "%Y-%m-%d"})
    engine.process_all_available()
    assert ids(engine) == [[50], [150], [250]]


def test_replays_and_forgetting_are_of_buckets_and_of_files(tmp_path: Path) -> None:
    land(tmp_path, "a.parquet", 0.5, 1.5, 2.5)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    state, path = str(tmp_path / "state"), f"{tmp_path}/in/a.parquet"
    one = f"{path}#t{BEGIN_US + HOUR_US}..{BEGIN_US + 2 * HOUR_US}"
    edits.submit(edits.plan("replay", state=state, splits=[one], why="a test"))
    engine.restart()
    engine.process_all_available()
    assert ids(engine) == [[50], [150], [250], [150]]
    edits.submit(edits.plan("forget", state=state, splits=[path], why="a test"))
    engine.restart(options={"eventTimeBucket": "2h"})
    engine.process_all_available()
    assert ids(engine)[4:] == [[50, 150], [250]]
    # The file was read in hours and in two hours: one of the two is replayed.
    edits.submit(edits.plan("replay", state=state, glob="*a.parquet*", why="a test"))
    engine.restart()
    engine.process_all_available()
    assert sorted(row for batch in ids(engine)[6:] for row in batch) == [50, 150, 250]


@pytest.mark.parametrize("cut_before", [True, False])
def test_a_rewind_to_a_file_that_waited_whole_tells_that_its_rows_are_read_again(
    tmp_path: Path, cut_before: bool
) -> None:
    land(tmp_path, "a.parquet", 0.5)
    wide = str(land(tmp_path, "wide.parquet", 1.5, 2.5))
    engine = started(tmp_path, BY_HOUR | {"eventTimeBucket": "1 day"})
    engine.run_batch()
    if cut_before:
        engine.restart(options=BY_HOUR)
    engine.process_all_available()
    plan = edits.plan("rewind", state=str(tmp_path / "state"), to_checkpoint=1, why="a test")
    edits.submit(plan)
    engine.restart(options=BY_HOUR)
    engine.process_all_available()
    assert ids(engine) == [[50], *([[150], [250]] if cut_before else [[150, 250]]), [150], [250]]
    noon = BEGIN_US + 2 * HOUR_US
    read = [f"{wide}#t..{noon}", f"{wide}#t{noon}.."] if cut_before else [wide]
    assert [change.split_id for change in plan.changes] == read
    documents = (tmp_path / "state").glob("*/checkpoints/*.json")
    (applied,) = (edit for file in documents for edit in json.loads(file.read_text()).get("edits", ()))
    assert applied["split_ids"] == read


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"eventTimeOrder": "false"}, "eventTimeBucket is set, and eventTimeOrder is not"),
        ({"eventTimeColumn": ""}, "eventTimeBucket is set, and eventTimeColumn is not"),
        ({"reader": "json"}, "JsonLinesReader cannot read the rows of a bucket"),
        ({"reader": "splits"}, "SplitsReader cannot read the rows of a bucket"),
        ({"eventTimeBucket": "0s"}, "eventTimeBucket.*a duration of at least a millisecond"),
    ],
)
def test_options_that_contradict_buckets_are_refused_at_load(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    land(tmp_path, "a.parquet", 0.5)
    given = {name: value for name, value in ({"eventTimePattern": "%Y"} | BY_HOUR | options).items() if value}
    if "eventTimeOrder" in options:
        given.pop("eventTimePattern")
    with pytest.raises(OptionError, match=said):
        started(tmp_path, given).run_batch()


def test_a_waiting_bucket_is_not_read_by_a_reader_that_does_not_know_buckets(tmp_path: Path) -> None:
    land(tmp_path, "a.parquet", 0.5, 1.5)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    engine.restart(
        options={"eventTimeBucket": None, "eventTimeOrder": None, "eventTimeColumn": None, "reader": "binary"}
    )
    with pytest.raises(OptionError, match="one bucket of event times"):
        engine.run_batch()


def test_dates_have_no_buckets(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    days = pa.table({"at": pa.array([0, 3], pa.date32()), "id": [1, 2]})
    pq.write_table(days, tmp_path / "in" / "a.parquet")
    with pytest.raises(DiscoveryError, match=r"column at .* dates"):
        started(tmp_path, BY_HOUR).run_batch()


def test_an_export_tells_a_file_of_which_a_bucket_was_read_from_one_whose_buckets_all_wait(
    tmp_path: Path,
) -> None:
    begun, waiting = (str(land(tmp_path, f"{name}.parquet", 0.5, 1.5)) for name in "ab")
    left = [replace(bucket_of(5, None), path=begun)]
    left += [replace(bucket_of(*bounds), path=waiting) for bounds in ((None, 5), (5, None))]
    source = Source.resolve({"path": str(tmp_path / "in"), "reader": "parquet"})
    assert read_files(None, left, source.options).partly == [begun]


def test_a_library_that_would_read_whole_files_for_their_buckets_refuses_the_state(tmp_path: Path) -> None:
    land(tmp_path, "narrow.parquet", 0.25, 0.5)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    land(tmp_path, "wide.parquet", 0.5, 1.5)
    engine.process_all_available()
    engine.restart()
    land(tmp_path, "later.parquet", 5)
    engine.process_all_available()
    documents = (tmp_path / "state").glob("*/checkpoints/*.json")
    by_id = sorted(documents, key=lambda file: int(file.name.partition("-")[0]))
    assert [json.loads(file.read_text())["format"] for file in by_id] == [1, 5, 5, 5]


def test_check_counts_files_and_not_buckets(tmp_path: Path) -> None:
    land(tmp_path, "a.parquet", 0.5, 5.5)
    given = [f"--option={name}={value}" for name, value in BY_HOUR.items()]
    said = flip27("check", "--path", tmp_path / "in", "--reader", "parquet", *given)
    assert "loses nothing of 1 files" in said.out
