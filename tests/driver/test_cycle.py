"""The order of the steps between two batches: complete, edit, act, discover, plan, write."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.errors import QuarantineError, StaleDriverError
from flip27_source.testing import MicroBatchEngine
from tests.driver.batches import SCHEMA, Batches
from tests.driver.test_action_runner import Archives, performed
from tests.edits.edited import Edited, files
from tests.toy_sources import FEEDS, EchoReader, Feed, Fragile, items


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Archives.done.clear()
    Archives.broken.clear()
    Fragile.mend()


def landed(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "in").iterdir())


@pytest.mark.parametrize("edit", ["rewind", "replay"])
def test_a_waiting_edit_drops_side_effects_before_they_start(edit: str, tmp_path: Path) -> None:
    source = files(tmp_path, "abcd", cleanSource="delete")
    assert [source.batch(), source.batch()] == [["a", "b"], ["c", "d"]]
    assert landed(tmp_path) == ["c", "d"]
    source.engine.stop()
    what = {"to_checkpoint": 1} if edit == "rewind" else {"glob": "*/[cd]"}
    source.ask(edit, **what)
    source.engine.restart()
    assert source.batch() == ["c", "d"]
    assert landed(tmp_path) == ["c", "d"]
    assert source.batch() is None
    assert landed(tmp_path) == []


def test_a_driver_that_was_replaced_starts_no_side_effect() -> None:
    batches = Batches(Archives, EchoReader)
    batches.shelve("a")
    batches.batch()
    suspended, start = batches.holder, batches.committed
    batches.restart()
    batches.trigger()
    assert performed("archive a")
    with pytest.raises(StaleDriverError):
        suspended.latest_offset(start, None)
    assert Archives.done == ["archive a"]


def test_a_side_effect_that_still_waits_when_a_driver_is_replaced_does_not_happen() -> None:
    """A driver that was suspended between two side effects must not go on with the second one."""
    batches = Batches(Archives, EchoReader)
    batches.shelve("a")
    batches.batch()
    batches.trigger()
    older = batches.holder.cycle
    batches.restart()
    batches.trigger()
    batches.now_ms += 10_000
    assert older.run is not None
    older.run.actions.submit([(0, "archive b")])
    ended: list[tuple[int, str | None]] = []
    while not ended:
        ended = older.run.actions.drain()
    assert "StaleDriverError" in (ended[0][1] or "")
    assert "archive b" not in Archives.done


@pytest.mark.parametrize(("operation", "then"), [("quarantine drop", []), ("quarantine retry", ["b", "c"])])
def test_a_waiting_edit_empties_the_quarantine_before_its_limit_is_checked(
    operation: str, then: list[str], tmp_path: Path
) -> None:
    FEEDS["fragile"] = items("a", "b", "c")
    Fragile.broken = {"b", "c"}
    options = {
        "feed": "fragile", "onSplitError": "quarantine", "maxSplitAttempts": "1", "maxQuarantinedSplits": "1",
        "maxFilesPerTrigger": "1",
    }  # fmt: skip
    source = Edited(tmp_path, options, enumerator=Feed, reader=Fragile, schema=SCHEMA)
    with pytest.raises(QuarantineError, match="more than maxQuarantinedSplits=1"):
        source.batches()
    source.engine.restart()
    with pytest.raises(QuarantineError, match="flip27 edit quarantine"):
        source.batch()
    Fragile.mend()
    source.ask(operation, glob="*")
    source.engine.restart()
    assert [row for batch in source.batches() for row in batch] == then


def test_resting_splits_are_read_again_although_the_clock_was_set_back() -> None:
    from tests.driver.test_reports import SERVER, Endpoints, Pages

    SERVER["orders"] = ["a"]
    engine = MicroBatchEngine({"pollInterval": "5s"}, enumerator=Endpoints, reader=Pages, schema=SCHEMA)
    assert engine.run_batch() is not None
    engine.clock_error_ms = -3_600_000
    SERVER["orders"] += ["b"]
    assert engine.run_batch() is None
    engine.now_ms += 5_000
    batch = engine.run_batch()
    assert batch is not None
    assert batch.rows == (("b",),)
