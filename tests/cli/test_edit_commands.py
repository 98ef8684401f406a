"""``flip27 edit``: a dry run lists the change of each split; ``--execute`` submits the edit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flip27_source.errors import StateLocationError
from flip27_source.snapshots.store import LocalStore
from tests.cli.command_line import flip27, three_batches
from tests.driver.test_reports import SERVER
from tests.edits.edited import Edited, fed, files
from tests.edits.partitions import partitions, read
from tests.edits.test_application import paged


@pytest.fixture
def feed(tmp_path: Path) -> Edited:
    found = fed(tmp_path)
    found.batch()
    return found


def test_a_dry_run_lists_what_would_change_and_changes_nothing(feed: Edited) -> None:
    said = flip27("edit", "replay", "--state", feed.state, "--split", "a", "--why", "lost")
    assert said.code == 0
    assert said.lines == [
        ["split", "checkpoint", "now", "then"],
        ["a", "1", "planned", "is read again as it was"],
    ]
    assert "dry run: nothing was changed" in said.err
    assert feed.batch() == ["c", "d"]


def test_execute_submits_an_edit_and_the_query_applies_it(feed: Edited) -> None:
    words = ["edit", "replay", "--state", feed.state, "--glob", "[ab]", "--why", "lost"]
    said = flip27(*words, "--who", "ops", "--execute", "--json")
    assert (said.code, said.data["submitted"], said.data["request"]["who"]) == (0, True, "ops")
    assert feed.batch() == ["a", "b"]


def test_a_rewind_is_requested_and_applied(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batches()
    words = ["edit", "rewind", "--state", source.state, "--to-checkpoint", "1", "--why", "bad deploy"]
    assert flip27(*words, "--who", "ops", "--execute").code == 0
    assert source.batches() == [["c", "d"]]
    newest, *older = (row["edits"] for row in flip27("state", "history", source.state, "--json").data)
    (edit,) = json.loads(newest)
    said = [edit[name] for name in ("operation", "who", "why", "splits")]
    assert said == ["rewind", "ops", "bad deploy", 2]
    assert older == [None, None]


def test_an_edit_that_is_given_sparks_checkpoint_finds_the_files_of_its_batches(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    said = flip27("edit", "replay", "--state", query.checkpoint, "--glob", "*", "--why", "lost", "--json")
    found = [(Path(row["split_id"]).name, row["checkpoint_id"], row["now"]) for row in said.data["changes"]]
    assert found == [
        ("a.txt", 1, "finished"),
        ("b.txt", 1, "finished"),
        ("c.txt", 2, "finished"),
        ("d.txt", 3, "planned"),
    ]


def test_a_waiting_split_has_the_same_status_as_in_the_view(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batch()
    said = flip27("edit", "skip", "--state", source.state, "--glob", "*", "--why", "bad", "--json")
    assert [row["now"] for row in said.data["changes"]] == ["waiting: held by the enumerator"] * 2


def test_a_time_copied_from_the_history_is_accepted(tmp_path: Path) -> None:
    source = files(tmp_path, "abcd")
    source.batch()
    source.engine.now_ms += 1000
    source.batch()
    columns, *rows = flip27("state", "history", source.state).lines
    oldest = rows[-1][columns.index("created_at")]
    assert oldest.endswith("Z")
    said = flip27("edit", "rewind", "--state", source.state, "--to-time", oldest, "--why", "x", "--json")
    assert said.code == 0
    assert said.data["request"]["checkpoint"].startswith("1-")


def test_a_waiting_edit_is_listed_and_withdrawn_only_once(feed: Edited) -> None:
    asked = feed.ask("replay", splits=["a"])
    listed = flip27("edit", "list", "--state", feed.state)
    assert listed.lines[1] == [asked, "replay", "a", "tester", "a test", "-", "-"]
    for empty in ("", " "):
        refused = flip27("edit", "withdraw", empty, "--state", feed.state)
        assert (refused.code, "there is no request" in refused.err) == (1, True)
    assert flip27("edit", "withdraw", asked[:10], "--state", feed.state).out == f"withdrawn: {asked}\n"
    again = flip27("edit", "withdraw", asked, "--state", feed.state)
    assert again.code == 1
    assert f"there is no request {asked}" in again.err


@pytest.mark.parametrize("digits", [36, 8])
def test_withdrawing_an_edit_that_was_already_applied_is_refused_and_names_the_checkpoint(
    feed: Edited, digits: int
) -> None:
    asked = feed.ask("replay", splits=["a"])
    feed.batch()
    said = flip27("edit", "withdraw", asked[:digits], "--state", feed.state, "--json")
    assert (said.code, said.data) == (
        1,
        {"request_id": asked, "applied_in": 2, "is_certain": False, "error": None},
    )
    assert (
        f"{asked} was applied by checkpoint 2" in flip27("edit", "withdraw", asked, "--state", feed.state).out
    )


def test_a_prefix_of_a_waiting_and_an_applied_edit_names_both(feed: Edited) -> None:
    applied = feed.ask("replay", splits=["a"])
    feed.batch()
    feed.batch()
    while (waiting := feed.ask("replay", splits=["a"]))[0] != applied[0]:
        flip27("edit", "withdraw", waiting, "--state", feed.state)
    said = flip27("edit", "withdraw", applied[0], "--state", feed.state)
    assert (said.code, "2 requests start with" in said.err) == (1, True)
    assert applied in said.err
    assert waiting in said.err


def test_a_position_is_set_by_fields_of_the_split(tmp_path: Path) -> None:
    SERVER.clear()
    SERVER["orders"] = list("abcdef")
    source = paged(tmp_path)
    source.batch()
    words = ["edit", "set-position", "--state", source.state, "--split", "orders", "--why", "gap"]
    said = flip27(*words, "--position", '{"next": 4}', "--execute")
    assert said.lines[1][3] == 'continues at {"next":4,"split_id":"orders"}'
    assert source.batch() == ["e", "f"]
    wrong = flip27(*words, "--position", '{"nxt": 4}')
    assert (wrong.code, "split orders has no position field nxt" in wrong.err) == (1, True)


def test_partitions_are_shifted_each_from_where_it_stands(tmp_path: Path) -> None:
    source = partitions(tmp_path)
    source.ask("set-position", splits=["orders/1"], position={"next": 40})
    words = ("edit", "set-position", "--state", source.state, "--glob", "orders/[01]", "--why", "a test")
    dry = flip27(*words, "--shift", "-5")
    assert dry.code == 0
    assert "rows read again: 5" in dry.out
    assert len(source.request_files()) == 1
    said = flip27(*words, "--shift", "-5", "--execute", "--json").data
    assert [item["request"]["position"]["next"] for item in said] == [5, 35]
    assert len(source.request_files()) == 3
    assert read(source) == {"orders/0": [5, 14], "orders/1": [35, 44], "orders/2": [10, 19]}
    assert flip27("edit", "set-position", "--state", source.state, "--shift", "1", "--why", "x").code == 1
    source.engine.stop()


def test_shifts_of_which_some_could_not_be_submitted_say_how_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = partitions(tmp_path)
    source.ask("set-position", splits=["orders/1"], position={"next": 40})
    create, full_from = LocalStore.create, len(source.request_files()) + 1

    def until_full(store: LocalStore, name: str, data: bytes) -> bool:
        if len(source.request_files()) >= full_from:
            raise StateLocationError("no space is left", remedy="make some")
        return create(store, name, data)

    monkeypatch.setattr(LocalStore, "create", until_full)
    words = ("edit", "set-position", "--state", source.state, "--glob", "*", "--why", "a test")
    said = flip27(*words, "--shift", "-5", "--execute")
    assert said.code == 1
    assert "1 of 2 edits were submitted and wait; the next one failed: no space is left" in said.err
    assert "withdraw those that wait" in said.err
    source.engine.stop()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["replay", "--since", "yesterday"], "a time is expected"),
        (["set-position", "--split", "a", "--position", "500"], "a JSON object of fields"),
    ],
)
def test_invalid_arguments_are_wrong_usage(feed: Edited, words: list[str], says: str) -> None:
    said = flip27("edit", *words, "--state", feed.state, "--why", "x")
    assert said.code == 2
    assert says in " ".join(said.err.replace("│", " ").split())


def test_naming_an_unknown_split_is_refused(feed: Edited) -> None:
    said = flip27("edit", "quarantine", "retry", "--state", feed.state, "--split", "z", "--why", "x")
    assert said.code == 1
    assert "there is no split that is quarantined: z" in said.err
