"""Tasks find the state location of their driver, or say that they do not share it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import StateLocationError
from flip27_source.executor.subtask import read_subtask
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.source import Source
from tests.driver.batches import SCHEMA
from tests.toy_sources import FEEDS, INITIAL, EchoReader, Feed, items


def planned(location: str) -> tuple[Source, PlannedSubtask]:
    FEEDS["shared"] = items("a")
    options = {"feed": "shared", "stateLocation": location, "onSplitError": "quarantine"}
    source = Source.resolve(options, enumerator=Feed, reader=EchoReader)
    holder = CoordinatorHolder(source, Boundedness.CONTINUOUS_UNBOUNDED)
    (task,) = holder.plan(INITIAL, holder.latest_offset(INITIAL, None))
    holder.close()
    return source, task


def rows(source: Source, task: PlannedSubtask) -> list[object]:
    context = SourceReaderContext(options=source.options, schema=SCHEMA, checkpoint_id=task.checkpoint_id)
    return [row[0] for row in read_subtask(source, task, context)]


@pytest.mark.parametrize("location", ["state", "./deep/../state"])
def test_a_task_writes_below_the_drivers_working_directory_wherever_it_runs(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, task = planned(location)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert rows(source, task) == ["a"]
    assert len(list((tmp_path / "state").glob("*/reports/*"))) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_state_location_that_a_task_does_not_share_is_named_before_a_row_is_read(tmp_path: Path) -> None:
    source, task = planned(str(tmp_path / "state"))
    other = tmp_path / "of-another-host"
    other.mkdir()
    with pytest.raises(StateLocationError, match="do not share that directory") as caught:
        rows(source, replace(task, state=str(other)))
    assert str(other) in str(caught.value)
    assert socket.gethostname() in str(caught.value)
