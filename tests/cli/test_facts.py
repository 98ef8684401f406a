"""The facts that ``state show``, ``watch`` and the page of ``ui`` say in the same words."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.cli.state.rows import Place
from flip27_source.cli.ui.words import catches_up
from flip27_source.cli.watch.facts import facts, runbook
from flip27_source.cli.watch.view import Frame, SubtaskProgress, Watcher
from flip27_source.testing import MicroBatchEngine
from scripts.api_page import error_classes
from tests.cli.command_line import flip27, two_batches
from tests.snapshots.spark_logs import FileQuery
from tests.ui.queries import DiskQuery

NOW = dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)
RUNBOOK = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()


def frame_of(place: Path) -> Frame:
    (frame,) = Watcher(place=Place(location=str(place))).frames(NOW)
    return frame


def said_of(frame: Frame, name: str) -> list[str]:
    return [fact.said for fact in facts(frame) if fact.name == name]


def test_every_error_has_its_section_of_the_runbook() -> None:
    sections = {line.strip("# ").lower() for line in RUNBOOK.splitlines() if line.startswith("#")}
    for kind in error_classes():
        where = runbook(f"{kind.__name__}: it failed") or ""
        section = where.partition("#")[2]
        assert not section or any(section in title for title in sections), kind
    assert (runbook("KafkaError: timed out") or "").endswith("troubleshooting.md#accesserror")
    assert (runbook("ZeroDivisionError: division by zero") or "").endswith("troubleshooting.md")
    assert runbook(None) is None


@pytest.mark.parametrize(
    ("demand", "said"),
    [
        ("required", "reported: 0, 2; gateways closed until they report: 1"),
        ("none", "3 tasks, without reports; all gateways are closed until Spark has committed the batch"),
    ],
)
def test_the_batch_in_progress_says_which_gateways_are_closed(demand: str, said: str) -> None:
    subtasks = [
        SubtaskProgress(subtask=number, splits=1, done=int(number != 1 and demand == "required"))
        for number in range(3)
    ]
    frame = Frame(
        lineage="a", at=NOW, checkpoint_id=1, status="pending", report_demand=demand, subtasks=subtasks
    )
    assert said_of(frame, "batch in progress") == [said]
    assert said_of(replace(frame, status="complete"), "batch in progress") == []


def test_edits_and_savepoints_that_wait_and_those_that_are_done(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.land("a.parquet")
    query.batch()
    state = query.checkpoint / "flip27"
    done = flip27("edit", "replay", "--state", state, "--glob", "*a.parquet", "--why", "again", "--execute")
    assert done.code == 0, done.err
    asked = savepoints.request(state=str(state), to=str(tmp_path / "saved"))
    for is_planned in (False, True):
        if is_planned:
            query.batch()
        (savepoint,) = said_of(frame_of(query.checkpoint), "savepoint")
        assert savepoint.startswith(f"to {asked.target} (waits for a batch, and for the trigger after it)")
        (edit,) = said_of(frame_of(query.checkpoint), "edit")
        assert edit.startswith("replay by ")
        assert ("(waits for the next batch boundary)" in edit) != is_planned
    assert "again (1 split): checkpoint 2, 1970-01-01 00:00:04 UTC, 56 s ago" in edit
    query.land("b.parquet")
    query.batch()
    query.engine.stop()
    (savepoint,) = said_of(frame_of(query.checkpoint), "savepoint")
    assert savepoint.startswith(f"taken in {asked.target}: checkpoint 2, ")


def test_a_query_that_owns_its_savepoint_says_so(tmp_path: Path) -> None:
    origin = two_batches(tmp_path / "origin")
    state = str(origin.checkpoint / "flip27")
    made = savepoints.create(state=state, checkpoint=str(origin.checkpoint), to=str(tmp_path / "saved"))
    for number, claim in enumerate(("noClaim", "claim")):
        fork = FileQuery(tmp_path / f"fork{number}", savepoint=made.directory, savepointClaim=claim)
        fork.land("d.txt")
        fork.batch(now_ms=1_000)
        (said,) = said_of(frame_of(fork.checkpoint), "started from")
        assert said.startswith("savepoint ")
        assert ("it owns" in said and "will delete it" in said) == (claim == "claim")


def test_rows_of_a_source_whose_splits_tell_them_are_known_without_reports(tmp_path: Path) -> None:
    options = {"enumerator": "sequence", "end": "30", "rowsPerSplit": "10", "stateLocation": str(tmp_path)}
    engine = MicroBatchEngine(options)
    for _ in range(3):
        engine.now_ms += 10_000
        engine.run_batch()
    engine.stop()
    (frame,) = Watcher(place=Place(location=str(tmp_path))).frames(NOW.replace(minute=0, second=30))
    assert frame.rows_per_s == 1.0
    query = two_batches(tmp_path / "files")  # files do not tell their rows
    assert frame_of(query.checkpoint).rows_per_s is None


def test_a_source_that_runs_says_when_it_was_heard_of(tmp_path: Path) -> None:
    query = DiskQuery.new(tmp_path)
    query.engine.now_ms = round(NOW.timestamp() * 1000)
    query.land("a.parquet")
    query.batch()
    # Its clock is of 1970.
    frame = replace(frame_of(query.checkpoint), condition="running", at=NOW + dt.timedelta(seconds=9))
    query.engine.stop()
    assert said_of(frame, "last renewal") == ["1970-01-01 00:01:02 UTC, 7.0 s ago"]
    assert said_of(replace(frame, condition="stopped"), "last renewal") == []


def test_a_source_that_is_stopped_says_since_when_it_looks_no_more(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a").write_text("1\n")
    options = {"enumerator": "files", "reader": "text", "path": str(landing)}
    engine = MicroBatchEngine(options | {"stateLocation": str(tmp_path / "state")})
    engine.process_all_available()
    engine.stop()
    frame = frame_of(tmp_path / "state")
    assert frame.condition == "stopped"
    (said,) = said_of(frame, "last discovery")
    assert said.endswith(" ago")
    assert catches_up(frame) == "and nothing looks for more"
    shown = flip27("state", "show", tmp_path / "state").out
    assert said[:19] in shown
    assert said[:19] in flip27("watch", tmp_path / "state").out
