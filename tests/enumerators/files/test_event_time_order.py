"""Files in event-time order: by dates in their paths, or by the statistics of Parquet files."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from flip27_source import edits, savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.files.time_pattern import TimePattern
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.readers.columnar.parquet import ParquetReader
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27
from tests.enumerators.files.file_sources import files_source
from tests.toy_sources import Works, coordinator_of, frozen

LINES = pa.schema([("id", pa.int64())])
TIMES = pa.schema([("at", pa.timestamp("us", "UTC")), ("id", pa.int64())])
BY_HOUR = {"eventTimeOrder": "true", "eventTimePattern": "hour=%Y-%m-%d-%H"}
BY_AT = {"eventTimeOrder": "true", "eventTimeColumn": "at"}
HOUR_MS = 3_600_000


def land(folder: Path, hour: int, number: int = 0) -> Path:
    """A file of the hour with one row, its id, that is newer than all files before it."""
    path = folder / "in" / f"hour=2024-01-{1 + hour // 24:02}-{hour % 24:02}" / f"{number}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"id": 100 * hour + number}) + "\n")
    landed = sum(len(names) for _, _, names in os.walk(folder / "in"))
    os.utime(path, (1_700_000_000 + landed, 1_700_000_000 + landed))
    return path


def land_times(folder: Path, name: str, *hours: float, zone: str | None = "UTC", **writing: Any) -> None:
    """A Parquet file with rows at these hours, whose ids are the hours."""
    (folder / "in").mkdir(exist_ok=True)
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    at = pa.array([begin + dt.timedelta(hours=hour) for hour in hours], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"at": at.cast(pa.timestamp("us", zone)), "id": pa.array([int(hour) for hour in hours], pa.int64())}
    )
    pq.write_table(table, folder / "in" / name, **writing)


def started(folder: Path, options: dict[str, str], schema: pa.Schema = LINES) -> MicroBatchEngine:
    reader = "json" if schema is LINES else "parquet"
    common = {"path": str(folder / "in"), "enumerator": "files", "reader": reader, "discoveryInterval": "0s"}
    common |= {"stateLocation": str(folder / "state"), "recursiveFileLookup": "true"}
    return MicroBatchEngine({**common, "maxFilesPerTrigger": "2", **options}, schema=schema)


def ids(engine: MicroBatchEngine) -> list[list[int]]:
    """The last column of each batch's rows, sorted, because tasks read at the same time."""
    return [sorted(row[-1] for row in batch.rows) for batch in engine.batches]


def summary(engine: MicroBatchEngine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.logs.offsets[-1])["summary"]
    return found


def test_files_are_read_in_the_order_of_the_dates_in_their_paths(tmp_path: Path) -> None:
    for hour in (30, 2, 25, 1, 3):
        land(tmp_path, hour)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    assert ids(engine) == [[100, 200], [300, 2500], [3000]]


def test_files_are_read_in_the_order_of_the_times_in_the_footers_of_parquet_files(tmp_path: Path) -> None:
    for name, hours in {"a": (9.0, 5.0), "b": (1.0, 3.0), "c": (8.0,), "d": (0.0, 1.0), "e": ()}.items():
        land_times(tmp_path, f"{name}.parquet", *hours)
    engine = started(tmp_path, BY_AT, TIMES)
    engine.process_all_available()
    # The file without rows may be anywhere; the middle of 5 and 9 is before 8.
    assert ids(engine) == [[0, 1], [1, 3, 5, 9], [8]]
    assert summary(engine)["smallestWatermarkDelayMs"] == HOUR_MS + 1


def test_files_are_read_in_the_order_of_the_times_in_the_footers_of_orc_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, hours in {"a": (9, 5), "b": (1, 3), "c": (8,), "d": (0, 1)}.items():
        at = pa.array([dt.datetime(2024, 1, 1, hour) for hour in hours], pa.timestamp("us"))
        orc.write_table(pa.table({"at": at, "id": hours}), tmp_path / "in" / f"{name}.orc")
    engine = started(tmp_path, BY_AT | {"reader": "orc", "timeZone": "Europe/Berlin"}, TIMES)
    engine.process_all_available()
    assert ids(engine) == [[0, 1, 1, 3], [5, 8, 9]]
    assert summary(engine)["smallestWatermarkDelayMs"] == 0


