"""``flip27 export spark-files``: the checkpoint from which Spark's own file source continues.

``tests/spark/test_moving.py`` tests that Spark continues from it with the first file that was not read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flip27_source.coordination.batch_limits import Limits
from tests.cli.command_line import flip27
from tests.snapshots.spark_logs import FileQuery, log_batch


@pytest.fixture
def query(tmp_path: Path) -> FileQuery:
    return FileQuery(tmp_path)


def asking(query: FileQuery, *words: str) -> list[str | Path]:
    state, path = query.checkpoint / "flip27", f"path={query.landing}"
    target = query.checkpoint.parent / "spark"
    return ["export", "spark-files", "--state", state, "--checkpoint", target, "--option", path, *words]


def read(query: FileQuery, *names: str) -> None:
    """Let the query read files, each in a batch of its own."""
    for name in names:
        query.land(name)
        query.batch()


def log_of(query: FileQuery, source: str = "0") -> list[str]:
    """Return the names of the files in the log of the new checkpoint."""
    folder = query.checkpoint.parent / "spark/sources" / source
    entries = [line for file in sorted(folder.iterdir()) for line in file.read_text().split("\n")[1:]]
    assert [file.name for file in sorted(folder.iterdir())] == ["0", "1"]
    return sorted(json.loads(one)["path"].removeprefix(f"file://{query.landing}/") for one in entries if one)


def numbers(query: FileQuery) -> tuple[list[str], list[str]]:
    """Return the batches in the offset log and in the commit log of the new checkpoint."""
    root = query.checkpoint.parent / "spark"
    return sorted(os.listdir(root / "offsets")), sorted(os.listdir(root / "commits"))


def test_files_of_committed_batches_are_exported_and_waiting_files_are_not(
    tmp_path: Path, query: FileQuery
) -> None:
    query.limits = Limits(files=2)
    query.land("a", "b", "c")
    query.batch()
    query.batch()
    query.limits = Limits(files=1)
    query.land("d", "e", "f")
    query.batch()
    said = flip27(*asking(query, "--execute", "--json"))
    assert (said.code, said.data["files"], said.data["unread"], said.data["batch_id"]) == (0, 4, 2, 2)
    assert len(log_of(query)) == 4
    assert numbers(query) == (["1", "2"], ["1", "2"])
    last = (tmp_path / "spark/offsets/2").read_text().split("\n")
    assert last[-1] == '{"logOffset":1}'


def test_a_dry_run_writes_nothing(tmp_path: Path, query: FileQuery) -> None:
    read(query, "a")
    said = flip27(*asking(query))
    assert said.code == 0
    assert "nothing was written" in said.err
    assert not (tmp_path / "spark").exists()


def test_the_number_of_an_uncommitted_batch_is_not_reused(tmp_path: Path, query: FileQuery) -> None:
    read(query, "a", "b")
    query.land("c")
    query.batch(committed=False)
    said = flip27(*asking(query, "--execute", "--json"))
    assert (said.data["batch_id"], log_of(query)) == (2, ["a", "b"])
    assert numbers(query) == (["1", "2"], ["1", "2"])


def test_files_of_an_uncommitted_batch_may_arrive_twice_and_are_named(query: FileQuery) -> None:
    read(query, "a")
    assert flip27(*asking(query)).code == 0  # batch 1 of the new checkpoint is not a batch of this query
    query.land("b")
    query.batch(committed=False)
    query.land("new")
    said = flip27(*asking(query, "--json"))
    assert (said.code, said.data["read_twice"]) == (3, [f"{query.landing}/b"])
    assert (said.data["files"], said.data["unread"]) == (1, 2)
    said = flip27(*asking(query))
    assert "batch 1 of the query is planned and not committed" in said.err
    assert "If the sink has them already, let the old query commit the batch first" in said.err
    (query.landing / "b").unlink()
    assert flip27(*asking(query)).code == 0


def test_an_uncommitted_batch_without_files_of_this_source_names_nothing(query: FileQuery) -> None:
    read(query, "a", "b")
    log_batch(query.checkpoint, 2, query.at)  # another source of the query had new data
    said = flip27(*asking(query, "--json"))
    assert (said.code, said.data["read_twice"], said.data["batch_id"]) == (0, [], 2)


def test_the_state_of_operators_is_copied_unless_it_belongs_to_another_batch(
    tmp_path: Path, query: FileQuery
) -> None:
    read(query, "a", "b")
    (query.checkpoint / "state/0/0").mkdir(parents=True)
    (query.checkpoint / "state/0/0/2.delta").write_text("sums")
    query.land("c")
    query.batch(committed=False)
    refused = flip27(*asking(query, "--execute"))
    assert (refused.code, "its operators have state" in refused.err) == (1, True)
    (query.checkpoint / "offsets/2").unlink()
    assert flip27(*asking(query, "--execute")).code == 0
    assert (tmp_path / "spark/state/0/0/2.delta").read_text() == "sums"


def test_a_file_that_spark_would_leave_out_is_reported(tmp_path: Path, query: FileQuery) -> None:
    read(query, "a")
    query.land("old")
    os.utime(query.landing / "old", (1_000_000_000, 1_000_000_000))
    said = flip27(*asking(query, "--execute"))
    assert said.code == 3
    assert f"would be left out: {query.landing}/old" in said.out
    assert "maxFileAge" in said.err


def test_a_file_that_was_read_in_part_is_read_again(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, maxPartitionBytes="1m")
    query.landing.mkdir()
    (query.landing / "large").write_text("x" * 99 + "\n" * 3_000_000)
    query.limits = Limits(bytes=1)
    query.batch()
    said = flip27(*asking(query, "--json"))
    assert (said.code, said.data["read_twice"], said.data["files"]) == (3, [f"{query.landing}/large"], 0)


def test_a_directory_of_another_query_is_refused_and_that_of_a_killed_export_is_accepted(
    tmp_path: Path, query: FileQuery
) -> None:
    read(query, "a")
    assert flip27(*asking(query, "--execute")).code == 0
    again = flip27(*asking(query, "--execute"))
    assert (again.code, "already the checkpoint location" in again.err) == (1, True)
    (tmp_path / "spark/metadata").write_text("a checkpoint is being written\n")
    assert flip27(*asking(query, "--execute")).code == 0
    assert set(json.loads((tmp_path / "spark/metadata").read_text())) == {"id"}


def test_without_a_required_report_nothing_is_exported(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, onSplitError="quarantine")
    read(query, "a")
    refused = flip27(*asking(query, "--execute"))
    assert refused.code == 1
    assert "0 of its 1 subtasks have reported" in refused.err


def test_an_edit_that_waits_is_not_in_the_export_and_a_note_says_so(query: FileQuery) -> None:
    read(query, "a")
    edit = ("edit", "replay", "--state", query.checkpoint / "flip27", "--glob", "*", "--why", "lost")
    assert flip27(*edit, "--execute").code == 0
    assert "the edits that wait" in flip27(*asking(query, "--execute")).err
    assert log_of(query) == ["a"]


@pytest.mark.parametrize("strategy", ["nameCursor", "modifiedCursor"])
def test_cursors_are_exported(tmp_path: Path, strategy: str) -> None:
    query = FileQuery(tmp_path, seenFiles=strategy)
    query.land("a", "b")
    query.batch()
    query.land("c")
    assert flip27(*asking(query, "--execute")).code == 0
    assert log_of(query) == ["a", "b"]
