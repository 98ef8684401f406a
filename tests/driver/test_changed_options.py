"""Options and readers that change between two runs never change a batch of an earlier run (R18)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_source import edits, savepoints
from flip27_source.errors import OptionError, QuarantineError, SplitReadError
from flip27_source.events import Progress
from flip27_source.reader import SplitReader, YieldsProgress
from flip27_source.testing import MicroBatchEngine, Step
from tests.driver.batches import Batches
from tests.toy_sources import AssignsOnce, Item, items

MENDED = gzip.compress(b"b\n")
LANDED = {"a": b"a\n", "b.gz": b"x" * len(MENDED), "c": b"c\n"}


def query(tmp_path: Path, **options: str) -> MicroBatchEngine:
    """A query on three files, of which one cannot be read."""
    landing = tmp_path / "landing"
    landing.mkdir(exist_ok=True)
    for name, data in LANDED.items():
        (landing / name).write_bytes(data)
    given = {
        "enumerator": "files", "reader": "text", "path": str(landing), "requestInterval": "0s",
        "stateLocation": str(tmp_path / "state"), "maxSplitAttempts": "1",
    }  # fmt: skip
    return MicroBatchEngine({**given, **options}, available_now=True)


def rows(engine: MicroBatchEngine) -> list[str]:
    return sorted(row[0] for row in engine.rows)


def read_with(engine: MicroBatchEngine, **options: str) -> None:
    """The batch fails, and is repeated with other options until nothing is new."""
    with pytest.raises(SplitReadError):
        engine.run_batch()
    engine.restart(options=options)
    engine.process_all_available()


def numbers(engine: MicroBatchEngine) -> dict[str, object]:
    report = engine.holder.report()
    assert report is not None
    return report


def test_a_split_that_a_restart_has_quarantined_stays_quarantined_without_the_option(tmp_path: Path) -> None:
    engine = query(tmp_path, cleanSource="delete")
    read_with(engine, onSplitError="quarantine")
    engine.restart(options={"onSplitError": None})
    engine.process_all_available()
    assert rows(engine) == ["a", "c"]
    assert numbers(engine)["quarantinedSplits"] == 1
    engine.restart()
    engine.process_all_available()
    assert {path.name for path in (tmp_path / "landing").iterdir()} == {"b.gz"}


def test_a_split_that_a_restart_has_quarantined_can_be_retried_without_the_option(tmp_path: Path) -> None:
    engine = query(tmp_path)
    read_with(engine, onSplitError="quarantine")
    (tmp_path / "landing" / "b.gz").unlink()
    engine.restart(options={"onSplitError": None})
    engine.process_all_available()
    plan = edits.plan("quarantine retry", state=str(tmp_path / "state"), why="mended", glob="*")
    assert [change.split_id for change in plan.changes] == [str(tmp_path / "landing" / "b.gz")]


def test_an_ignored_split_of_a_restart_is_counted_without_the_option(tmp_path: Path) -> None:
    engine = query(tmp_path)
    read_with(engine, onSplitError="ignore")
    engine.restart(options={"onSplitError": None})
    engine.process_all_available()
    assert numbers(engine)["ignoredSplits"] == 1


def test_a_loss_that_a_restart_has_reported_is_counted_without_the_option(tmp_path: Path) -> None:
    engine = query(tmp_path)
    assert engine.trigger()
    (tmp_path / "landing" / "a").unlink()
    read_with(engine, onDataLoss="report", onSplitError="quarantine")
    engine.restart(options={"onDataLoss": None, "onSplitError": None})
    engine.process_all_available()
    assert rows(engine) == ["c"]
    assert (numbers(engine)["dataLosses"], numbers(engine)["quarantinedSplits"]) == (1, 1)


def test_a_fork_without_the_option_knows_what_its_savepoint_has_quarantined(tmp_path: Path) -> None:
    engine = query(tmp_path)
    read_with(engine, onSplitError="quarantine")
    (tmp_path / "landing" / "d").write_bytes(b"d\n")
    engine.restart()
    engine.trigger()  # now the checkpoint with the quarantined split is known to be complete
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    assert made.checkpoint_id == 1
    fork = query(tmp_path, savepoint=made.directory, stateLocation=str(tmp_path / "fork"))
    fork.process_all_available()
    assert rows(fork) == ["d"]
    assert numbers(fork)["quarantinedSplits"] == 1


@pytest.mark.parametrize("policy", ["ignore", "quarantine"])
def test_a_batch_that_was_planned_inside_the_offset_leaves_no_split_out_uncounted(
    policy: str, tmp_path: Path
) -> None:
    landing = query(tmp_path).source.options["path"]
    options = {"enumerator": "files", "reader": "text", "path": landing, "maxSplitAttempts": "1"}
    engine = MicroBatchEngine(options, inline_state=True)
    with pytest.raises(SplitReadError):
        engine.run_batch()
    later = MicroBatchEngine({**options, "onSplitError": policy, "stateLocation": str(tmp_path / "state")})
    later.logs, later.sink = engine.logs, engine.sink
    with pytest.raises(SplitReadError):
        later.run_batch()
    assert rows(later) == []
    # The remedy: the newest file in Spark's offsets folder is deleted, and the batch is planned anew.
    later.logs.forget_uncommitted()
    later.restart()
    later.process_all_available()
    assert rows(later) == ["a", "c"]
    left_out = "quarantinedSplits" if policy == "quarantine" else "ignoredSplits"
    assert numbers(later)[left_out] == 1


def test_a_batch_keeps_the_splits_that_its_reports_have_quarantined_when_it_is_repeated_without_the_option(
    tmp_path: Path,
) -> None:
    engine = query(tmp_path, onSplitError="quarantine")
    engine.crash_at(Step.TASKS_ENDED)
    with pytest.raises(Exception, match="killed"):
        engine.run_batch()
    engine.restart(options={"onSplitError": "fail"})
    engine.process_all_available()
    assert rows(engine) == ["a", "c"]
    assert numbers(engine)["quarantinedSplits"] == 1


def test_what_a_repetition_has_quarantined_is_not_delivered_by_the_next_one_which_has_the_first_options(
    tmp_path: Path,
) -> None:
    engine = query(tmp_path)
    with pytest.raises(SplitReadError):
        engine.run_batch()
    engine.restart(options={"onSplitError": "quarantine"})
    engine.crash_at(Step.TASKS_ENDED)
    with pytest.raises(Exception, match="killed"):
        engine.run_batch()
    (tmp_path / "landing" / "b.gz").write_bytes(MENDED)
    engine.restart(options={"onSplitError": None})
    engine.process_all_available()
    engine.restart()
    assert rows(engine) == ["a", "c"]
    edits.submit(edits.plan("quarantine retry", state=str(tmp_path / "state"), why="mended", glob="*"))
    engine.process_all_available()
    assert rows(engine) == ["a", "b", "c"]


def test_a_query_continues_after_options_that_were_tried_for_one_batch(tmp_path: Path) -> None:
    engine = query(tmp_path)
    for options in ({}, {"onSplitError": "quarantine", "maxQuarantinedSplits": "0"}):
        engine.restart(options=options)
        with pytest.raises((SplitReadError, QuarantineError)):
            engine.run_batch()
    (tmp_path / "landing" / "b.gz").write_bytes(MENDED)
    engine.restart(options={"onSplitError": None, "maxQuarantinedSplits": None})
    engine.process_all_available()
    (tmp_path / "landing" / "d").write_bytes(b"d\n")
    engine.restart()
    engine.process_all_available()
    assert rows(engine) == ["a", "b", "c", "d"]


class One(AssignsOnce[Item]):
    def splits(self) -> list[Item]:
        return items("a")


class Whole(SplitReader[Item]):
    def read(self, split: Item) -> Iterator[Any]:
        yield (split.split_id,)


class Pages(YieldsProgress, Whole):
    def read(self, split: Item) -> Iterator[Any]:
        yield from super().read(split)
        yield Progress(None)


def after(batches: Batches, reader: type[Whole]) -> Batches:
    """The query, restarted with another reader."""
    again = Batches(One, reader, batches.options, store=batches.store)
    again.logs = batches.logs
    return again


@pytest.mark.parametrize("on_error", ["fail", "quarantine"])
@pytest.mark.parametrize(("first", "second"), [(Whole, Pages), (Pages, Whole)])
class TestChangedReader:
    def test_a_complete_batch_is_not_read_again(self, first: Any, second: Any, on_error: str) -> None:
        batches = Batches(One, first, {"onSplitError": on_error})
        assert batches.batch() == ["a"]
        again = after(batches, second)
        assert again.batch() is None
        assert again.holder.coordinator_at(again.logged).standing(0).ledger.finished == 1

    def test_a_batch_is_repeated_only_with_its_own_reader(
        self, first: Any, second: Any, on_error: str
    ) -> None:
        batches = Batches(One, first, {"onSplitError": on_error})
        assert batches.trigger()
        with pytest.raises(OptionError, match=f"set option reader to '{first.__name__}'"):
            after(batches, second).tasks()
        again = after(batches, first)
        assert [row for task in again.tasks() for row in again.attempt(task)] == ["a"]
        again.commit()
        assert after(again, second).batch() is None
