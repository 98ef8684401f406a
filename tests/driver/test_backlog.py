"""The backlog: reported in splits, rows, bytes and time, wherever a query's numbers are shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flip27_source import Backlog, BoundedRange, Budget, SplitSize
from flip27_source.cli.state.rows import Place
from flip27_source.cli.watch.view import Watcher
from flip27_source.coordination.batch_limits import Limits
from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.enumerators.sequence import SequenceEnumerator
from flip27_source.errors import ContractError
from flip27_source.metrics.progress import read_progress
from flip27_source.readers.text import TextReader
from tests.driver.batches import Batches, InlineBatches
from tests.snapshots.spark_logs import FileQuery
from tests.toy_sources import AssignsOnce, EchoReader, Item, Shelf

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A range of offsets of one partition of a topic."""

    split_id: str
    start: int = 0
    end: int | None = None

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=None if self.end is None else self.end - self.start)


LATEST: dict[str, int] = {}


class Topic(AssignsOnce[Partition]):
    """Partitions that never end; each can be read up to its offset in LATEST."""

    def splits(self) -> list[Partition]:
        return [Partition(split_id=name) for name in LATEST]

    def bound_split(self, split: Partition, budget: Budget) -> BoundedRange[Partition] | None:
        end = LATEST[split.split_id]
        if budget.rows is not None:
            end = min(end, split.start + budget.rows)
        if end == split.start:
            return None
        return BoundedRange(read=replace(split, end=end), rest=replace(split, start=end))


class TimedTopic(Topic):
    """A topic that also reports since when its oldest record has been waiting."""

    def backlog(self, live: Sequence[Partition]) -> Backlog:
        return replace(super().backlog(live), oldest_event_time=NOON)


def told(batches: Batches) -> dict[str, Any]:
    """The numbers of the backlog, which must be the same in Spark's progress and in the offset."""
    report = {k: v for k, v in (batches.holder.report() or {}).items() if k.startswith("backlog")}
    summary = {k: v for k, v in batches.logged["summary"].items() if k.startswith("backlog")}
    assert report == summary
    return report


@pytest.fixture(autouse=True)
def _topic() -> None:
    LATEST.clear()
    LATEST.update({"orders-0": 10_000, "orders-1": 392, "orders-2": 0})


def test_bound_split_reports_the_rows_that_a_batch_leaves_waiting() -> None:
    batches = Batches(Topic, EchoReader)
    assert batches.batch(Limits(rows=200)) is not None
    assert told(batches) == {"backlogSplits": 2, "backlogRows": 10_192}
    batches.restart()
    assert batches.batch() is not None
    assert told(batches) == {"backlogSplits": 0, "backlogRows": 0, "backlogBytes": 0}
    LATEST["orders-2"] = 7
    assert batches.batch(Limits(rows=5)) is not None
    assert told(batches) == {"backlogSplits": 1, "backlogRows": 2}


def test_the_enumerator_reports_the_time_of_the_oldest_waiting_record() -> None:
    batches = Batches(TimedTopic, EchoReader)
    batches.batch(Limits(rows=200))
    assert told(batches)["backlogOldestEventTime"] == "2026-01-01T12:00:00+00:00"


def test_a_restart_without_new_data_also_reports_the_backlog() -> None:
    batches = Batches(Topic, EchoReader)
    batches.batch()
    batches.restart()
    assert not batches.trigger()
    assert (batches.holder.report() or {})["backlogRows"] == 0


def test_waiting_files_are_counted_with_their_bytes(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 200), ("c", 3000)):
        (tmp_path / f"{name}.txt").write_text("x" * size)
    batches = InlineBatches(FilesEnumerator, TextReader, {"path": str(tmp_path), "discoveryInterval": "1h"})
    assert batches.batch(Limits(files=1)) is not None
    assert told(batches) == {"backlogSplits": 2, "backlogBytes": 3200}
    batches.restart()
    assert batches.batch(Limits(files=1)) is not None
    assert told(batches) == {"backlogSplits": 1, "backlogBytes": 3000}


def test_a_sequence_reports_its_number_of_rows_unless_it_never_ends() -> None:
    bounded = Batches(SequenceEnumerator, EchoReader, {"end": "100", "rowsPerSplit": "30", "numSplits": "2"})
    bounded.batch()
    assert told(bounded) == {"backlogSplits": 2, "backlogRows": 40, "backlogBytes": 320}
    endless = Batches(SequenceEnumerator, EchoReader, {"rowsPerSplit": "30"})
    endless.batch()
    assert told(endless) == {"backlogSplits": 1}


def test_splits_held_back_by_a_limit_are_in_the_backlog_although_the_enumerator_no_longer_has_them() -> None:
    batches = Batches(Shelf, EchoReader)
    batches.enumerator().shelf.extend(Item(split_id=name, rows=5) for name in "abc")
    batches.batch(Limits(rows=7))
    assert told(batches)["backlogSplits"] == 1
    assert "backlogRows" not in told(batches)  # a Shelf does not report what is still on it


class Boasting(Shelf):
    def backlog(self, live: Sequence[Item]) -> Any:
        return 17


def test_a_backlog_of_another_type_is_refused_by_name() -> None:
    batches = Batches(Boasting, EchoReader)
    batches.shelve("a")
    with pytest.raises(ContractError, match="backlog of Boasting returned a int"):
        batches.batch()


def test_watch_shows_the_backlog(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.limits = Limits(files=2)
    query.land("a.txt", "b.txt", "c.txt", "d.txt", "e.txt")
    query.batch(now_ms=1_000)
    size = sum((tmp_path / "landing" / f"{name}.txt").stat().st_size for name in "cde")
    watcher = Watcher(place=Place(location=str(query.checkpoint)))
    (frame,) = watcher.frames(NOON)
    assert (frame.backlog, frame.backlog_rows, frame.backlog_bytes) == (3, None, size)
    query.batch(now_ms=2_000)
    (frame,) = watcher.frames(NOON)
    assert frame.backlog == 1


def progress_of(batches: Batches) -> Any:
    source = {"startOffset": None, "endOffset": batches.logged, "latestOffset": batches.holder.report()}
    progress = {
        "id": "q", "batchId": 0, "timestamp": "2026-01-01T00:00:00Z", "batchDuration": 1, "sources": [source],
    }  # fmt: skip
    (found,) = read_progress(progress).sources
    return found


def test_progress_recognizes_the_backlog_fields_and_does_not_show_them_as_gauges() -> None:
    batches = Batches(TimedTopic, EchoReader)
    batches.batch(Limits(rows=200))
    found = progress_of(batches)
    assert (found.backlog_splits, found.backlog_rows, found.backlog_bytes) == (2, 10_192, None)
    assert found.oldest_event_time == NOON
    assert dict(found.gauges) == {}
