"""What a dry run and the view ``splits`` say of files is what the query reads, however files are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from flip27_source import edits
from flip27_source.edits.state_copy import StateCopy
from flip27_source.enumerators.files.forgotten_files import IF_LATE, IF_THIS_VERSION, found_again
from flip27_source.enumerators.files.options import FILES_OPTIONS
from flip27_source.enumerators.files.position import FilesPosition, WindowRun
from flip27_source.enumerators.files.seen_files.hashes import path_hash
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import EditError
from flip27_source.options import Options
from flip27_source.segment import Segment
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.state_tables.split_rows import split_rows
from tests.edits.edited import Edited, add_files, files

BEFORE, AGAIN = "was read before that checkpoint too", "is found and read again"


WAYS: Mapping[str, Mapping[str, str]] = {
    "exact": {},
    "allowOverwrites": {"allowOverwrites": "true"},
    "nameCursor": {"seenFiles": "nameCursor"},
    "modifiedCursor": {"seenFiles": "modifiedCursor", "allowedLateness": "0s"},
}
ways = pytest.mark.parametrize("known_by", WAYS)


def replayed(folder: Path, known_by: str, **options: str) -> Edited:
    """A query whose batches have read a, b and c, and a once more."""
    source = files(folder, "", **WAYS[known_by], **options)
    for name in "abc":
        add_files(folder, name)
        assert source.batches() == [[name]]
    source.ask("replay", glob="*/a*")
    assert source.batches() == [["a"]]
    return source


def name_of(split_id: str) -> str:
    return Path(split_id).name[0]


def shown(plan: edits.EditPlan) -> dict[str, str]:
    return {name_of(change.split_id): change.then for change in plan.changes}


def statuses(source: Edited) -> dict[str, str]:
    (lineage,) = find_lineages(source.state, {})
    return {
        name_of(row["split_id"]): row["status"]
        for row in split_rows(StateCopy(lineage, {}).history, EVERYTHING)
    }


def clean_up(source: Edited, checkpoint_id: int) -> None:
    (document,) = Path(source.state).glob(f"*/checkpoints/{checkpoint_id}-*")
    document.unlink()


@ways
@pytest.mark.parametrize("to_checkpoint", [1, 2, 3])
def test_a_rewind_reads_exactly_the_files_again_that_its_dry_run_shows(
    tmp_path: Path, known_by: str, to_checkpoint: int
) -> None:
    source = replayed(tmp_path, known_by)
    plan = source.plan("rewind", to_checkpoint=to_checkpoint)
    later = "abc"[to_checkpoint:]
    assert shown(plan) == {"a": BEFORE, **dict.fromkeys(later, AGAIN)}
    edits.submit(plan)
    assert source.batches() == [list(later)]
    assert source.history()[-1]["splits"] == len(later)


@ways
def test_a_file_that_was_read_before_the_checkpoint_of_a_rewind_is_finished_and_can_be_replayed(
    tmp_path: Path, known_by: str
) -> None:
    source = replayed(tmp_path, known_by)
    source.ask("rewind", to_checkpoint=2)
    assert source.batches() == [["c"]]
    clean_up(source, 1)
    assert statuses(source) == {"a": "finished", "b": "finished", "c": "planned"}
    source.ask("replay", glob="*/a*")
    assert source.batches() == [["a"]]


@ways
def test_a_file_that_a_rewind_has_made_unknown_is_not_replayed_and_is_undone(
    tmp_path: Path, known_by: str
) -> None:
    source = replayed(tmp_path, known_by)
    (tmp_path / "in" / "c").unlink()
    source.ask("rewind", to_checkpoint=1)
    assert source.batches() == [["b"]]
    assert statuses(source) == {"a": "finished", "b": "planned", "c": "undone"}
    with pytest.raises(EditError, match="a rewind has undone its batch: it is found and read again"):
        source.plan("replay", glob="*/c*")


def test_a_version_that_was_overwritten_since_is_found_only_if_the_file_has_it_again(tmp_path: Path) -> None:
    source = files(tmp_path, "ab", maxFilesPerTrigger="1", allowOverwrites="true")
    assert source.batches() == [["a"], ["b"]]
    for text in ("b, changed", "b, changed again"):
        (tmp_path / "in" / "b").write_text(text)
        assert source.batches() == [[text]]
    plan = source.plan("rewind", to_checkpoint=2)
    older, newer = plan.changes
    assert older.then == f"{AGAIN} {IF_THIS_VERSION}"
    assert newer.then == AGAIN
    edits.submit(plan)
    assert source.batches() == [["b, changed again"]]


def test_a_version_of_another_line_is_found_only_if_the_file_has_it_again(tmp_path: Path) -> None:
    source = files(tmp_path, "", allowOverwrites="true")
    for name in "ab":
        add_files(tmp_path, name)
        assert source.batches() == [[name]]
    source.ask("rewind", to_checkpoint=1)
    (tmp_path / "in" / "b").write_text("b, changed")
    assert source.batches() == [["b, changed"]]
    source.ask("rewind", to_checkpoint=2)
    assert source.batches() == [["b, changed"]]
    plan = source.plan("rewind", to_checkpoint=3)
    assert [change.then for change in plan.changes] == [f"{AGAIN} {IF_THIS_VERSION}", BEFORE]
    edits.submit(plan)
    assert source.batches() == [[]]


@pytest.mark.parametrize("on_late", ["read", "report"])
@pytest.mark.parametrize("known_by", ["nameCursor", "modifiedCursor"])
def test_a_file_that_came_late_is_read_again_only_if_it_still_counts_as_late(
    tmp_path: Path, known_by: str, on_late: str
) -> None:
    often = {"backfillInterval": "0s"} if known_by == "nameCursor" else {}
    source = files(tmp_path, "mn", maxFilesPerTrigger="1", onLateFile="read", **WAYS[known_by], **often)
    assert source.batches() == [["m"], ["n"]]
    add_files(tmp_path, "b")
    assert source.batches() == [["b"]]
    plan = source.plan("rewind", to_checkpoint=2)
    assert shown(plan) == {"b": f"{AGAIN} {IF_LATE}"}
    edits.submit(plan)
    source.engine.restart(options={"onLateFile": on_late})
    assert [row for batch in source.batches() for row in batch] == (["b"] if on_late == "read" else [])


@pytest.mark.parametrize(
    ("strategy", "path", "modified_us", "found"),
    [
        ("nameCursor", "s3://b/in/p", 9_000_000, {"s3://b/in/p": ""}),
        ("nameCursor", "s3://b/in/c", 1_000_000, {}),
        ("nameCursor", "s3://b/in/c", 9_000_000, {"s3://b/in/c": IF_LATE}),
        ("nameCursor", "/in/c", 1_000_000, {"/in/c": IF_LATE}),
        ("nameCursor", "s3://b/in/m", 9_000_000, {}),
        ("modifiedCursor", "s3://b/in/p", 9_000_000, {"s3://b/in/p": ""}),
        ("modifiedCursor", "s3://b/in/c", 1_000_000, {}),
        ("modifiedCursor", "s3://b/in/c", 7_500_000, {"s3://b/in/c": IF_LATE}),
        ("modifiedCursor", "/in/c", 1_000_000, {"/in/c": IF_LATE}),
        ("modifiedCursor", "s3://b/in/m", 9_000_000, {}),
    ],
)
def test_a_cursor_finds_files_after_it_and_may_find_those_that_appeared_since(
    strategy: str, path: str, modified_us: int, found: Mapping[str, str]
) -> None:
    """A file on local disk may have appeared later than it was modified; an object may not."""
    hashes = Segment.of("window", path_hash("s3://b/in/m"))
    position = FilesPosition(
        seen=(),
        files=9,
        strategy=strategy,
        after="s3://b/in/m" if path.startswith("s3") else "/in/m",
        low_us=8_000_000,
        appeared_us=9_000_000,
        checked_ms=1,
        window=(WindowRun(hashes=hashes, newest_us=9_000_000, appeared_us=9_000_000),),
    )
    split = FileSplit(path=path, length=1, modified_us=modified_us)
    assert found_again(position, [split], Options.parse({}, FILES_OPTIONS)) == found