def test_a_file_that_is_found_late_is_read_next_and_counted(tmp_path: Path) -> None:
    for hour in (10, 11, 12, 13, 14):
        land(tmp_path, hour)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    land(tmp_path, 2)
    land(tmp_path, 12, 1)
    engine.process_all_available()
    assert ids(engine) == [[1000, 1100], [200, 1200], [1201, 1300], [1400]]
    delays = [json.loads(offset)["summary"]["smallestWatermarkDelayMs"] for offset in engine.logs.offsets]
    # At first the files of each batch are later than all before; then 2:00 comes after 11:59.
    assert delays == [0, 10 * HOUR_MS, HOUR_MS, 0]
    assert summary(engine)["lateSplits"] == 1


def test_the_delay_of_a_backlog_is_that_of_its_batches(tmp_path: Path) -> None:
    for hour, number in ((1, 0), (1, 1), (1, 2), (2, 0)):
        land(tmp_path, hour, number)
    for files, delay_ms in (("1", HOUR_MS), ("2", HOUR_MS), ("3", 0), ("4", 0)):
        engine = started(tmp_path, BY_HOUR | {"maxFilesPerTrigger": files, "uid": f"of{files}"})
        engine.run_batch()
        assert summary(engine)["smallestWatermarkDelayMs"] == delay_ms, files


def test_a_restart_goes_on_in_order_and_looks_into_no_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in (5, 1, 4, 2, 3, 6):
        land_times(tmp_path, f"{hour}.parquet", hour)
    engine = started(tmp_path, BY_AT, TIMES)
    engine.run_batch()
    looked: list[str] = []
    look = ParquetReader.event_times.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        ParquetReader,
        "event_times",
        classmethod(lambda cls, s, *more: looked.append(s.path) or look(cls, s, *more)),
    )
    engine.restart()
    land_times(tmp_path, "0.parquet", 0)
    engine.process_all_available()
    assert ids(engine) == [[1, 2], [0, 3], [4, 5], [6]]
    assert looked == [str(tmp_path / "in" / "0.parquet")]
    assert summary(engine)["lateSplits"] == 1


@pytest.mark.parametrize(
    "turned_on_by", [{"eventTimePattern": "hour=%Y-%m-%d-%H"}, {"eventTimePattern": "%Y-%m-%d-%H"}]
)
def test_the_order_can_be_turned_on_and_off_and_changed_between_runs(
    tmp_path: Path, turned_on_by: dict[str, str]
) -> None:
    for hour in (9, 1, 8, 2, 7, 3, 6, 4, 5, 0):
        land(tmp_path, hour)
    engine = started(tmp_path, {})
    engine.run_batch()
    engine.restart(options={"eventTimeOrder": "true", **turned_on_by})
    engine.run_batch()
    engine.restart(options={"eventTimeOrder": "false", "eventTimePattern": None})
    land(tmp_path, 1, 1)
    engine.run_batch()
    assert "smallestWatermarkDelayMs" not in summary(engine)
    # In another zone, and with a file that was found without event times.
    engine.restart(options={"eventTimeOrder": "true", **turned_on_by, "timeZone": "Asia/Tokyo"})
    engine.process_all_available()
    assert ids(engine) == [[100, 900], [0, 200], [300, 400], [101, 500], [600, 700], [800]]
    assert sorted(row[0] for row in engine.rows) == [0, 100, 101, *range(200, 1000, 100)]


