"""``flip27 state``: stored state, as ``format("flip27_state")`` shows it, and differences between states."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flip27_source import savepoints
from tests.cli.command_line import flip27, three_batches
from tests.driver.test_reports import SERVER
from tests.savepoints.test_savepoints import paged
from tests.snapshots.spark_logs import FileQuery


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> FileQuery:
    """A query that no test changes, so all tests share it."""
    return three_batches(tmp_path_factory.mktemp("query"))


def as_json(rows: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(rows))


def test_show_names_the_source_of_the_state_and_its_position(query: FileQuery) -> None:
    (found,) = flip27("state", "show", query.checkpoint, "--json").data
    assert (found["source"]["enumerator"], found["source"]["reader"]) == ("files", "text")
    assert found["newest_complete"]["checkpoint_id"] == 2
    assert found["newest_complete"]["finished"] == 3
    assert found["pending"]["checkpoint_id"] == 3
    assert found["checkpoints"] == {"complete": 2, "pending": 1, "orphan": 0}
    lines = dict(flip27("state", "show", query.checkpoint).lines)
    assert lines["checkpoints"] == "2 complete, 1 pending"
    assert lines["driver"].startswith("stopped at 1970-01-01 00:00:")
    assert (lines["newest complete"], lines["pending"], lines["batch id"]) == ("2", "3", "1")


@pytest.mark.parametrize("view", ["splits", "files"])
def test_a_view_has_the_same_rows_and_columns_as_in_spark(view: str, query: FileQuery) -> None:
    said = flip27("state", view, query.checkpoint, "--json")
    assert said.code == 0
    assert said.data == as_json(query.rows(view))
    assert len(said.data) == 4


def names(rows: list[dict[str, Any]]) -> str:
    return " ".join(sorted(Path(row["split_id"]).stem for row in rows))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--checkpoint", "1"], "a b"),
        (["--checkpoint", "2.."], "c d"),
        (["--checkpoint", "..2"], "a b c"),
        (["--checkpoint", "2..2"], "c"),
        (["--status", "planned"], "d"),
        (["--status", "planned", "--status", "waiting"], "d"),
        (["--status", "finished", "--checkpoint", "2..3"], "c"),
        (["--limit", "2"], "a b"),
    ],
)
@pytest.mark.parametrize("view", ["splits", "files"])
def test_filters_choose_rows(view: str, words: list[str], wanted: str, query: FileQuery) -> None:
    assert names(flip27("state", view, query.checkpoint, *words, "--json").data) == wanted


def test_splits_and_files_are_chosen_by_name(query: FileQuery) -> None:
    c = query.landing / "c.txt"
    assert names(flip27("state", "splits", query.checkpoint, "--split", c, "--json").data) == "c"
    assert names(flip27("state", "files", query.checkpoint, "--path", c, "--json").data) == "c"


def test_a_file_whose_name_is_not_utf8_is_chosen_by_it(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a", "b")
    path = (query.landing / "a").rename(query.landing / os.fsdecode(b"a\xff"))
    query.batch()
    for words in (["files", "--path"], ["splits", "--split"]):
        (row,) = flip27("state", words[0], query.checkpoint, words[1], path, "--json").data
        assert row["split_id"].endswith("a\x00ff")


def test_state_that_a_filter_excludes_is_not_read(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    (document,) = query.checkpoint.glob("flip27/files-*/checkpoints/1-*.json")
    document.write_bytes(b"damaged")
    assert flip27("state", "files", query.checkpoint, "--checkpoint", "2..").code == 0
    assert flip27("state", "history", query.checkpoint, "--checkpoint", "2..").code == 0
    assert flip27("state", "history", query.checkpoint, "--limit", "2").code == 0
    assert flip27("state", "history", query.checkpoint, "--limit", "3").code == 1
    said = flip27("state", "files", query.checkpoint)
    assert said.code == 1
    assert "does not match its digest" in said.err
    assert said.out == ""


def test_history_is_newest_first_and_shows_what_tasks_reported(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdef")
    batches = paged(tmp_path / "state")
    for number in (1, 2, 3):
        batches.now_ms = number * 1000
        batches.batch()
    found = flip27("state", "history", tmp_path / "state", "--json").data
    assert [row["checkpoint_id"] for row in found] == [3, 2, 1]
    assert [row["rows"] for row in found] == [2, 2, 2]
    assert all(row["longest_task_ms"] >= 0 for row in found)
    assert found[0]["created_at"] == "1970-01-01T00:00:03Z"
    newest = flip27("state", "history", tmp_path / "state", "--limit", "1", "--json").data
    assert newest == found[:1]


def test_the_limit_of_the_history_is_for_all_lineages_together(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdef")
    first, second = paged(tmp_path), paged(tmp_path)
    for number, batches in enumerate((first, second, first, second), start=1):
        batches.now_ms = number * 1000
        batches.batch()
    found = flip27("state", "history", tmp_path, "--json").data
    assert [row["created_at"][-2] for row in found] == ["4", "3", "2", "1"]
    for limit in (1, 3):
        newest = flip27("state", "history", tmp_path, "--limit", str(limit), "--json").data
        assert newest == found[:limit]


def test_history_shows_no_row_counts_if_tasks_did_not_report(query: FileQuery) -> None:
    found = flip27("state", "history", query.checkpoint, "--status", "complete", "--json").data
    assert [(r["checkpoint_id"], r["files"], r["rows"]) for r in found] == [(2, 1, None), (1, 2, None)]


def changes(said: Any) -> dict[str, tuple[Any, Any]]:
    return {f"{one['part']} {one['what']}": (one["before"], one["after"]) for one in said.data["changes"]}


def test_diff_of_two_checkpoints_shows_the_progress_of_each_split(tmp_path: Path) -> None:
    SERVER["orders"] = list("abcdef")
    batches = paged(tmp_path / "state")
    for _ in range(3):
        batches.batch()
    state = tmp_path / "state"
    said = flip27("state", "diff", f"{state}@1", f"{state}@3", "--json")
    assert (said.data["before"]["checkpoint_id"], said.data["after"]["checkpoint_id"]) == (1, 3)
    found = changes(said)
    before, after = found["splits orders"]
    assert (before["status"], before["position"]["next"]) == ("live", 0)
    assert (after["status"], after["position"]["next"]) == ("live", 4)


def test_diff_compares_a_savepoint_with_the_state_it_was_made_from(tmp_path: Path, query: FileQuery) -> None:
    made = savepoints.create(state=str(query.checkpoint / "flip27"), to=str(tmp_path / "saved"))
    assert flip27("state", "diff", made.directory, query.checkpoint).out == "No difference.\n"
    found = changes(flip27("state", "diff", made.directory, f"{query.checkpoint}@3", "--json"))
    assert found["ledger finished"] == (3, 4)
    assert found["state position.files"] == (3, 4)


def test_diff_of_two_queries_names_options_of_the_start(tmp_path: Path) -> None:
    one, other = three_batches(tmp_path / "one"), three_batches(tmp_path / "other")
    found = changes(flip27("state", "diff", one.checkpoint, other.checkpoint, "--json"))
    assert {name.partition(" ")[0] for name in found} == {"state"}


def test_the_error_for_a_missing_checkpoint_lists_the_existing_ones(query: FileQuery) -> None:
    said = flip27("state", "diff", f"{query.checkpoint}@9", query.checkpoint)
    assert said.code == 1
    assert "has no checkpoint 9: it has checkpoints 1 to 3" in said.err


def test_with_several_lineages_diff_needs_the_option_lineage(tmp_path: Path) -> None:
    SERVER["orders"] = list("ab")
    for _ in range(2):
        batches = paged(tmp_path)
        batches.batch()
    lineages = sorted(path.name for path in tmp_path.iterdir())
    assert [item["lineage"] for item in flip27("state", "show", tmp_path, "--json").data] == lineages
    said = flip27("state", "diff", tmp_path, tmp_path)
    assert said.code == 1
    assert "choose one with --lineage" in said.err
    assert flip27("state", "diff", tmp_path, tmp_path, "--lineage", lineages[0]).code == 0
    (shown,) = flip27("state", "show", tmp_path, "--lineage", lineages[1], "--json").data
    assert shown["lineage"] == lineages[1]


@pytest.mark.parametrize(
    "words",
    [
        ["state", "splits", "/nowhere", "--status", "lost"],
        ["state", "files", "/nowhere", "--checkpoint", "a..b"],
        ["state", "files", "/nowhere", "--checkpoint", ".."],
        ["state", "files", "/nowhere", "--limit", "0"],
        ["state", "files"],
        ["state", "forget"],
    ],
)
def test_wrong_usage_exits_with_code_2(words: list[str]) -> None:
    said = flip27(*words)
    assert said.code == 2
    assert said.out == ""
    assert "Usage" in said.err


def test_the_error_for_a_location_without_state_says_what_to_give(tmp_path: Path) -> None:
    for command in ("show", "splits", "files", "history"):
        said = flip27("state", command, tmp_path)
        assert said.code == 1
        assert "give a state location" in said.err
        error = flip27("state", command, tmp_path, "--json").data["error"]
        assert error["kind"] == "StateLocationError"
        assert error["remedy"].startswith("give a state location")
