"""Splits that turn out to be unreadable after the tasks of their batch have reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_source.coordination.data_losses import DataLoss
from flip27_source.coordination.subtask_reports import SplitResult, SplitStatus
from flip27_source.errors import CorruptStateError
from flip27_source.snapshots.late_reports import LateReports
from flip27_source.snapshots.store import MemoryStore
from flip27_source.testing import MicroBatchEngine


def test_a_late_report_sets_a_split_aside_when_the_batch_is_complete(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    for name in ("a", "b", "c"):
        (landing / name).write_text(name)
    engine = MicroBatchEngine(
        {"path": str(landing), "enumerator": "files", "reader": "splits", "onSplitError": "quarantine"},
        available_now=True,
    )
    assert engine.store is not None
    (batch,) = engine.process_all_available()
    names = {row[-1] for row in batch.rows}
    late = LateReports.of(engine.store, names.pop())
    failed = SplitResult(split_id=str(landing / "b"), status=SplitStatus.FAILED, error="torn", attempts=2)
    ignored = SplitResult(split_id=str(landing / "c"), status=SplitStatus.IGNORED, error="gone", attempts=1)
    late.add([failed], [])
    late.add([ignored], [DataLoss(checkpoint_id=1, split_id=str(landing / "c"), what="gone")])
    engine.restart()
    engine.process_all_available()
    ledger = engine.holder.coordinator_at(engine.logs.committed).standing(0).ledger
    assert [(one.split.split_id, one.error) for one in ledger.quarantined] == [(str(landing / "b"), "torn")]
    assert [item.split.split_id for item in ledger.ignored] == [str(landing / "c")]


def test_late_reports_are_added_and_never_replaced() -> None:
    store = MemoryStore()
    name = f"files-{'0' * 16}/3-{'a' * 32}"
    first, second = (
        SplitResult(split_id=split, status=SplitStatus.FAILED, error="e", attempts=1) for split in ("x", "y")
    )
    LateReports.of(store, name).add([first], [])
    LateReports.of(store, name).add([second], [])
    assert [report.results for report in LateReports.of(store, name).read()] == [(first,), (second,)]


def test_a_name_that_leads_out_of_the_state_location_is_refused() -> None:
    for name in ("../x-0000000000000000/3-" + "a" * 32, "files-" + "0" * 16 + "/../3"):
        with pytest.raises(CorruptStateError, match="is not the name of a"):
            LateReports.of(MemoryStore(), name)