def test_the_state_tells_by_what_times_are_known_also_if_the_files_are_not_listed_yet(tmp_path: Path) -> None:
    for hour in (1, 2):
        land(tmp_path, hour)
    restored, known_by = None, []
    for zone in ("UTC", "Asia/Tokyo"):
        source = files_source(tmp_path / "in", **BY_HOUR, timeZone=zone)
        works = Works()
        given = {"options": source.options, "reader_type": source.reader_type, "runner": works}
        coordinator = coordinator_of(FilesEnumerator, restored=restored, **given)
        if restored is not None:
            del works.submitted[0]
        works.run(coordinator)
        restored = frozen(coordinator, Limits(files=1)).snapshot
        known_by.append(restored.enumerator_state.position.times_by)
    assert known_by == ["hour=%Y-%m-%d-%H in UTC", "hour=%Y-%m-%d-%H in Asia/Tokyo"]


def test_files_that_wait_are_not_lost_if_the_times_of_one_cannot_be_known_at_a_restart(
    tmp_path: Path,
) -> None:
    paths = [land(tmp_path, hour) for hour in (3, 1, 2)]
    paths += [tmp_path / "in" / "undated.json"]
    paths[-1].write_text('{"id": 7}\n')
    engine = started(tmp_path, {"maxFilesPerTrigger": "1"})
    engine.run_batch()
    engine.restart(options=BY_HOUR)
    with pytest.raises(DiscoveryError, match=r"undated\.json has no event time by .*: no date") as caught:
        engine.run_batch()
    assert "pathGlobFilter" in str(caught.value)
    engine.restart(options={"eventTimeOrder": None, "eventTimePattern": None})
    engine.process_all_available()
    assert sorted(row[0] for row in engine.rows) == [7, 100, 200, 300]


def test_what_is_read_again_after_a_rewind_is_late(tmp_path: Path) -> None:
    """Spark keeps the watermark."""
    for hour in (1, 2, 3, 4):
        land(tmp_path, hour)
    engine = started(tmp_path, BY_HOUR)
    engine.process_all_available()
    edits.submit(edits.plan("rewind", state=str(tmp_path / "state"), to_checkpoint=1, why="a test"))
    engine.restart()
    engine.process_all_available()
    assert ids(engine) == [[100, 200], [300, 400], [300, 400]]
    assert summary(engine)["smallestWatermarkDelayMs"] == 2 * HOUR_MS


def test_a_query_from_a_savepoint_has_a_watermark_of_its_own(tmp_path: Path) -> None:
    for hour in (5, 6, 7, 8):
        land(tmp_path, hour)
    engine = started(tmp_path, BY_HOUR)
    engine.run_batch()
    engine.run_batch()
    saved = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory
    land(tmp_path, 1)
    other = started(tmp_path, BY_HOUR | {"stateLocation": str(tmp_path / "other"), "savepoint": saved})
    other.process_all_available()
    assert ids(other) == [[100, 700], [800]]
    assert (summary(other)["smallestWatermarkDelayMs"], summary(other).get("lateSplits", 0)) == (0, 0)


def test_watch_and_the_state_tables_show_the_delay_of_the_backlog(tmp_path: Path) -> None:
    for hour, number in ((1, 0), (1, 1), (1, 2), (2, 0)):
        land(tmp_path, hour, number)
    started(tmp_path, BY_HOUR).run_batch()
    said = flip27("watch", tmp_path / "state", "--once")
    assert "a watermark delay of 3600 s loses nothing of the backlog" in said.out
    (checkpoint,) = flip27("state", "history", tmp_path / "state", "--json").data
    assert json.loads(checkpoint["event_time"])["smallest_delay_ms"] == HOUR_MS


