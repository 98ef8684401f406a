"""Alignment of whole sources: their options, files and chains, and where the horizon is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import FollowsEventTime, Progress, SplitReader, YieldsProgress, hybrid
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.errors import OptionError
from flip27_source.source import Source
from flip27_source.testing import MicroBatchEngine, check_enumerator
from tests.cli.command_line import flip27
from tests.timed_tracks import MINUTE_US, ROADS, PieceReader, Pieces, Road, TrackReader, Tracks
from tests.toy_sources import AssignsOnce, EchoReader, Feed

SCHEMA = pa.schema([("track", pa.string()), ("number", pa.int64())])
ALIGNED = {"road": "test", "maxEventTimeDrift": "10 minutes"}


@pytest.fixture
def road() -> Iterator[Road]:
    ROADS["test"] = Road()
    yield ROADS["test"]
    del ROADS["test"]


def engine_of(**options: str) -> MicroBatchEngine:
    return MicroBatchEngine(ALIGNED | options, enumerator=Tracks, reader=TrackReader, schema=SCHEMA)


def summary(engine: MicroBatchEngine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.logs.offsets[-1])["summary"]
    return found


def minutes(*numbers: int) -> list[int]:
    return [number * MINUTE_US for number in numbers]


def test_live_splits_are_aligned_and_all_is_read_once_across_crashes(road: Road) -> None:
    road.times = {"slow": minutes(*range(60)), "fast": minutes(*range(30, 90))}
    engine = engine_of(maxRowsPerTrigger="10")
    engine.run_batch()
    assert {row[0] for row in engine.rows} == {"slow"}
    shown = summary(engine)
    assert (shown["eventTimeHorizon"], shown["alignmentSlowest"]) == ("1970-01-01T00:20:00+00:00", "slow")
    assert shown["pausedSplits"] == 1
    assert engine.holder.report()["pausedSplits"] == 1
    while len(engine.rows) < 120:
        engine.restart()
        engine.run_batch()
    assert sorted(engine.rows) == [("fast", n) for n in range(60)] + [("slow", n) for n in range(60)]
    times = [road.times[row[0]][row[1]] for batch in engine.batches for row in batch.rows]
    assert max(times[:60]) <= 49 * MINUTE_US


def test_tracks_keep_the_laws_of_enumerators(road: Road) -> None:
    road.times = {"one": minutes(*range(5)), "back": minutes(3, 1, 2, 9)}
    check_enumerator({"road": "test"}, enumerator=Tracks, reader=TrackReader)


def test_a_run_that_ends_reads_all(road: Road) -> None:
    road.times = {"slow": minutes(*range(10)), "fast": minutes(*range(100))}
    engine = MicroBatchEngine(
        ALIGNED, enumerator=Tracks, reader=TrackReader, schema=SCHEMA, available_now=True
    )
    engine.process_all_available()
    assert len(engine.rows) == 110
    assert len(engine.batches) == 2


def test_files_in_event_time_order_wait_until_the_drift_allows_them(tmp_path: Path) -> None:
    for hour in range(6):
        folder = tmp_path / f"hour=2024-01-01-0{hour}"
        folder.mkdir()
        (folder / "a.txt").write_text(f"{hour}\n")
    options = {
        "path": str(tmp_path), "reader": "text", "eventTimeOrder": "true",
        "eventTimePattern": "hour=%Y-%m-%d-%H", "maxFilesPerTrigger": "2", "maxEventTimeDrift": "1 minute",
    }  # fmt: skip
    engine = MicroBatchEngine(options)
    engine.process_all_available()
    assert [[row[0] for row in batch.rows] for batch in engine.batches] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
    ]
    assert summary(engine)["eventTimeHorizon"] == "2024-01-01T06:00:59.999999+00:00"


def test_a_chain_is_aligned_by_the_source_that_is_read(road: Road) -> None:
    road.pieces = [(0, 9 * MINUTE_US), (10 * MINUTE_US, 19 * MINUTE_US)]
    road.times = {"slow": minutes(*range(20, 40)), "fast": minutes(*range(20, 90))}
    ordered = {"road": "test", "reader": "tests.timed_tracks:AnyReader", "eventTimeOrder": "true"}
    live = {"road": "test", "reader": "tests.timed_tracks:AnyReader"}
    chain = hybrid((Pieces, ordered), (Tracks, live), maxEventTimeDrift="10 minutes")
    engine = MicroBatchEngine(chain, schema=SCHEMA)
    engine.process_all_available()
    numbers = [row[1] for row in engine.rows if row[0] == "fast"]
    assert max(numbers) == 29
    assert summary(engine)["alignmentSlowest"] == "2:slow"


@dataclass(frozen=True)
class Page:
    """A live split that its reader bounds: a page a minute."""

    split_id: str
    minute: int


class Feeds(FollowsEventTime[Page], AssignsOnce[Page]):
    def splits(self) -> list[Page]:
        return [Page("ahead", 30), Page("behind", 0)]

    def event_time_at(self, split: Page) -> int | None:
        return split.minute * MINUTE_US


class PageReader(YieldsProgress, SplitReader[Page]):
    """Reads five pages of a split in each batch."""

    def read(self, split: Page) -> Iterator[Progress[Page] | tuple[str, int]]:
        for minute in range(split.minute, 50):
            yield split.split_id, minute
            yield Progress(replace(split, minute=minute + 1) if minute < 49 else None)


def test_a_source_of_a_chain_has_not_ended_while_data_is_held_in_it(road: Road) -> None:
    road.times = {"idle": minutes(*range(11)), "other": minutes(*range(50))}
    ROADS["next"] = Road(times={"next": minutes(5)})
    given = [{"road": name, "reader": "tests.timed_tracks:AnyReader"} for name in ("test", "next")]
    chain = hybrid((Tracks, given[0]), (Tracks, given[1]), maxEventTimeDrift="10 minutes")
    engine = MicroBatchEngine(chain, schema=SCHEMA)
    engine.process_all_available()
    assert [len(batch.rows) for batch in engine.batches] == [11 + 21]
    engine.now_ms += 60_000
    engine.process_all_available()
    assert [len(batch.rows) for batch in engine.batches] == [11 + 21, 29, 1]
    del ROADS["next"]


def test_splits_that_readers_bound_are_paused_as_a_whole() -> None:
    given = {"maxEventTimeDrift": "10 minutes", "maxRowsPerSplit": "5"}
    engine = MicroBatchEngine(given, enumerator=Feeds, reader=PageReader, schema=SCHEMA)
    engine.run_batch()
    assert summary(engine)["pausedSplits"] == 1
    engine.process_all_available()
    assert sorted(engine.rows) == sorted(
        [("ahead", minute) for minute in range(30, 50)] + [("behind", minute) for minute in range(50)]
    )
    order = [row for batch in engine.batches for row in batch.rows]
    assert order.index(("ahead", 30)) > order.index(("behind", 19))


def test_watch_and_the_state_tables_show_the_horizon(road: Road, tmp_path: Path) -> None:
    road.times = {"slow": minutes(*range(60)), "fast": minutes(*range(30, 90))}
    engine_of(maxRowsPerTrigger="10", stateLocation=str(tmp_path / "state")).run_batch()
    said = flip27("watch", tmp_path / "state", "--once")
    assert "read until 1970-01-01T00:20:00+00:00, as slow allows; 1 split paused" in said.out
    (checkpoint,) = flip27("state", "history", tmp_path / "state", "--json").data
    assert json.loads(checkpoint["horizon"]) == {"latest_us": 1_200_000_000, "slowest": "slow", "paused": 1}


def test_credentials_in_the_name_of_the_slowest_split_are_not_shown(road: Road, tmp_path: Path) -> None:
    road.times = {"ftp://me:hidden@host/slow": minutes(*range(60)), "ftp://fast": minutes(*range(30, 90))}
    engine = engine_of(maxRowsPerTrigger="10", stateLocation=str(tmp_path / "state"))
    engine.run_batch()
    report = engine.holder.report()
    assert report is not None
    shown = [summary(engine)["alignmentSlowest"], report["alignmentSlowest"]]
    shown.append(flip27("watch", tmp_path / "state", "--once").out)
    assert [text for text in shown if "host/slow" not in text or "hidden" in text] == []


FILES = {"path": "/in", "reader": "text"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxEventTimeDrift": "10m"}, "maxEventTimeDrift is set, and the event times of the splits of Feed"),
        ({"replaySpeed": "10"}, "replaySpeed is set, and the event times of the splits of Feed"),
        ({"maxEventTimeDrift": "0s"}, "a duration above 0 is expected"),
        ({"replaySpeed": "0"}, "a number above 0 is expected"),
        ({"replaySpeed": "fast"}, "a number is expected"),
        ({"alignmentGroup": "orders"}, "alignmentGroup is orders, and neither maxEventTimeDrift nor"),
    ],
)
def test_a_horizon_is_refused_where_no_times_are_known(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Source.resolve(options, enumerator=Feed, reader=EchoReader)


def test_files_need_an_order_to_be_aligned() -> None:
    with pytest.raises(OptionError, match="the splits of FilesEnumerator are not known"):
        Source.resolve(FILES | {"maxEventTimeDrift": "10m"}, enumerator=FilesEnumerator)
    by_day = {"eventTimeOrder": "true", "eventTimePattern": "%Y-%m-%d"}
    Source.resolve(FILES | by_day | {"maxEventTimeDrift": "10m"})


def test_a_sequence_has_no_times() -> None:
    with pytest.raises(OptionError, match="the splits of SequenceEnumerator are not known"):
        Source.resolve({"enumerator": "sequence", "maxEventTimeDrift": "10m"})


def test_each_source_of_a_chain_needs_times() -> None:
    chain = hybrid(("files", FILES), ("sequence", {}), maxEventTimeDrift="10m")
    with pytest.raises(OptionError, match=r"hybrid.1 \(files\): option maxEventTimeDrift is set"):
        Source.resolve(chain)


def test_splits_of_an_author_that_are_read_whole_have_the_order() -> None:
    Source.resolve(ALIGNED | {"eventTimeOrder": "true"}, enumerator=Pieces, reader=PieceReader)
