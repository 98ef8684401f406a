"""Paced replay of a source with live splits, and of one with whole splits, through restarts and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source import DiscoveringEnumerator, Discovery, EventTimeRange, SplitSize, edits
from flip27_source.errors import StateLocationError
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing import MicroBatchEngine
from flip27_source.testing.steps import Step
from tests.event_logs import LogQuery, write_logs
from tests.timed_tracks import ROADS, Piece, PieceReader, Pieces, Road

S_US = 1_000_000
NOW_MS = 1_700_000_000_000
DAY_AGO_US = (NOW_MS - 86_400_000) * 1000
MINUTE = [DAY_AGO_US + second * S_US for second in range(60)]
"""A record for each second of a minute, a day ago."""


def seconds(times_us: list[int]) -> list[int]:
    return [(us - DAY_AGO_US) // S_US for us in times_us]


def query(tmp_path: Path, speed: str = "10", **more: str | bool) -> LogQuery:
    available_now = bool(more.pop("available_now", False))
    options = {"replaySpeed": speed, **{name: str(value) for name, value in more.items()}}
    folder = write_logs(tmp_path / "logs", {})
    return LogQuery(folder, options, now_ms=NOW_MS, available_now=available_now)


def test_data_comes_in_pace(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", {"even": MINUTE[::2], "odd": MINUTE[1::2]})
    one = query(tmp_path)
    assert seconds(one.next_us()) == [0]
    assert seconds(one.at(NOW_MS + 100)) == [1]
    assert one.at(NOW_MS + 150) == []
    assert seconds(one.at(NOW_MS + 1_000)) == list(range(2, 11))
    assert seconds(one.at(NOW_MS + 60_000)) == list(range(11, 60))
    assert one.numbers()["replayBehindMs"] == 0


def test_a_restart_goes_on_in_pace_and_without_a_burst(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path)
    one.next_us()
    assert seconds(one.at(NOW_MS + 1_000)) == list(range(1, 11))
    one.restart()
    assert seconds(one.at(NOW_MS + 3_600_000)) == [11]
    assert seconds(one.at(NOW_MS + 3_600_500)) == list(range(12, 17))
    # Also with another speed, and without.
    one.restart(options={"replaySpeed": "2"})
    assert seconds(one.at(NOW_MS + 7_200_000)) == [17]
    assert seconds(one.at(NOW_MS + 7_201_000)) == [18, 19]
    one.restart(options={"replaySpeed": None})
    assert seconds(one.next_us()) == list(range(20, 60))


def test_a_batch_that_was_planned_is_repeated_as_it_was(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path)
    one.next_us()
    one.crash_at(Step.TASK_STARTED)
    one.now_ms += 1_000
    assert one.process_all_available(through_crashes=True)
    assert seconds(sorted(row[1] for row in one.rows)) == list(range(12))


def test_a_wall_clock_that_is_set_changes_nothing(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path)
    one.next_us()
    for error_ms in (3_600_000, -3_600_000, 10**12, -(10**11)):
        one.clock_error_ms = error_ms
        one.now_ms += 1_000
        assert len(one.next_us()) == 10


def test_caught_up_it_is_live(tmp_path: Path) -> None:
    """Data that waits, and data with times to come, are read at once then."""
    now_us = NOW_MS * 1000
    folder = write_logs(tmp_path / "logs", {"a": [now_us - 10 * S_US, now_us - S_US]})
    one = query(tmp_path, "11")
    assert one.next_us() == [now_us - 10 * S_US]
    assert one.at(NOW_MS + 500) == []
    assert one.numbers()["replayBehindMs"] == 0
    write_logs(tmp_path / "logs", {"a": [now_us + 3600 * S_US]})
    assert one.at(NOW_MS + 1_000) == [now_us - S_US, now_us + 3600 * S_US]
    assert one.numbers()["replayIsLive"] == 1
    assert "replayBehindMs" not in one.numbers()
    write_logs(Path(folder), {"a": [now_us + 7200 * S_US]})
    assert one.at(NOW_MS + 1_001) == [now_us + 7200 * S_US]


def test_what_an_edit_rewinds_is_due(tmp_path: Path) -> None:
    """It does not set the pace again: retried splits must not hold everything else for days."""
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path, stateLocation=str(tmp_path / "state"))
    one.next_us()
    one.at(NOW_MS + 1_000)
    plan = edits.plan("rewind", state=str(tmp_path / "state"), why="a test", who="tester", to_checkpoint=1)
    edits.submit(plan)
    one.holder.look_for_requests()
    assert seconds(one.at(NOW_MS + 2_000)) == list(range(1, 21))


class Unreachable(LocalStore):
    """A store that fails ``left`` times to write a checkpoint."""

    left = 0

    def create(self, name: str, data: bytes, *, exclusive: bool = False) -> bool:
        if "/checkpoints/" in name and self.left:
            self.left -= 1
            raise StateLocationError("the disk does not answer", remedy="wait") from TimeoutError()
        return super().create(name, data, exclusive=exclusive)


def test_a_failure_that_is_tolerated_does_not_begin_the_replay_again(tmp_path: Path) -> None:
    """A late record of 1970 would hold everything else for years."""
    now_us = NOW_MS * 1000
    write_logs(tmp_path / "logs", {"a": [now_us - 10 * S_US, now_us - S_US]})
    store = Unreachable(str(tmp_path / "state"))
    options = {"replaySpeed": "11", "tolerableFailedCheckpoints": "1"}
    one = LogQuery(write_logs(tmp_path / "logs", {}), options, now_ms=NOW_MS, store=store)
    one.next_us()
    assert one.at(NOW_MS + 1_000) == [now_us - S_US]
    assert one.numbers()["replayIsLive"] == 1
    write_logs(tmp_path / "logs", {"a": [0, now_us]})
    store.left = 1
    assert one.at(NOW_MS + 2_000) == [0, now_us]
    assert one.numbers()["replayIsLive"] == 1
    assert one.numbers()["failedCheckpoints"] == 1


def test_what_limits_leave_behind_is_told(tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path, maxRowsPerTrigger="5")
    one.next_us()
    assert seconds(one.at(NOW_MS + 1_000)) == [1, 2, 3, 4, 5]
    assert one.numbers()["replayBehindMs"] == 400
    assert seconds(one.next_us()) == [6, 7, 8, 9, 10]
    assert one.numbers()["replayBehindMs"] == 0


def pieces(enumerator: type[Pieces], times_us: list[tuple[int, int]]) -> MicroBatchEngine:
    """A source of splits that are read whole, with these first and last times."""
    ROADS["replay"] = Road(pieces=times_us)
    options = {"road": "replay", "replaySpeed": "60", "eventTimeOrder": "true", "discoveryInterval": "0s"}
    schema = pa.schema([("id", pa.string())])
    one = MicroBatchEngine(options, enumerator=enumerator, reader=PieceReader, schema=schema)
    one.now_ms = NOW_MS
    return one


def test_whole_splits_come_when_their_last_row_is_due() -> None:
    minutes = [(MINUTE[0] + 60 * S_US * n, MINUTE[-1] + 60 * S_US * n) for n in range(4)]
    one = pieces(Pieces, minutes)
    found = []
    for _ in range(50):
        batch = one.run_batch()
        found.append([] if batch is None else [row[0] for row in batch.rows])
        one.now_ms += 100
    # The first minute is over after 59 seconds, which are 983 ms at this speed.
    assert [(place, ids) for place, ids in enumerate(found) if ids] == [
        (10, ["piece-0"]), (20, ["piece-1"]), (30, ["piece-2"]), (40, ["piece-3"])
    ]  # fmt: skip
    assert (one.holder.report() or {})["replayBehindMs"] == 0


class CountedPieces(Pieces):
    """Counts how often a waiting split is looked at."""

    looked = 0

    def _waiting_in_order(self) -> Iterator[Piece]:
        for piece in super()._waiting_in_order():
            CountedPieces.looked += 1
            yield piece


def test_splits_that_are_held_are_not_looked_at_in_each_planning() -> None:
    """An idle query plans a hundred times a second, and thousands of files may wait."""
    one = pieces(CountedPieces, [(us, us) for us in MINUTE])
    one.run_batch()
    before = CountedPieces.looked
    for _ in range(10):
        assert one.run_batch() is None
        one.now_ms += 1
    assert CountedPieces.looked - before < 2 * 60
    ROADS["replay"].pieces.append((MINUTE[1], MINUTE[1]))
    one.now_ms += 50
    batch = one.run_batch()
    assert batch is not None
    assert sorted(row[0] for row in batch.rows) == ["piece-1", "piece-2", "piece-3", "piece-60"]


@pytest.mark.parametrize("gap_s", [0, 600])
def test_a_run_that_ends_reads_all_in_pace(tmp_path: Path, gap_s: int) -> None:
    """``Trigger.AvailableNow``: batches without data keep the run alive where nothing is due."""
    write_logs(tmp_path / "logs", {"a": MINUTE[:30] + [us + gap_s * S_US for us in MINUTE[30:]]})
    one = query(tmp_path, "60", available_now=True)
    sizes = []
    while (batch := one.run_batch()) is not None:
        sizes.append(len(batch.rows))
        one.now_ms += 100
    assert sum(sizes) == 60
    assert max(sizes) <= 7
    # The gap passes at the speed of the replay: six seconds of it between two plannings.
    assert sizes.count(0) == (gap_s // 6 - 1 if gap_s else 0)


def test_one_batch_of_all_that_exists_has_no_pace(tmp_path: Path) -> None:
    """``Trigger.Once``, and ``Trigger.AvailableNow`` before Spark 4.2."""
    write_logs(tmp_path / "logs", {"a": MINUTE})
    one = query(tmp_path)
    offset = one.holder.latest_offset(one.logs.committed, None)
    assert one.log(offset)
    batch = one.run_batch()
    assert batch is not None
    assert len(batch.rows) == 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyPiece:
    """A piece of six rows."""

    split_id: str
    event_time: EventTimeRange | None

    @property
    def size(self) -> SplitSize:
        return SplitSize(rows=6)


class HeavyPieces(DiscoveringEnumerator[HeavyPiece]):
    def discover(self, position: int | None) -> Discovery[HeavyPiece, int]:
        times = ROADS["replay"].pieces[position or 0 :]
        found = [
            HeavyPiece(split_id=str(seconds([at])[0]), event_time=EventTimeRange(at, end))
            for at, end in times
        ]
        return Discovery(found, len(ROADS["replay"].pieces))


def test_what_a_limit_postponed_holds_no_earlier_data_after_a_restart() -> None:
    found = [(MINUTE[0], MINUTE[0]), (MINUTE[1], MINUTE[1]), (MINUTE[2], MINUTE[50])]
    ROADS["replay"] = Road(pieces=found)
    options = {
        "replaySpeed": "10",
        "eventTimeOrder": "true",
        "maxRowsPerTrigger": "10",
        "discoveryInterval": "0s",
    }
    schema = pa.schema([("name", pa.string())])
    engine = MicroBatchEngine(options, enumerator=HeavyPieces, reader=PieceReader, schema=schema)
    engine.now_ms = NOW_MS
    engine.run_batch()
    engine.now_ms += 6_000
    engine.run_batch()  # the third one is due, too, and does not fit
    engine.restart()
    found.append((MINUTE[3], MINUTE[3]))
    for _ in range(3):
        engine.run_batch()
        engine.now_ms += 200
    assert [row[0] for row in engine.rows] == ["0", "1", "3"]
    engine.now_ms += 5_000
    engine.run_batch()
    assert [row[0] for row in engine.rows] == ["0", "1", "3", "2"]