def test_a_delay_of_the_user_that_loses_rows_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for hour, number in ((1, 0), (1, 1), (1, 2), (2, 0)):
        land(tmp_path, hour, number)
    with caplog.at_level(logging.WARNING):
        started(tmp_path, BY_HOUR | {"watermarkDelay": "59 minutes"}).process_all_available()
    (warning,) = [message for message in caplog.messages if "watermarkDelay" in message]
    assert "watermarkDelay is 3540 s" in warning
    assert "3600.000 s" in warning


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"eventTimeOrder": "true"}, "nothing tells the event times of a file"),
        (BY_HOUR | {"latestFirst": "true"}, "eventTimeOrder and latestFirst are both true"),
        ({"eventTimePattern": "%Y"}, "eventTimePattern is set, and eventTimeOrder is not"),
        ({"watermarkDelay": "1h"}, "watermarkDelay is set, and eventTimeOrder is not"),
        (BY_AT, "JsonLinesReader does not know the times of column at"),
        (BY_HOUR | {"eventTimePattern": "%m-%d"}, "a pattern with %Y and all units down to the smallest"),
        (BY_HOUR | {"eventTimePattern": "%Y-%d"}, "a pattern with %Y and all units"),
        (BY_HOUR | {"eventTimePattern": "%Y-%y"}, "a pattern with %Y and all units"),
        (BY_HOUR | {"eventTimePattern": "%Y%"}, "a pattern with %Y and all units"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: dict[str, str], said: str
) -> None:
    land(tmp_path, 1)
    with pytest.raises(OptionError, match=said):
        started(tmp_path, options).run_batch()


@pytest.mark.parametrize(
    ("pattern", "path", "earliest", "latest"),
    [
        ("%Y", "/in/2024/a", "2024-01-01T00:00:00", "2024-12-31T23:59:59.999999"),
        ("%Y/%m", "/in/2024/12/a", "2024-12-01T00:00:00", "2024-12-31T23:59:59.999999"),
        ("dt=%Y-%m-%d", "s3://b/dt=2024-02-29/a", "2024-02-29T00:00:00", "2024-02-29T23:59:59.999999"),
        (
            "dt=%Y-%m-%d/*-%H.",
            "/dt=2024-02-29/a-b-23.gz",
            "2024-02-29T23:00:00",
            "2024-02-29T23:59:59.999999",
        ),
        ("%d.%m.%Y_%H%M", "/31.01.2024_2359.csv", "2024-01-31T23:59:00", "2024-01-31T23:59:59.999999"),
        ("%Y%m%d%H%M%S", "/1-20240131235958.csv", "2024-01-31T23:59:58", "2024-01-31T23:59:58.999999"),
        ("%Y%%3A%m", "/2024%3A05/2024%3A05", "2024-05-01T00:00:00", "2024-05-31T23:59:59.999999"),
        ("dt=%Y-%m-%d", "/dt=9999-12-31", "9999-12-31T00:00:00", "9999-12-31T23:59:59.999999"),
    ],
)
def test_a_date_stands_for_all_of_its_smallest_unit(
    pattern: str, path: str, earliest: str, latest: str
) -> None:
    times = TimePattern.parse(pattern).times_in(path, dt.UTC)
    found = [dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=us) for us in times_us(times)]
    assert [time.replace(tzinfo=None).isoformat() for time in found] == [earliest, latest]


@pytest.mark.parametrize(
    ("zone", "path", "earliest", "latest"),
    [
        ("Europe/Berlin", "202410270230", "2024-10-27T00:30:00", "2024-10-27T01:30:59.999999"),
        ("Europe/Berlin", "202410270259", "2024-10-27T00:59:00", "2024-10-27T01:59:59.999999"),
        ("Europe/Berlin", "202403310230", "2024-03-31T00:30:00", "2024-03-31T01:30:59.999999"),
        ("Europe/Berlin", "202401010000", "2023-12-31T23:00:00", "2023-12-31T23:00:59.999999"),
    ],
    ids=["an hour that comes twice", "its end", "an hour that is left out", "another hour"],
)
def test_where_clocks_change_a_date_stands_for_all_times_that_it_may_mean(
    zone: str, path: str, earliest: str, latest: str
) -> None:
    times = TimePattern.parse("%Y%m%d%H%M").times_in(path, ZoneInfo(zone))
    found = [dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=us) for us in times_us(times)]
    assert [time.replace(tzinfo=None).isoformat() for time in found] == [earliest, latest]


def test_a_timestamp_without_a_zone_counts_as_it_is_stored_as_in_the_rows(tmp_path: Path) -> None:
    land_times(tmp_path, "zoned.parquet", 11.0)
    land_times(tmp_path, "local.parquet", 12.0, zone=None)
    engine = started(tmp_path, BY_AT | {"timeZone": "Asia/Tokyo", "maxFilesPerTrigger": "1"}, TIMES)
    engine.process_all_available()
    assert ids(engine) == [[11], [12]]


