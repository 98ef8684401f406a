"""Planning edits: what can be requested, and what is refused before anything is submitted."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from flip27_source import edits, savepoints
from flip27_source.errors import EditError, OptionError, StateLocationError
from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.driver.test_reports import SERVER
from tests.edits.edited import IDS, Edited, add_files, fed, files
from tests.edits.test_application import paged
from tests.toy_sources import FEEDS, EchoReader, Feed, items

MIDNIGHT = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)


@pytest.fixture
def source(tmp_path: Path) -> Edited:
    """A query after three batches, an hour apart: the first read a and b, the second c and d, the third e."""
    made = files(tmp_path, "abcde")
    for hour in (0, 1, 2):
        made.engine.now_ms = hour * 3_600_000
        made.batch()
    return made


def chosen(plan: edits.EditPlan) -> list[str]:
    return [Path(change.split_id).name for change in plan.changes]


def test_splits_are_selected_by_id_glob_and_time_and_have_to_match_all_of_them(source: Edited) -> None:
    at_one = dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)
    assert chosen(source.plan("replay", glob="*/[acx]")) == ["a", "c"]
    assert chosen(source.plan("replay", since=at_one)) == ["c", "d", "e"]
    assert chosen(source.plan("replay", since=at_one, until=at_one)) == ["c", "d"]
    assert chosen(source.plan("replay", since=at_one, glob="*/[ace]")) == ["c", "e"]


def test_a_time_without_a_zone_is_local(source: Edited) -> None:
    local = dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC).astimezone().replace(tzinfo=None)
    assert chosen(source.plan("replay", since=local, until=local)) == ["c", "d"]


def test_a_plan_changes_nothing(source: Edited) -> None:
    before = sorted(Path(source.state).rglob("*"))
    source.plan("replay", glob="*")
    source.plan("rewind", to_checkpoint=1)
    assert sorted(Path(source.state).rglob("*")) == before


def test_the_author_of_an_edit_is_the_user_and_the_host_by_default(source: Edited) -> None:
    plan = edits.plan("replay", state=source.state, why="lost", glob="*")
    assert "@" in plan.request.who


@pytest.mark.parametrize(
    ("operation", "what", "says"),
    [
        ("erase", {}, "'erase' is not an edit operation"),
        ("replay", {}, "no splits are selected for replay"),
        ("replay", {"splits": ["/nowhere"]}, "no split that a retained batch has read: /nowhere"),
        ("replay", {"glob": "nothing"}, "no split that a retained batch has read and matches glob nothing"),
        ("replay", {"glob": "*", "to_checkpoint": 1}, "replay takes no checkpoint or time"),
        ("replay", {"glob": "*", "position": {"start": 0}}, "replay takes no position"),
        ("skip", {"since": MIDNIGHT}, "skip applies to splits that have not been read yet"),
        ("set-position", {"glob": "*"}, "set-position needs a position"),
        ("set-position", {"glob": "*", "position": {"start": 1}}, "no split that is live"),
        ("rewind", {}, "a rewind needs a target: either"),
        ("rewind", {"to_checkpoint": 1, "to_time": MIDNIGHT}, "a rewind needs a target: either"),
        ("rewind", {"to_checkpoint": 3}, "cannot be rewound to checkpoint 3"),
        ("rewind", {"to_time": MIDNIGHT}, "the newest checkpoint, 3, was created up to 1970-01-02T00:00"),
        ("replay", {"splits": [""]}, "an empty text is not the id of a split"),
        ("rewind", {"to_checkpoint": 1, "glob": "*"}, "a rewind applies to the whole source"),
        ("quarantine drop", {"glob": "*"}, "no split that is quarantined"),
    ],
)
def test_an_impossible_edit_is_refused_with_a_remedy(
    source: Edited, operation: str, what: dict[str, Any], says: str
) -> None:
    with pytest.raises(EditError) as refused:
        source.plan(operation, **what)
    assert says in refused.value.what
    assert refused.value.remedy


def test_a_rewind_beyond_the_retained_checkpoints_is_refused_and_lists_them(source: Edited) -> None:
    with pytest.raises(EditError) as refused:
        source.plan("rewind", to_time=dt.datetime(1969, 12, 31, tzinfo=dt.UTC))
    assert "checkpoints 1 to 2 are retained; the oldest was created at 1970-01-01T00:00:00+00:00" in str(
        refused.value
    )


def test_an_edit_without_a_reason_is_refused(source: Edited) -> None:
    with pytest.raises(EditError, match="an edit needs a reason"):
        edits.plan("replay", state=source.state, why=" ", glob="*")


def test_the_id_of_a_split_does_not_depend_on_its_position(tmp_path: Path) -> None:
    SERVER.clear()
    SERVER["orders"] = list("abcd")
    source = paged(tmp_path)
    source.batch()
    with pytest.raises(EditError, match="split orders has no position field split_id"):
        source.plan("set-position", splits=["orders"], position={"split_id": "other"})


def test_splits_that_are_cut_into_ranges_are_not_replayed(tmp_path: Path) -> None:
    source = Edited(tmp_path, {"enumerator": "sequence", "end": "9"})
    source.batch()
    with pytest.raises(EditError, match="read in ranges, which cannot be replayed"):
        source.plan("replay", splits=["sequence-0"])
    with pytest.raises(EditError, match="SequenceEnumerator cannot forget splits"):
        source.plan("forget", splits=["sequence-0"])


def test_with_several_lineages_an_edit_needs_one_of_them(tmp_path: Path) -> None:
    fed(tmp_path).batch()
    second = fed(tmp_path)
    second.batch()
    with pytest.raises(EditError, match=r"several lineages: Feed-\w+, Feed-\w+"):
        second.plan("replay", glob="*")
    name = sorted(path.name for path in Path(second.state).iterdir())[1]
    assert second.plan("replay", glob="*", lineage=name).request.lineage == name
    with pytest.raises(OptionError, match="there is no lineage other"):
        second.plan("replay", glob="*", lineage="other")


def test_a_savepoint_cannot_be_edited(source: Edited, tmp_path: Path) -> None:
    made = savepoints.create(state=source.state, to=str(tmp_path / "saved"))
    with pytest.raises(EditError, match="is a savepoint, which never changes"):
        edits.plan("replay", state=made.directory, why="lost", glob="*")


def test_an_edit_of_a_location_without_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateLocationError, match="is empty or does not exist"):
        edits.plan("replay", state=str(tmp_path / "nowhere"), why="lost", glob="*")
    (tmp_path / "state").mkdir()
    MicroBatchEngine({"enumerator": "sequence", "end": "1", "stateLocation": str(tmp_path / "state")})
    with pytest.raises(StateLocationError):
        edits.pending(state=str(tmp_path / "state"))


def outcome_as_planned(source: Edited, operation: str, **what: Any) -> dict[str, Any]:
    """Plan an edit, apply it, check that the dry run has shown what happened, and return the record."""
    plan = source.plan(operation, **what)
    edits.submit(plan)
    source.engine.restart()
    source.batch()
    record = next(edit for edit in source.history() if edit["request_id"] == plan.request.request_id)
    alone = {change.split_id for change in plan.changes if "left alone" in change.then}
    assert set(record["split_ids"]) == {change.split_id for change in plan.changes} - alone
    assert record["left_alone"] == {}
    assert record["refused"] is None
    dropped = [note for note in plan.notes if "pending side effects" in note and note[0].isdigit()]
    assert [str(record["dropped_actions"])] * bool(dropped) == [note.split()[0] for note in dropped]
    return record


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        ("skip", {"glob": "*/[df]"}),
        ("replay", {"glob": "*/[ac]"}),
        ("rewind", {"to_checkpoint": 1}),
        ("forget", {"glob": "*/[abc]"}),
        ("quarantine retry", {"glob": "*"}),
        ("quarantine drop", {"glob": "*"}),
    ],
)
@pytest.mark.parametrize("is_stopped_in_a_batch", [False, True], ids=["between batches", "in a batch"])
def test_what_a_dry_run_shows_happens(
    operation: str, what: dict[str, Any], is_stopped_in_a_batch: bool, tmp_path: Path
) -> None:
    source = files(tmp_path, "abdef", cleanSource="delete", onSplitError="quarantine", maxSplitAttempts="1")
    (tmp_path / "in" / "c.gz").write_bytes(b"damaged")
    os.utime(tmp_path / "in" / "c.gz", (1_000_000 + ord("c"),) * 2)
    source.batch()
    if is_stopped_in_a_batch:
        source.engine.crash_at(Step.SINK_WRITTEN)
        with pytest.raises(Crashed):
            source.batch()
        source.engine.restart()
    source.batch()
    outcome_as_planned(source, operation, **what)


def test_the_position_that_a_dry_run_shows_is_set(tmp_path: Path) -> None:
    SERVER.clear()
    SERVER["orders"] = list("abcd")
    source = paged(tmp_path)
    source.batch()
    outcome_as_planned(source, "set-position", splits=["orders"], position={"next": 3})


def test_where_the_enumerator_cannot_be_imported_a_dry_run_does_not_promise_that_it_forgets(
    tmp_path: Path,
) -> None:
    class Local(Feed):
        pass

    FEEDS["local"] = items("a")
    source = Edited(tmp_path, {"feed": "local"}, enumerator=Local, reader=EchoReader, schema=IDS)
    source.batch()
    (change,) = source.plan("forget", splits=["a"]).changes
    assert change.then == "is forgotten, if the enumerator can forget splits"


def test_a_dry_run_counts_the_side_effects_that_will_not_happen(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd", cleanSource="delete")
    source.batch()
    (says,) = source.plan("replay", glob="*").notes[1:]
    assert "after its newest batch, 1 (archive, delete), is not known here, and does not happen" in says
    source.batch()
    assert outcome_as_planned(source, "rewind", to_checkpoint=1)["dropped_actions"] == 2
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["c", "d"]


def test_a_split_that_several_batches_have_read_is_listed_once_because_it_is_read_once(
    tmp_path: Path,
) -> None:
    source = files(tmp_path, "ab")
    source.batch()
    for checkpoint in (1, 2):
        plan = source.plan("replay", glob="*")
        assert [(Path(change.split_id).name, change.checkpoint_id) for change in plan.changes] == [
            ("a", checkpoint),
            ("b", checkpoint),
        ]
        edits.submit(plan)
        assert source.batches() == [["a", "b"]]
    add_files(tmp_path, "c")
    source.ask("rewind", to_checkpoint=2)  # the replay of checkpoint 3 is undone
    source.batches()
    replay = source.plan("replay", glob="*/[ab]")
    assert [(change.checkpoint_id, change.now) for change in replay.changes] == [(2, "finished")] * 2
    assert chosen(source.plan("forget", glob="*/a")) == ["a"]
    assert sorted(chosen(source.plan("rewind", to_checkpoint=1))) == ["a", "b", "c"]
    edits.submit(replay)
    assert sorted(row for batch in source.batches() for row in batch) == ["a", "b"]


def test_a_dry_run_shows_the_effect_after_the_edits_that_wait(tmp_path: Path) -> None:
    source = fed(tmp_path)
    source.batch()
    source.ask("replay", splits=["a"])
    plan = source.plan("skip", splits=["a"])
    assert [(change.split_id, change.now, change.then) for change in plan.changes] == [
        ("a", "waiting", "is never read")
    ]
    assert plan.notes[0].startswith("1 edits that wait are applied first")
    edits.submit(plan)
    assert source.batches() == [["c", "d"], ["e", "f"]]


def test_submitting_a_request_again_makes_no_second_request(source: Edited) -> None:
    plan = source.plan("replay", glob="*/a")
    edits.submit(plan)
    edits.submit(plan)  # as if the response to the first call was lost
    assert len(source.request_files()) == 1


def test_splits_of_tasks_that_have_not_reported_are_not_edited(tmp_path: Path) -> None:
    feed = fed(tmp_path, "abcd", onSplitError="quarantine")
    feed.engine.trigger()
    with pytest.raises(EditError, match="would change nothing: a is left alone: is not read yet"):
        feed.plan("replay", glob="*")
    with pytest.raises(EditError, match="no split that waits to be read"):
        feed.plan("skip", splits=["a"])
