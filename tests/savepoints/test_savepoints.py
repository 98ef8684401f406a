"""Savepoints: created next to a query, moved, and continued from any number of times (scenarios S79-S88)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flip27_source import savepoints
from flip27_source.cli.main import main
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import CorruptStateError, MissingStateError, StateLocationError, StopError
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing import MicroBatchEngine
from tests.driver.batches import Batches
from tests.driver.test_action_runner import Archives
from tests.driver.test_reports import SERVER, Endpoints, Pages, Talker, Tells
from tests.edits.edited import add_files, files
from tests.toy_sources import FEEDS, BulkFeed, EchoReader, Feed, items


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SERVER.clear()
    Talker.heard.clear()
    Archives.done.clear()


def on_disk(kind: Any, reader: Any, state: Path, **options: str) -> Batches:
    return Batches(kind, reader, {"stateLocation": str(state), **options}, store=LocalStore(str(state)))


def with_bulk_state(state: Path, feed: str, number: int, **options: str) -> Batches:
    """A query with bulk state, after the first two of so many items."""
    FEEDS[feed] = items(*(f"{n:03}-{'x' * 100}" for n in range(number)))
    batches = on_disk(BulkFeed, EchoReader, state, feed=feed, **options)
    for _ in range(2):
        batches.batch(Limits(files=1))
    return batches


def paged(state: Path, **options: str) -> Batches:
    return on_disk(Endpoints, Pages, state, pollInterval="0s", maxRowsPerSplit="2", **options)


def saved_after_one_page(folder: Path, rows: str) -> str:
    """The directory of a savepoint of a query that has read its first page of two rows."""
    SERVER["orders"] = list(rows)
    batches = paged(folder / "state")
    batches.batch()
    batches.trigger()
    made = savepoints.create(state=str(folder / "state"), to=str(folder / "saved"))
    assert (made.checkpoint_id, made.batch_id) == (1, None)
    return made.directory


def log_as_spark(batches: Batches, checkpoint: Path, batch_id: int) -> None:
    """Write a committed batch into Spark's logs."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(batches.committed)}")
    (checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


def test_a_new_query_continues_from_the_position_of_the_savepoint_S79(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdef")
    batches = paged(tmp_path / "checkpoint" / "flip27")
    assert batches.batch() == list("ab")
    log_as_spark(batches, tmp_path / "checkpoint", 0)
    made = savepoints.create(state=str(tmp_path / "checkpoint" / "flip27"), to=str(tmp_path / "saved"))
    assert (made.checkpoint_id, made.batch_id) == (1, 0)
    fork = paged(tmp_path / "fork", savepoint=made.directory)
    assert [fork.batch(), fork.batch()] == [list("cd"), list("ef")]
    assert fork.logged["checkpoint"] == 3
    assert [batches.batch(), batches.batch()] == [list("cd"), list("ef")]


def test_a_savepoint_can_be_moved_and_its_origin_deleted_S80(tmp_path: Path) -> None:
    saved = saved_after_one_page(tmp_path, "abcd")
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(saved, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "state")
    for location in (moved, f"{moved}/", f"{moved}/_metadata"):
        fork = paged(tmp_path / f"fork-{len(location)}", savepoint=str(location))
        assert fork.batch() == list("cd")


def test_events_that_were_reported_before_the_savepoint_reach_the_enumerator_of_the_fork(
    tmp_path: Path,
) -> None:
    batches = on_disk(Talker, Tells, tmp_path / "state")
    batches.shelve("a")
    batches.batch()
    log_as_spark(batches, tmp_path, 0)
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    assert Talker.heard == []
    fork = on_disk(Talker, Tells, tmp_path / "fork", savepoint=made.directory)
    assert fork.batch() == ["after-a"]
    assert Talker.heard == ["0:a"]


def test_a_savepoint_commits_nothing_and_its_actions_stay_with_the_first_query_I12(tmp_path: Path) -> None:
    batches = on_disk(Archives, EchoReader, tmp_path / "state")
    batches.shelve("a")
    batches.batch()
    log_as_spark(batches, tmp_path, 0)
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    fork = on_disk(Archives, EchoReader, tmp_path / "fork", savepoint=made.directory)
    assert [fork.batch(), fork.batch()] == [[], None]
    assert fork.enumerator().calls[:3] == ["start", "add_reader 0", "add_reader 1"]
    assert Archives.done == []


def test_bulk_state_is_copied_to_the_savepoint_and_read_by_the_fork(tmp_path: Path) -> None:
    FEEDS["many"] = items(*(f"{n}-{'x' * 100}" for n in range(300)))
    batches = on_disk(Feed, EchoReader, tmp_path / "state", feed="many")
    batches.batch(Limits(files=100))
    batches.batch(Limits(files=100))
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    assert list(Path(made.directory, "segments").iterdir())
    shutil.rmtree(tmp_path / "state")
    fork = on_disk(Feed, EchoReader, tmp_path / "fork", feed="many", savepoint=made.directory)
    assert len(fork.batch() or []) == 200


def test_a_savepoint_outlives_the_checkpoints_that_were_made_after_it_S35(tmp_path: Path) -> None:
    SERVER["orders"] = [str(number) for number in range(60)]
    batches = paged(tmp_path / "state", retainedCheckpoints="2")
    batches.batch()
    batches.batch()
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    for _ in range(25):
        batches.batch()
    batches.wait_for_clean_up()
    assert len(list((tmp_path / "state").glob("*/checkpoints/*"))) < 15
    fork = paged(tmp_path / "fork", savepoint=made.directory)
    assert fork.batch() == ["2", "3"]


@pytest.mark.parametrize("location", ["nowhere", "nowhere/_metadata", "empty"])
def test_the_error_for_an_invalid_savepoint_path_says_what_a_savepoint_is_S83(
    tmp_path: Path, location: str
) -> None:
    (tmp_path / "empty").mkdir()
    SERVER["orders"] = ["a"]
    fork = paged(tmp_path / "fork", savepoint=str(tmp_path / location))
    with pytest.raises(
        StateLocationError, match=r"there is no savepoint at .*: the file _metadata does not exist"
    ):
        fork.batch()


@pytest.mark.parametrize("how", ["cut off", "altered", "segment gone", "report altered"])
def test_a_damaged_savepoint_is_refused_R11(tmp_path: Path, how: str) -> None:
    saved = saved_after_one_page(tmp_path, "abcdef")
    metadata = Path(saved, "_metadata")
    (report,) = Path(saved, "reports").iterdir()
    match how:
        case "cut off":
            metadata.write_text(metadata.read_text()[:-30])
        case "altered":
            metadata.write_text(metadata.read_text().replace('"next": 0', '"next": 1'))
        case "segment gone":
            metadata.write_text(metadata.read_text().replace('"json"', '"bytes"'))
        case _:
            report.write_text(report.read_text().replace('"next":2', '"next":4'))
    fork = paged(tmp_path / "fork", savepoint=saved)
    with pytest.raises(CorruptStateError):
        fork.batch()


def test_a_checkpoint_whose_subtasks_have_not_all_reported_makes_no_savepoint(tmp_path: Path) -> None:
    batches = on_disk(Talker, Tells, tmp_path / "state")
    batches.shelve("a")
    batches.trigger()
    batches.commit()
    log_as_spark(batches, tmp_path, 0)
    with pytest.raises(MissingStateError, match="is not complete: 0 of its 1 subtasks have reported"):
        savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    assert not list((tmp_path / "saved").glob("*/_metadata"))


def test_with_several_lineages_a_savepoint_needs_one_of_them(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcd")
    for _ in range(2):
        batches = paged(tmp_path / "state")
        batches.batch()
        batches.batch()
    with pytest.raises(StateLocationError, match="contains 2 lineages") as caught:
        savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    lineage = min(path.name for path in (tmp_path / "state").iterdir())
    assert lineage in str(caught.value)
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"), lineage=lineage)
    assert made.checkpoint_id == 1


def test_the_command_prints_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["savepoint", "create", "--state", str(tmp_path), "--to", str(tmp_path / "saved")]) == 1
    assert "give the stateLocation of the query" in capsys.readouterr().err


def test_a_failed_stop_names_the_savepoint_which_is_complete_S87(tmp_path: Path) -> None:
    class Stuck:
        def stop(self) -> None:
            raise TimeoutError("it did not stop within 30 s")

    SERVER["orders"] = list("abcd")
    batches = paged(tmp_path / "state")
    batches.batch()
    log_as_spark(batches, tmp_path, 0)
    with pytest.raises(StopError, match=r"A savepoint was created at .*/savepoint-1-[0-9a-f]+") as caught:
        savepoints.stop_with_savepoint(Stuck(), str(tmp_path / "saved"), state=str(tmp_path / "state"))
    directory = str(caught.value).partition("created at ")[2].partition("\n")[0]
    assert paged(tmp_path / "fork", savepoint=directory).batch() == list("cd")


def test_a_query_whose_state_location_is_unknown_is_not_stopped(tmp_path: Path) -> None:
    class OfSparkConnect:
        def stop(self) -> None:
            raise AssertionError("it was stopped")

    with pytest.raises(StateLocationError, match="Spark Connect does not provide it"):
        savepoints.stop_with_savepoint(OfSparkConnect(), str(tmp_path / "saved"))


def test_a_savepoint_is_written_to_its_folder_and_nowhere_else_S84_S85(tmp_path: Path) -> None:
    FEEDS["many"] = items(*(f"{n}-{'x' * 100}" for n in range(30)))
    batches = on_disk(Feed, EchoReader, tmp_path / "state", feed="many", taskReports="always")
    batches.batch(Limits(files=20))
    batches.batch(Limits(files=5))
    before = {path: path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()}
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved" / "here"))
    assert Path(made.directory).parent == tmp_path / "saved" / "here"
    assert {path: path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()} == before
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before.keys()
    assert all(path.is_relative_to(made.directory) for path in written)
    assert {path.parent.name for path in written} == {Path(made.directory).name, "segments", "reports"}
    assert str(tmp_path) not in Path(made.directory, "_metadata").read_text()
    with pytest.raises(TypeError, match="to"):
        savepoints.create(state=str(tmp_path / "state"))  # type: ignore[call-arg]


def test_rows_left_unread_by_a_stop_are_read_by_the_fork_and_no_split_is_finished_S86(tmp_path: Path) -> None:
    class Stopped:
        def stop(self) -> None:
            pass

    SERVER["orders"] = list("abcdef")
    batches = paged(tmp_path / "state")
    assert batches.batch() == list("ab")
    log_as_spark(batches, tmp_path, 0)
    made = savepoints.stop_with_savepoint(Stopped(), str(tmp_path / "saved"), state=str(tmp_path / "state"))
    fork = paged(tmp_path / "fork", savepoint=made.directory)
    assert [fork.batch(), fork.batch()] == [list("cd"), list("ef")]


def test_a_savepoint_of_a_source_that_was_read_to_its_end_reads_nothing_again_S88(tmp_path: Path) -> None:
    FEEDS["few"] = items("a", "b")
    batches = on_disk(Feed, EchoReader, tmp_path / "state", feed="few")
    assert batches.batch() == ["a", "b"]
    log_as_spark(batches, tmp_path, 0)
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    fork = on_disk(Feed, EchoReader, tmp_path / "fork", feed="few", savepoint=made.directory)
    assert [fork.batch(), fork.batch()] == [[], None]
    FEEDS["few"] += items("c")
    assert fork.batch() == ["c"]


def test_a_query_whose_first_batch_finds_nothing_has_a_state_of_its_own(tmp_path: Path) -> None:
    source = files(tmp_path, "ab")
    assert source.batches() == [["a", "b"]]
    add_files(tmp_path, "c")
    source.engine.trigger()
    saved = savepoints.create(state=source.state, to=str(tmp_path / "saved"))
    (tmp_path / "in" / "c").unlink()
    fork = MicroBatchEngine(
        {**source.engine.given.options, "stateLocation": f"{tmp_path}/fork", "savepoint": saved.directory}
    )
    batch = fork.run_batch()
    assert batch is not None
    assert batch.rows == ()
    shutil.rmtree(saved.directory)
    fork.restart(options={"savepoint": None})
    add_files(tmp_path, "d")
    assert [batch.rows for batch in fork.process_all_available()] == [(("d",),)]