def times_us(times: Any) -> tuple[int, int]:
    return times.earliest_us, times.latest_us


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("%Y%m%d", "/in/1202401310/a", "no date"),
        ("%Y-%m-%d", "/in/2024-02-30/a", "day"),
        ("%Y-%m-%d", "/in/2024-01-01/2024-01-02.json", "2 different dates"),
        ("%Y", "/in/0000/a", "year 0"),
        ("%Y", "/in/9999/a", "year 10000"),
        ("x-*%Y%m%d", "/x-20240101-20240209.json", "2 different dates"),
        ("%Y*-%m", "/2024-01-02", "2 different dates"),
        ("*%Y", "/20245/a", "no date"),
    ],
)
def test_a_path_without_one_valid_date_is_an_error_that_names_it(pattern: str, path: str, said: str) -> None:
    with pytest.raises(DiscoveryError, match=f"{path} has no event time by the option .*{said}"):
        TimePattern.parse(pattern).times_in(path, dt.UTC)


def test_a_parquet_file_without_statistics_stops_the_query_and_is_named(tmp_path: Path) -> None:
    land_times(tmp_path, "good.parquet", 1)
    land_times(tmp_path, "bare.parquet", 2, write_statistics=False)
    with pytest.raises(DiscoveryError, match=r"bare\.parquet has no statistics of column at"):
        started(tmp_path, BY_AT, TIMES).run_batch()


@pytest.mark.parametrize(
    ("column", "said"),
    [("of_day", "has no column of_day .*its columns are .'at', 'id'"), ("id", "id .* is stored as INT64")],
)
def test_a_column_that_has_no_times_stops_the_query(tmp_path: Path, column: str, said: str) -> None:
    land_times(tmp_path, "a.parquet", 1)
    with pytest.raises(DiscoveryError, match=said):
        started(tmp_path, BY_AT | {"eventTimeColumn": column}, TIMES).run_batch()


@pytest.mark.parametrize("is_retried", [True, False])
def test_the_times_of_a_mended_file_are_known_if_it_is_found_again_and_not_if_it_is_retried(
    tmp_path: Path, is_retried: bool
) -> None:
    for hour in (0, 1, 2, 3):
        land_times(tmp_path, f"{hour}.parquet", hour)
    mended = tmp_path / "in" / "0.parquet"
    content = mended.read_bytes()
    mended.write_bytes(bytes(len(content)))
    options = BY_AT | {"onSplitError": "quarantine", "maxSplitAttempts": "1", "maxFilesPerTrigger": "3"}
    engine = started(tmp_path, options, TIMES)
    engine.process_all_available()
    assert ids(engine) == [[1, 2], [3]]
    mended.write_bytes(content)
    state = str(tmp_path / "state")
    if is_retried:
        edits.submit(edits.plan("quarantine retry", state=state, glob="*", why="mended"))
    else:
        edits.submit(edits.plan("quarantine drop", state=state, glob="*", why="mended"))
        edits.submit(edits.plan("forget", state=state, splits=[str(mended)], why="mended"))
    engine.restart()
    engine.process_all_available()
    assert ids(engine)[-1] == [0]
    assert summary(engine).get("lateSplits", 0) == (0 if is_retried else 1)


def test_a_damaged_file_is_judged_by_its_task_as_without_the_order(tmp_path: Path) -> None:
    land_times(tmp_path, "1.parquet", 1)
    (tmp_path / "in" / "2.parquet").write_bytes(b"PAR1, but not for long")
    engine = started(tmp_path, BY_AT | {"onSplitError": "quarantine", "maxSplitAttempts": "1"}, TIMES)
    engine.process_all_available()
    assert ids(engine) == [[1]]
    engine.restart()
    land_times(tmp_path, "3.parquet", 3)
    engine.process_all_available()
    assert ids(engine) == [[1], [3]]
    assert summary(engine)["quarantinedSplits"] == 1
