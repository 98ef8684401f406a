"""Requests for edits: applied once wherever the query crashes, listed, withdrawn, left alone if damaged."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flip27_source import edits, savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import EditError, StateLocationError
from flip27_source.segment import content_digest
from flip27_source.snapshots.request_mailbox import Mailbox
from flip27_source.snapshots.store import LocalStore
from tests.driver.batches import Batches
from tests.edits.edited import IDS, Edited, add_files, fed, files
from tests.toy_sources import FEEDS, EchoReader, Feed, items


def crashed_everywhere(folder: Path, begun: Callable[[Path], Edited]) -> Iterator[Edited]:
    """For each step of the further batches of ``begun``, a run that crashes once at that step."""
    rehearsal = begun(folder / "rehearsal")
    before = len(rehearsal.engine.passed)
    rehearsal.batches()
    steps = rehearsal.engine.passed[before:]
    assert len(steps) > 20
    for number, passing in enumerate(steps):
        run = begun(folder / str(number))
        run.engine.crash_at(passing.step, batch_id=passing.batch_id, nth=passing.nth)
        run.engine.process_all_available(through_crashes=True)
        yield run


def rows(edited: Edited) -> list[Any]:
    return sorted(row[0] for row in edited.engine.rows)


def test_passwords_in_the_words_of_an_author_are_not_stored(tmp_path: Path) -> None:
    source = fed(tmp_path)
    source.batch()
    plan = edits.plan(
        "replay",
        state=source.state,
        glob="*",
        why="as on https://ann:hunter2@host/?sig=hunter3",
        who="ftp://b:hunter4@c",
    )
    edits.submit(plan)
    source.batch()
    assert (plan.request.why, plan.request.who) == ("as on https://host/?sig=***", "ftp://c")
    stored = [path.read_bytes() for path in Path(source.state).rglob("*") if path.is_file()]
    assert not [data for data in stored if b"hunter" in data]


def test_a_replay_happens_once_wherever_the_query_dies(tmp_path: Path) -> None:
    def begun(folder: Path) -> Edited:
        feed = fed(folder, "abcd")
        feed.batch()
        feed.ask("replay", splits=["a"])
        return feed

    for run in crashed_everywhere(tmp_path, begun):
        assert rows(run) == ["a", "a", "b", "c", "d"]
        FEEDS["edited"] += items("e")
        run.batches()
        assert (rows(run), run.request_files()) == (["a", "a", "b", "c", "d", "e"], [])


def test_two_edits_at_one_batch_boundary_happen_once_each_wherever_the_query_dies(tmp_path: Path) -> None:
    def begun(folder: Path) -> Edited:
        folder.mkdir(exist_ok=True)
        source = files(folder, "abcdef")
        source.batch()
        source.batch()
        source.ask("rewind", to_checkpoint=1)
        source.ask("skip", glob="*/f")
        return source

    for run in crashed_everywhere(tmp_path, begun):
        assert rows(run) == ["a", "b", "c", "c", "d", "d", "e"]
        operations = [edit["operation"] for edit in run.history(of_the_line=True)]
        assert operations == ["rewind", "skip"]


def test_edits_at_one_batch_boundary_are_applied_in_the_order_of_their_requests(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batches()
    source.ask("forget", glob="*/a")
    source.ask("rewind", to_checkpoint=2)
    assert source.batches() == [["e", "f"]]
    assert [edit["operation"] for edit in source.history()] == ["forget", "rewind"]


def test_a_requester_whose_clock_is_behind_does_not_come_first(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    assert feed.batch() == ["a", "b"]
    feed.ask("replay", splits=["a"])
    skip = feed.plan("skip", splits=["a"])
    edits.submit(replace(skip, request=replace(skip.request, requested_us=1)))
    assert feed.batch() == ["c", "d"]
    assert [edit["operation"] for edit in feed.history()] == ["replay", "skip"]


def test_a_batch_with_an_edit_that_is_read_again_after_a_crash_is_the_same_batch(tmp_path: Path) -> None:
    feed = fed(tmp_path, "abc")
    feed.batch()
    feed.ask("replay", splits=["b"])
    feed.engine.trigger()
    planned = feed.engine.partitions()
    feed.engine.restart()
    assert feed.engine.partitions() == planned
    assert [feed.batch(), feed.batch()] == [["b", "c"], None]


def test_a_run_that_ends_by_itself_applies_requested_edits_before_it_ends(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batches()
    source.ask("rewind", to_checkpoint=1)
    source.engine.restart(available_now=True)
    assert source.batches() == [["c", "d"]]
    source.ask("forget", glob="*/a")
    source.engine.restart(available_now=True)
    assert source.batches() == [["a"]]


def test_an_edit_in_a_checkpoint_that_spark_did_not_log_is_applied_by_the_next_driver(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    feed.ask("replay", splits=["a"])
    lost = feed.engine.holder.latest_offset(json.loads(feed.engine.logs.offsets[0]), None)
    feed.engine.restart()
    assert feed.batch() == ["a", "c"]
    assert lost["checkpoint"] == 2
    assert len(feed.history(of_the_line=True)) == 1


def test_a_request_that_cannot_be_deleted_is_applied_once_and_deleted_later(tmp_path: Path) -> None:
    def fails(*_: Any) -> None:
        raise StateLocationError("deleting is not allowed here")

    feed = fed(tmp_path)
    feed.batch()
    feed.ask("replay", splits=["a"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mailbox, "delete", fails)
        assert [feed.batch(), feed.batch()] == [["a", "c"], ["d", "e"]]
        feed.engine.restart()
        assert feed.batch() == ["f"]
    assert len(feed.request_files()) == 1
    feed.engine.restart()
    assert feed.batch() is None
    assert feed.request_files() == []


def test_an_edit_that_is_withdrawn_after_it_was_found_is_not_applied(tmp_path: Path) -> None:
    FEEDS["withdrawn"] = items(*"abcd")
    state = str(tmp_path / "state")
    options = {"feed": "withdrawn", "stateLocation": state, "requestInterval": "0s"}
    batches = Batches(Feed, EchoReader, options, store=LocalStore(state))
    assert batches.batch(Limits(files=2)) == ["a", "b"]
    asked = edits.submit(edits.plan("replay", state=state, why="a test", splits=["a"]))
    batches.restart()
    batches.enumerator()  # restores the enumerator and finds the request
    edits.withdraw(asked, state=state)
    assert batches.batch() == ["c", "d"]


class WithdrawnFeed(Feed):
    """Withdraws edits while a checkpoint is made, as another process may."""

    withdrawals: ClassVar[list[Callable[[], object]]] = []

    def snapshot_state(self, checkpoint_id: int) -> int:
        # The first state is that before the edit.
        if self.taken > 2 and self.withdrawals:
            self.withdrawals.pop()()
        return super().snapshot_state(checkpoint_id)


def test_an_edit_that_is_withdrawn_while_it_is_applied_is_not_applied(tmp_path: Path) -> None:
    FEEDS["edited"] = items(*"abcdef")
    options = {"feed": "edited", "maxFilesPerTrigger": "2"}
    feed = Edited(tmp_path, options, enumerator=WithdrawnFeed, reader=EchoReader, schema=IDS)
    assert feed.batch() == ["a", "b"]
    asked = feed.ask("replay", splits=["a"])
    results: list[edits.WithdrawnEdit] = []
    WithdrawnFeed.withdrawals.append(lambda: results.append(edits.withdraw(asked, state=feed.state)))
    assert feed.batch() == ["c", "d"]
    assert [result.applied_in for result in results] == [None]
    assert feed.history(of_the_line=True) == []
    assert feed.batches() == [["e", "f"]]


def test_a_withdrawal_tells_whether_the_checkpoint_that_has_applied_the_edit_is_complete(
    tmp_path: Path,
) -> None:
    feed = fed(tmp_path)
    feed.batch()
    early = feed.ask("replay", splits=["a"])
    feed.batch()
    feed.batch()
    late = feed.ask("replay", splits=["b"])
    feed.engine.holder.latest_offset(json.loads(feed.engine.logs.offsets[2]), None)
    found = [edits.withdraw(asked, state=feed.state) for asked in (early, late)]
    assert [(item.applied_in, item.is_certain) for item in found] == [(2, True), (4, False)]
    feed.engine.restart()
    assert feed.batch() == ["f"]


def test_a_request_for_another_lineage_is_left_alone(tmp_path: Path) -> None:
    ours, theirs = fed(tmp_path / "ours"), fed(tmp_path / "theirs")
    ours.batch()
    theirs.batch()
    theirs.ask("replay", splits=["a"])
    (file,) = theirs.request_files()
    (lineage,) = Path(ours.state).iterdir()
    (lineage / "requests").mkdir()
    shutil.copy(file, lineage / "requests")
    assert ours.batch() == ["c", "d"]
    (listed,) = edits.pending(state=ours.state)
    assert listed.request is None
    assert "for lineage" in str(listed.error)
    assert theirs.batch() == ["a", "c"]


def test_a_request_of_a_newer_format_waits_for_newer_code(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    feed.ask("replay", splits=["a"])
    (file,) = feed.request_files()
    newer = json.loads(file.read_bytes())["request"] | {"format": 2}
    text = json.dumps(newer, separators=(",", ":"))
    digest = content_digest(text.encode())
    file.write_text(f'{{"digest":"{digest}","request":{text}}}')
    assert feed.batch() == ["c", "d"]
    assert file.exists()
    (listed,) = edits.pending(state=feed.state)
    assert "has format 2; this library reads 1" in str(listed.error)


def test_a_rewind_to_a_checkpoint_that_was_cleaned_up_meanwhile_is_refused(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batches()
    source.ask("rewind", to_checkpoint=1)
    for file in Path(source.state).glob("*/checkpoints/1-*"):
        file.unlink()
    assert source.batch() == []
    (edit,) = source.history(of_the_line=True)
    assert "is missing" in edit["refused"]
    add_files(tmp_path, "gh")
    assert source.batches() == [["g", "h"]]


def test_an_edit_waits_while_the_state_that_it_needs_cannot_be_read(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batches()
    source.ask("rewind", to_checkpoint=1)
    (file,) = Path(source.state).glob("*/checkpoints/1-*")
    document = file.rename(tmp_path / "document")
    file.symlink_to(file.name)  # reading it fails, and not because it does not exist
    assert source.batch() is None
    assert len(source.request_files()) == 1
    file.unlink()
    document.rename(file)
    assert source.batches() == [["c", "d"], ["e", "f"]]
    (edit,) = source.history(of_the_line=True)
    assert edit["refused"] is None


class StartedFeed(Feed):
    """A feed that counts its starts, each of which discards what its discovery has begun to find."""

    starts = 0

    def start(self) -> None:
        type(self).starts += 1


def test_an_edit_that_waits_for_long_leaves_discovery_its_time(tmp_path: Path) -> None:
    FEEDS["edited"] = items(*"abcdef")
    options = {"feed": "edited", "maxFilesPerTrigger": "2"}
    source = Edited(tmp_path, options, enumerator=StartedFeed, reader=EchoReader, schema=IDS)
    source.batches()
    asked = source.ask("rewind", to_checkpoint=1)
    (file,) = Path(source.state).glob("*/checkpoints/1-*")
    document = file.rename(tmp_path / "document")
    file.symlink_to(file.name)
    StartedFeed.starts = 0
    for _ in range(100):
        assert source.batch() is None
    assert 2 <= StartedFeed.starts < 10
    file.unlink()
    document.rename(file)
    edits.withdraw(asked, state=source.state)
    source.ask("replay", splits=["f"])
    assert source.batch() == ["f"], "only the edit that has waited is put off"


def test_a_refused_edit_does_not_count_as_applied(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    source.batches()
    asked = source.ask("rewind", to_checkpoint=1)
    for file in Path(source.state).glob("*/checkpoints/1-*"):
        file.unlink()
    # Its request exists until the batch of the checkpoint that refuses it is complete.
    source.engine.trigger()
    (listed,) = edits.pending(state=source.state)
    assert listed.applied_in is None
    assert "refused by checkpoint 4: " in str(listed.error)
    withdrawn = edits.withdraw(asked, state=source.state)
    assert (withdrawn.applied_in, withdrawn.error) == (None, listed.error)
    assert withdrawn.said == f"withdrawn: {asked}, which had failed: {listed.error}"


def test_a_rewind_to_an_abandoned_checkpoint_is_refused(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    lost = feed.engine.holder.latest_offset(json.loads(feed.engine.logs.offsets[0]), None)
    feed.engine.restart()
    FEEDS["edited"][2:] = items(*"xyz")
    assert [feed.batch(), feed.batch()] == [["x", "y"], ["z"]]
    orphan = Path(lost["state"]["file"]).stem
    plan = feed.plan("rewind", to_checkpoint=1)
    edits.submit(replace(plan, request=replace(plan.request, checkpoint=orphan)))
    assert feed.batch() == []
    (edit,) = feed.history(of_the_line=True)
    assert "checkpoint 2 is not an ancestor of 3" in edit["refused"]


def test_splits_of_an_abandoned_batch_are_not_replayed(tmp_path: Path) -> None:
    """The enumerator will assign them by itself."""
    feed = fed(tmp_path)
    feed.batch()
    feed.engine.holder.latest_offset(json.loads(feed.engine.logs.offsets[0]), None)
    feed.engine.stop()
    feed.ask("replay", splits=["a", "c"])
    feed.engine.restart()
    feed.engine.now_ms = 1
    assert feed.batch() == ["c", "d"]
    (edit,) = feed.history(of_the_line=True)
    assert "is not an ancestor of" in edit["refused"]


def test_a_query_started_from_a_savepoint_does_not_inherit_the_edits_of_the_original(tmp_path: Path) -> None:
    feed = fed(tmp_path / "first")
    feed.batch()
    feed.ask("replay", splits=["a"])
    assert [feed.batch(), feed.batch()] == [["a", "c"], ["d", "e"]]
    made = savepoints.create(state=feed.state, to=str(tmp_path / "saved"))
    assert made.checkpoint_id == 2
    fork = fed(tmp_path / "fork", savepoint=made.directory)
    assert fork.batch() == ["d", "e"]
    assert fork.history() == []
    (document,) = Path(fork.state).glob("*/checkpoints/*")
    assert "answered" not in json.loads(document.read_bytes())


def test_an_edit_and_a_savepoint_at_one_batch_boundary_are_both_performed(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    savepoints.request(state=feed.state, to=str(tmp_path / "saved"))
    feed.ask("replay", splits=["a"])
    assert [feed.batch(), feed.batch()] == [["a", "c"], ["d", "e"]]
    assert feed.request_files() == []
    (made,) = (tmp_path / "saved").iterdir()
    assert made.name.startswith("savepoint-2-")
    assert fed(tmp_path / "fork", savepoint=str(made)).batch() == ["d", "e"]


def test_a_savepoint_request_cannot_be_withdrawn_as_an_edit(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    asked = savepoints.request(state=feed.state, to=str(tmp_path / "saved"))
    assert edits.pending(state=feed.state) == []
    with pytest.raises(EditError, match="there is no request"):
        edits.withdraw(asked.request_id, state=feed.state)
    assert len(feed.request_files()) == 1


def test_a_running_query_finds_an_edit_by_itself_and_an_idle_call_reads_no_file(tmp_path: Path) -> None:
    FEEDS["running"] = items("a", "b")
    looked = threading.Event()

    class Watched(LocalStore):
        callers: ClassVar[set[str]] = set()

        def list(self, folder: str) -> list[str]:
            self.callers.add(threading.current_thread().name)
            found = super().list(folder)
            if folder.endswith("/requests") and found:
                looked.set()
            return found

    state = str(tmp_path / "state")
    options = {"feed": "running", "stateLocation": state, "requestInterval": "0.01s"}
    batches = Batches(Feed, EchoReader, options, store=Watched(state))
    assert batches.batch() == ["a", "b"]
    assert batches.batch() is None
    Watched.callers.clear()
    assert batches.batch() is None
    assert "MainThread" not in Watched.callers
    edits.submit(edits.plan("replay", state=state, why="a test", splits=["b"]))
    assert looked.wait(20)
    found = None
    while found is None:  # the listing has ended; its result is about to be in the mailbox
        found = batches.batch()
    assert found == ["b"]
    batches.holder.close()
