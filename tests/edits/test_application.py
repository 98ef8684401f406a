"""Edits of a source's state are applied once, at the next boundary after the request, and stay on record."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flip27_source import edits
from flip27_source.edits.state_copy import StateCopy
from flip27_source.enumerators.files.cleaning import PartlyRead
from flip27_source.enumerators.files.forgotten_files import forgotten
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.seen_files.hashes import path_hash
from flip27_source.errors import EditError
from flip27_source.segment import Segment
from flip27_source.snapshots.locations import find_lineages
from flip27_source.testing import Crashed, Step
from tests.driver.test_action_runner import Archives
from tests.driver.test_ranges_read_again import NUMBERS, Numbers
from tests.driver.test_reports import SERVER, Endpoints, Pages, Talker, Tells
from tests.edits.edited import IDS, Edited, add_files, fed, files
from tests.edits.partitions import Unreadable, partitions
from tests.s3_server import S3Bucket
from tests.toy_sources import FEEDS, EchoReader, Feed, Fragile, Item, Shelf, items


@pytest.fixture(autouse=True)
def _fresh() -> None:
    SERVER.clear()
    Archives.done.clear()
    Archives.broken.clear()
    Fragile.mend()
    Numbers.broken.clear()


def shelved(folder: Path, names: str, reader: Any = Fragile, kind: Any = Shelf, **options: str) -> Edited:
    """A query on items on a shelf, two in a batch; those in ``Fragile.broken`` cannot be read."""
    options = {"maxFilesPerTrigger": "2", **options}
    edited = Edited(folder, options, enumerator=kind, reader=reader, schema=IDS)
    shelve(edited, names)
    return edited


def shelve(edited: Edited, names: str) -> None:
    """Put items on the shelf of the current enumerator."""
    start = edited.engine.logs.start_of(edited.engine.logs.next_batch_id)
    enumerator: Any = edited.engine.holder.coordinator_at(json.loads(start)).enumerator
    enumerator.shelf.extend(Item(split_id=name) for name in names)


def paged(folder: Path, **options: str) -> Edited:
    """A query on endpoints; each batch reads one page of two rows of each."""
    options = {"pollInterval": "0s", "maxRowsPerSplit": "2", **options}
    return Edited(folder, options, enumerator=Endpoints, reader=Pages, schema=IDS)


def test_the_checkpoint_of_an_edit_records_who_made_it_what_it_changed_and_why(tmp_path: Path) -> None:
    feed = fed(tmp_path, "ab")
    feed.batch()
    asked = feed.ask("replay", glob="b")
    feed.batch()
    (edit,) = feed.history()
    wanted = {
        "request_id": asked,
        "operation": "replay",
        "who": "tester",
        "why": "a test",
        "selected": "glob b",
        "splits": 1,
        "split_ids": ["b"],
        "refused": None,
    }
    assert {name: edit[name] for name in wanted} == wanted


def test_a_rewind_makes_new_checkpoints_and_reads_exactly_the_later_files_again(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    assert source.batches() == [["a", "b"], ["c", "d"], ["e", "f"]]
    source.ask("rewind", to_checkpoint=1)
    assert source.batches() == [["c", "d"], ["e", "f"]]
    ends = [batch.end["checkpoint"] for batch in source.engine.batches]
    assert ends == [1, 2, 3, 4, 5]
    (edit,) = source.history()
    assert (edit["operation"], edit["checkpoint"][:2], edit["splits"]) == ("rewind", "1-", 4)
    assert [split_id[-1] for split_id in edit["split_ids"]] == ["c", "d", "e", "f"]


def test_a_rewind_to_a_time_goes_to_the_last_checkpoint_before_that_time(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    for hour in range(3):
        source.engine.now_ms = hour * 3_600_000
        source.batch()
    at = dt.datetime(1970, 1, 1, 1, 30, tzinfo=dt.UTC)
    plan = source.plan("rewind", to_time=at)
    assert [(change.split_id[-1], change.checkpoint_id) for change in plan.changes] == [("e", 3), ("f", 3)]
    source.ask("rewind", to_time=at)
    assert source.batches() == [["e", "f"]]


def test_a_rewind_restores_positions_of_splits_that_the_enumerator_cuts(tmp_path: Path) -> None:
    source = Edited(tmp_path, {"enumerator": "sequence", "end": "9", "maxRowsPerTrigger": "3"})
    assert source.batches() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    source.ask("rewind", to_checkpoint=1)
    assert source.batches() == [[3, 4, 5], [6, 7, 8]]


def test_a_rewind_restores_what_the_enumerator_had_learnt_from_events(tmp_path: Path) -> None:
    source = Edited(tmp_path, enumerator=Talker, reader=Tells, schema=IDS)
    shelve(source, "ab")
    assert source.batches() == [["a", "b"], ["after-a", "after-b"]]
    source.ask("rewind", to_checkpoint=1)
    assert source.batches() == [["after-a", "after-b"]]


def test_a_rewind_can_itself_be_rewound(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdefgh")
    source = paged(tmp_path)
    assert [source.batch(), source.batch(), source.batch()] == [list("ab"), list("cd"), list("ef")]
    source.ask("rewind", to_checkpoint=1)
    assert source.batch() == list("cd")
    source.ask("rewind", to_checkpoint=3)
    assert source.batch() == list("gh")
    source.ask("replay", splits=["orders"])
    assert source.batch() == list("ab")


@pytest.mark.parametrize("first", ["rewind", "replay"])
def test_a_rewind_past_an_edit_cleans_the_files_that_are_not_read_again(tmp_path: Path, first: str) -> None:
    options = {"cleanSource": "delete", "cleanSource.retentionDuration": "1h", "maxFilesPerTrigger": "1"}
    source = files(tmp_path, "abc", **options)
    assert source.batches() == [["a"], ["b"], ["c"]]
    source.ask(first, **({"to_checkpoint": 1} if first == "rewind" else {"glob": "*/[bc]"}))
    assert source.batches() == [["b"], ["c"]]
    plan = source.plan("rewind", to_checkpoint=3)
    assert {change.then for change in plan.changes} == {"was read before that checkpoint too"}
    edits.submit(plan)
    for name in "xyz":
        source.engine.now_ms += 24 * 3600 * 1000
        add_files(tmp_path, name)
        assert source.batches() == [[name]]
    # What an edit has dropped of the batch of the checkpoint itself stays dropped.
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"c", "z"}


def test_a_rewind_to_a_checkpoint_that_another_rewind_has_left_reads_what_waited_there(
    tmp_path: Path,
) -> None:
    options = {"cleanSource": "delete", "cleanSource.retentionDuration": "1h", "maxFilesPerTrigger": "1"}
    source = files(tmp_path, "abcdef", **options)
    assert [source.batch() for _ in range(4)] == [["a"], ["b"], ["c"], ["d"]]
    source.ask("rewind", to_checkpoint=1)
    assert source.batch() == ["b"]

    def shown(to_checkpoint: int) -> dict[str, str]:
        plan = source.plan("rewind", to_checkpoint=to_checkpoint)
        edits.submit(plan)
        return {change.split_id[-1]: change.then for change in plan.changes}

    both, again = "was read before that checkpoint too", "is found and read again"
    counts = "counts as read, as it did at that checkpoint"
    assert shown(4) == {"b": both, "c": counts, "d": counts}
    assert source.batch() == ["e"]
    assert shown(5) == {"b": both, "c": again, "d": again, "e": again}
    source.engine.now_ms += 2 * 3600 * 1000
    assert [source.batch() for _ in range(5)] == [["c"], ["d"], ["e"], ["f"], None]


def test_a_split_that_counts_as_read_is_replayed_although_a_rewind_has_undone_its_batch(
    tmp_path: Path,
) -> None:
    source = files(tmp_path, "abc", maxFilesPerTrigger="1")
    assert [source.batch(), source.batch()] == [["a"], ["b"]]
    source.ask("replay", glob="*/a")
    assert source.batch() == ["a"]
    source.ask("rewind", to_checkpoint=2)
    assert source.batch() == ["c"]
    (first,) = (tmp_path / "state").glob("*/checkpoints/1-*")
    first.unlink()  # as clean-up does it
    source.ask("replay", glob="*/a")
    assert source.batches() == [["a"]]


def test_a_rewind_to_a_checkpoint_after_a_replay_cleans_no_file_that_waits_there(tmp_path: Path) -> None:
    options = {"cleanSource": "delete", "cleanSource.retentionDuration": "1h", "maxFilesPerTrigger": "1"}
    source = files(tmp_path, "abcd", **options)
    assert [source.batch() for _ in range(3)] == [["a"], ["b"], ["c"]]
    source.ask("replay", glob="*/[abc]")
    assert source.batch() == ["a"]
    source.ask("rewind", to_checkpoint=3)
    assert source.batch() == ["d"]
    source.ask("rewind", to_checkpoint=4)
    source.engine.now_ms += 2 * 3600 * 1000
    assert [source.batch() for _ in range(4)] == [["b"], ["c"], ["d"], None]


def test_setting_a_position_changes_only_the_given_split(tmp_path: Path) -> None:
    SERVER.update(orders=list("abcdef"), items=list("123456"))
    source = paged(tmp_path)
    assert source.batch() == ["a", "b", "1", "2"]
    source.ask("set-position", splits=["orders"], position={"next": 4})
    assert source.batch() == ["e", "f", "3", "4"]


def test_a_position_is_set_on_a_split_that_the_enumerator_cuts(tmp_path: Path) -> None:
    source = Edited(tmp_path, {"enumerator": "sequence", "end": "9", "maxRowsPerTrigger": "3"})
    assert source.batch() == [0, 1, 2]
    source.ask("set-position", splits=["sequence-0"], position={"next": 7})
    assert source.batches() == [[7, 8]]


def test_a_position_of_another_type_changes_nothing_and_is_refused_in_the_history(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdef")
    source = paged(tmp_path)
    source.batch()
    source.ask("set-position", splits=["orders"], position={"next": "seven"})
    assert source.batch() == list("cd")
    (edit,) = source.history()
    assert "is not a valid position" in edit["refused"]


def test_a_position_is_not_set_while_a_range_of_the_split_waits_for_its_retry(tmp_path: Path) -> None:
    options = {"end": "9", "rowsPerSplit": "2", "onSplitError": "quarantine", "maxSplitAttempts": "1"}
    Numbers.broken.add(2)
    source = Edited(tmp_path, {"enumerator": "sequence", **options}, reader=Numbers, schema=NUMBERS)
    assert [source.batch(), source.batch()] == [[0, 1], []]
    chosen: dict[str, Any] = {"splits": ["sequence-0"]}
    notes = source.plan("set-position", position={"next": 2}, **chosen).notes
    assert any("a retry delivers them twice" in note for note in notes)
    source.ask("quarantine retry", **chosen)
    with pytest.raises(EditError, match="a range of it waits to be read again"):
        source.plan("set-position", position={"next": 2}, **chosen)


def test_a_replay_does_not_move_a_live_split_to_a_position_that_it_may_not_have_passed(
    tmp_path: Path,
) -> None:
    SERVER["orders"] = list("abcdefghijkl")
    source = paged(tmp_path)
    source.batch()
    for hour, position in ((1, 8), (2, 2)):
        source.engine.now_ms = hour * 3_600_000
        source.ask("set-position", splits=["orders"], position={"next": position})
        source.batch()
    at_one = dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(EditError, match="orders is left alone: is not known to have passed that position"):
        source.plan("replay", splits=["orders"], since=at_one, until=at_one)
    source.ask("replay", splits=["orders"], since=at_one)
    assert [source.batch(), source.batch(), source.batch()] == [list("cd"), list("ef"), list("gh")]


def test_a_second_replay_of_a_split_that_grew_in_between_starts_as_early_as_the_first(tmp_path: Path) -> None:
    SERVER["orders"] = list("ab")
    source = paged(tmp_path, maxRowsPerSplit="100")
    assert source.batch() == list("ab")
    SERVER["orders"] += list("cd")
    assert [source.batch(), source.batch()] == [list("cd"), []]
    for _ in range(3):
        plan = source.plan("replay", glob="*")
        assert {change.then for change in plan.changes} == {
            'is read again from {"next":0,"split_id":"orders"}'
        }
        edits.submit(plan)
        assert [source.batch(), source.batch()] == [list("abcd"), []]


def test_a_replay_of_a_finished_split_starts_at_the_earliest_position_and_not_at_the_oldest_batch(
    tmp_path: Path,
) -> None:
    SERVER["orders"] = [*"abcd", "END"]
    source = paged(tmp_path)
    times = [dt.datetime(1970, 1, 1, hour, tzinfo=dt.UTC) for hour in range(5)]
    source.batch()
    source.engine.now_ms = 3_600_000
    source.batch()
    source.ask("replay", splits=["orders"], until=times[0])
    source.engine.now_ms = 2 * 3_600_000
    assert source.batch() == list("ab")
    source.engine.now_ms = 3 * 3_600_000
    assert source.batches() == [list("cd"), []]
    source.ask("replay", splits=["orders"], since=times[1], until=times[2])
    assert source.batches() == [list("ab"), list("cd"), []]


def test_a_live_split_is_not_replayed_if_it_is_not_known_which_of_its_batches_began_first(
    tmp_path: Path,
) -> None:
    SERVER["orders"] = list("abcdef")
    source = paged(tmp_path)
    assert [source.batch() for _ in range(4)] == [list("ab"), list("cd"), list("ef"), []]
    source.engine.now_ms = 3_600_000
    source.ask("set-position", splits=["orders"], position={"next": 1})
    assert [source.batch() for _ in range(4)] == [list("bc"), list("de"), ["f"], []]
    with pytest.raises(EditError, match=r"orders is left alone: which of the positions of .* is not known"):
        source.plan("replay", splits=["orders"])
    source.ask("replay", splits=["orders"], since=dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC))
    assert source.batch() == list("bc")


def test_splits_held_back_by_a_limit_and_live_splits_can_be_skipped(tmp_path: Path) -> None:
    SERVER.update(orders=list("abcdef"), items=list("123456"))
    source = paged(tmp_path)
    source.batch()
    source.ask("skip", splits=["orders"])
    assert [source.batch(), source.batch()] == [["3", "4"], ["5", "6"]]


def test_files_that_the_enumerator_holds_are_skipped_and_not_found_again(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdef")
    assert source.batch() == ["a", "b"]
    source.ask("skip", glob="*/[ce]")
    assert source.batches() == [["d", "f"]]
    source.engine.restart()
    assert source.batches() == []


def test_a_split_that_its_enumerator_cannot_list_cannot_be_skipped(tmp_path: Path) -> None:
    feed = fed(tmp_path)
    feed.batch()
    with pytest.raises(EditError, match="no split that waits to be read: c"):
        feed.plan("skip", splits=["c"])


def test_a_quarantined_split_can_be_retried_or_dropped(tmp_path: Path) -> None:
    Fragile.broken = {"b", "c"}
    source = shelved(tmp_path, "abcd", onSplitError="quarantine", maxSplitAttempts="1")
    assert [source.batch(), source.batch()] == [["a"], ["d"]]
    Fragile.mend()
    source.ask("quarantine retry", splits=["b"])
    source.ask("quarantine drop", splits=["c"])
    assert source.batch() == ["b"]
    assert [edit["split_ids"] for edit in source.history()] == [["b"], ["c"]]
    source.engine.restart()
    with pytest.raises(EditError, match="no split that is quarantined"):
        source.plan("quarantine retry", glob="*")


def test_only_the_ranges_that_were_quarantined_at_the_dry_run_are_dropped(tmp_path: Path) -> None:
    source = partitions(tmp_path, Unreadable, onSplitError="quarantine", taskReports="always")
    source.batch()
    plan = source.plan("quarantine drop", splits=["orders/0"])
    assert [change.then for change in plan.changes] == ["is never read"] * 2
    source.batch()
    edits.submit(plan)
    source.batch()
    (lineage,) = find_lineages(source.state, {})
    left = StateCopy(lineage, {}).standing.ledger.quarantined
    assert [item.split.next for item in left] == [20, 30]
    source.ask("quarantine drop", splits=["orders/0"])
    source.batch()
    assert [item.split.next for item in StateCopy(lineage, {}).standing.ledger.quarantined] == [40]


def test_a_repaired_quarantined_file_is_read_after_it_is_dropped_and_forgotten(tmp_path: Path) -> None:
    add_files(tmp_path, "ab")
    poison = tmp_path / "in" / "b"
    poison.write_text("too long a line")
    source = files(tmp_path, "", onSplitError="quarantine", maxSplitAttempts="1", maxLineBytes="8")
    assert source.batches() == [["a"]]
    poison.write_text("mended")
    source.ask("quarantine retry", splits=[str(poison)])
    assert source.batches() == [[]]
    source.ask("quarantine drop", splits=[str(poison)])
    source.ask("forget", splits=[str(poison)])
    assert [row for batch in source.batches() for row in batch] == ["mended"]


def test_forgotten_files_are_found_again_and_other_files_are_not(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    assert source.batches() == [["a", "b"], ["c", "d"]]
    source.ask("forget", glob="*/[bc]")
    assert source.batches() == [["b", "c"]]
    source.engine.restart()
    assert source.batches() == []


def test_a_file_outside_the_retained_batches_is_forgotten_by_its_path(tmp_path: Path) -> None:
    source = files(tmp_path, "abcdefgh", retainedCheckpoints="2")
    source.batches()
    add_files(tmp_path, "ijklmnopqrstuvwxyz")
    source.batches()
    plan = source.plan("forget", splits=[str(tmp_path / "in" / "a"), "/nowhere"])
    assert plan.changes[1].then == "is left alone: is unknown: discovery has not found such a file"
    edits.submit(plan)
    assert source.batches() == [["a"]]


def test_unread_files_are_not_forgotten(tmp_path: Path) -> None:
    source = files(tmp_path, "abc")
    source.batch()
    with pytest.raises(EditError, match=r"would change nothing: .* is not read yet, or is quarantined"):
        source.ask("forget", splits=[str(tmp_path / "in" / "c")])
    plan = source.plan("forget", splits=[str(tmp_path / "in" / name) for name in "ac"])
    assert plan.changes[1].then == "is left alone: is not read yet, or is quarantined"
    assert source.batch() == ["c"]
    edits.submit(plan)  # which names only what it has shown to change, though c could be forgotten by now
    assert source.batches() == [["a"]]


def test_files_known_by_name_alone_are_forgotten_by_path(tmp_path: Path) -> None:
    source = files(tmp_path, "ab", fileNameOnly="true")
    source.batch()
    source.ask("forget", glob="*/a")
    assert source.batches() == [["a"]]


def test_a_file_known_by_name_alone_is_not_forgotten_by_another_path_before_it_is_read() -> None:
    known = FilesPosition(seen=(Segment.of("seen", path_hash("a")),), files=1)
    position, kept = forgotten(known, ["/y/a"], busy=["/x/a"], name_only=True)
    assert (position, kept) == (known, {"/y/a": "is not read yet, or is quarantined"})


def test_a_partly_read_file_is_forgotten_and_read_again_completely(tmp_path: Path) -> None:
    """Otherwise cleanSource would handle the file before all of it is read again."""
    path = str(tmp_path / "in" / "a")
    known = FilesPosition(
        seen=(Segment.of("seen", path_hash(path) + path_hash("/b")),),
        files=2,
        partly_read=(PartlyRead(path=path, modified_us=1, ranges=((0, 5),)),),
    )
    position, kept = forgotten(known, [f"{path}#5-"], busy=(), name_only=False)
    assert (position.files, position.partly_read, kept) == (1, (), {})
    assert position.seen == (Segment.of("seen", path_hash("/b")),)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seenFiles": "nameCursor"}, "seenFiles=nameCursor records how far the files were read"),
        ({"seenFiles": "modifiedCursor"}, "seenFiles=modifiedCursor records how far the files were read"),
        ({"allowOverwrites": "true"}, "allowOverwrites records versions of files"),
    ],
)
def test_forgetting_a_single_file_is_refused_if_a_cursor_or_versions_are_recorded(
    tmp_path: Path, options: dict[str, str], why: str
) -> None:
    source = files(tmp_path, "ab", **options)
    source.batch()
    with pytest.raises(EditError, match=why):
        source.ask("forget", glob="*/a*")


def test_actions_on_splits_that_are_read_again_are_dropped_and_others_are_performed(tmp_path: Path) -> None:
    Archives.broken = {"archive a", "archive c"}
    options = {"onActionError": "keep", "maxActionAttempts": "1"}
    source = shelved(tmp_path, "abcd", kind=Archives, **options)
    assert [source.batch(), source.batch(), source.batch()] == [["a", "b"], ["c", "d"], None]
    assert Archives.done == ["archive a", "archive b", "archive c", "archive d"]
    Archives.done.clear()
    Archives.broken = set()
    source.ask("rewind", to_checkpoint=1)
    assert (source.batch(), Archives.done) == (["c", "d"], [])
    assert source.batch() is None
    assert Archives.done == ["archive a", "archive c", "archive d"]
    (edit,) = source.history()
    assert edit["dropped_actions"] == 1


def test_a_file_that_is_read_again_is_archived_only_afterwards(tmp_path: Path) -> None:
    blocked = tmp_path / "archive"
    blocked.write_text("not a directory")
    cleaning = {"cleanSource": "archive", "sourceArchiveDir": str(blocked)}
    source = files(tmp_path, "abc", onActionError="keep", maxActionAttempts="1", **cleaning)
    source.batches()
    source.ask("replay", glob="*/b")
    blocked.unlink()
    assert source.batch() == ["b"]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["a", "b", "c"]
    assert source.batch() is None
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("step", [Step.STATE_WRITE, Step.OFFSET_RETURNED])
def test_a_rewind_that_is_withdrawn_after_a_crash_has_cleaned_no_file_that_waits(
    tmp_path: Path, step: Step
) -> None:
    options = {"cleanSource": "delete", "cleanSource.retentionDuration": "1h", "maxFilesPerTrigger": "1"}
    source = files(tmp_path, "abc", **options)
    assert source.batches() == [["a"], ["b"], ["c"]]
    source.ask("replay", glob="*/[ab]")
    assert source.batch() == ["a"]
    asked = source.ask("rewind", to_checkpoint=3)
    source.engine.now_ms += 2 * 3600 * 1000
    source.engine.crash_at(step)
    with pytest.raises(Crashed):
        source.batch()
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["a", "b", "c"]
    edits.withdraw(asked, state=source.state)
    source.engine.restart()
    assert source.batches() == [["b"]]


def test_an_edit_on_an_idle_stream_makes_a_batch_at_once(tmp_path: Path) -> None:
    feed = fed(tmp_path, "ab")
    assert [feed.batch(), feed.batch()] == [["a", "b"], None]
    feed.ask("replay", splits=["a"])
    assert [feed.batch(), feed.batch()] == [["a"], None]


def test_an_edit_that_leaves_nothing_to_read_makes_an_empty_batch(tmp_path: Path) -> None:
    source = files(tmp_path, "abc")
    assert source.batch() == ["a", "b"]
    source.ask("skip", glob="*/c")
    assert [source.batch(), source.batch()] == [[], None]


def test_a_skip_and_a_rewind_change_a_state_in_a_bucket(tmp_path: Path, s3_bucket: S3Bucket) -> None:
    source = files(tmp_path, "abcdef", bucket=s3_bucket)
    assert [source.batch(), source.batch()] == [["a", "b"], ["c", "d"]]
    source.ask("skip", glob="*/f")
    (waiting,) = edits.pending(state=source.state, storage_options=s3_bucket.storage_options)
    assert waiting.request is not None
    assert waiting.request.operation == "skip"
    assert source.batches() == [["e"]]
    source.ask("rewind", to_checkpoint=2)
    assert source.batches() == [["e", "f"]]
    assert [(edit["operation"], edit["splits"]) for edit in source.history()] == [("skip", 1), ("rewind", 1)]
    assert edits.pending(state=source.state, storage_options=s3_bucket.storage_options) == []


class Unreachable(Feed):
    """Its server does not answer as often as a test says."""

    failures: ClassVar[int] = 0

    def handle_split_request(self, subtask_id: int) -> None:
        if Unreachable.failures:
            Unreachable.failures -= 1
            raise ConnectionError("nobody answers")
        super().handle_split_request(subtask_id)


def test_an_edit_waits_while_the_source_cannot_be_reached(tmp_path: Path) -> None:
    FEEDS["edited"] = items(*"abc")
    options = {"feed": "edited", "maxFilesPerTrigger": "2"}
    source = Edited(tmp_path, options, enumerator=Unreachable, reader=EchoReader, schema=IDS)
    assert source.batch() == ["a", "b"]
    source.ask("replay", splits=["a"])
    Unreachable.failures = 1
    source.engine.restart()
    with pytest.raises(ConnectionError):
        source.batch()
    source.engine.restart()
    assert source.batches() == [["a", "c"]]
    assert [edit["refused"] for edit in source.history()] == [None]


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("forget", "is not known: it is found and read again"),
        ("rewind", "a rewind has undone its batch: it is found and read again"),
    ],
)
def test_a_file_that_is_found_again_anyway_is_not_replayed_too(tmp_path: Path, first: str, why: str) -> None:
    source = files(tmp_path, "ab", maxFilesPerTrigger="9")
    source.batch()
    add_files(tmp_path, "c")
    source.engine.restart()
    assert source.batch() == ["c"]
    every = [str(tmp_path / "in" / name) for name in "abc"]
    source.ask(first, **({"splits": every[2:]} if first == "forget" else {"to_checkpoint": 1}))
    plan = source.plan("replay", splits=every)
    assert plan.changes[2].then == f"is left alone: {why}"
    edits.submit(plan)
    assert sorted(row for batch in source.batches() for row in batch) == ["a", "b", "c"]


def test_a_replay_leaves_what_a_rewind_has_undone_to_a_discovery_that_has_a_cursor(tmp_path: Path) -> None:
    source = files(tmp_path, "ab", maxFilesPerTrigger="9", seenFiles="nameCursor")
    source.batch()
    add_files(tmp_path, "cd")
    source.engine.restart()
    assert source.batch() == ["c", "d"]
    source.ask("rewind", to_checkpoint=1)
    source.ask("replay", glob="*/[bd]")
    assert source.batches() == [["b", "c", "d"]]
    assert [edit["refused"] for edit in source.history()] == [None, None]
    source.ask("replay", glob="*/[cd]")
    assert source.batches() == [["c", "d"]]
    source.ask("rewind", to_checkpoint=2)  # which is before the other rewind
    assert source.batches() == [[]]
    source.ask("replay", glob="*/[cd]")
    assert source.batches() == [["c", "d"]]


def test_a_replay_leaves_alone_what_an_earlier_rewind_has_undone_and_is_not_read_again_yet(
    tmp_path: Path,
) -> None:
    feed = fed(tmp_path)
    feed.batches()
    feed.ask("rewind", to_checkpoint=1)
    assert feed.batch() == ["c", "d"]
    feed.ask("replay", splits=["a", "e"])
    assert feed.batches() == [["a", "e"], ["f"]]
    feed.ask("rewind", to_checkpoint=1)
    with pytest.raises(EditError, match="a rewind has undone its batch"):
        feed.plan("replay", splits=["f"])
