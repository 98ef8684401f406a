"""``flip27 savepoint``: savepoints are listed, shown, verified and deleted (scenarios S79-S88)."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.errors import StateLocationError
from tests.cli.command_line import flip27, storage, three_batches
from tests.driver.test_reports import SERVER
from tests.s3_server import S3Bucket
from tests.savepoints.test_savepoints import paged
from tests.snapshots.spark_logs import FileQuery

MANY = 600
"""Enough files for their splits and the known files to be stored in separate segments."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with segments."""
    root = tmp_path_factory.mktemp("origin")
    query = FileQuery(root)
    query.land(*(f"{number}.txt" for number in range(MANY)))
    query.batch(now_ms=1_000)
    made = savepoints.create(state=str(query.checkpoint / "flip27"), to=str(root / "saved"))
    return Path(made.directory)


@pytest.fixture
def saved(origin: Path, tmp_path: Path) -> Path:
    """A copy of the savepoint that the test may change."""
    return Path(shutil.copytree(origin, tmp_path / "saved" / origin.name))


@pytest.fixture
def saved_with_reports(tmp_path: Path) -> Path:
    """A savepoint of a batch whose tasks have reported."""
    SERVER["orders"] = list("abcdef")
    batches = paged(tmp_path / "state")
    batches.batch()
    batches.batch()
    batches.batch()
    return Path(savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved")).directory)


def segment_of(saved: Path) -> Path:
    return next((saved / "segments").iterdir())


def test_create_prints_the_directory_and_describes_the_savepoint_on_standard_error(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    said = flip27("savepoint", "create", "--state", query.checkpoint / "flip27", "--to", tmp_path / "saved")
    assert said.code == 0
    assert Path(said.out.strip(), "_metadata").exists()
    assert said.err == "checkpoint 2, the state after batch 1\n"


def test_the_note_of_a_savepoint_without_sparks_checkpoint_is_a_whole_sentence(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    shutil.move(query.checkpoint / "flip27", tmp_path / "state")
    said = flip27("savepoint", "create", "--state", tmp_path / "state", "--to", tmp_path / "saved")
    assert said.err == (
        "checkpoint 2, the newest that is known to be complete (give --checkpoint-location for the very last "
        "batch)\n"
    )


def test_a_wrong_location_or_lineage_is_named_with_what_to_give(tmp_path: Path) -> None:
    state = three_batches(tmp_path).checkpoint / "flip27"
    (lineage,) = state.iterdir()
    (tmp_path / "file").write_text("")
    create: list[str | Path] = ["savepoint", "create", "--to", tmp_path / "saved", "--state"]
    wrong: list[tuple[list[str | Path], str]] = [
        ([*create, state, "--lineage", "typo"], f"use one of: {lineage.name}"),
        ([*create, lineage], "is a lineage, not a state location"),
        ([*create, state, "--to", tmp_path / "file"], f" in {tmp_path}/file: "),
        (["savepoint", "verify", "/"], "there is no savepoint at /:"),
        (["savepoint", "list", tmp_path / "gone"], "gone does not exist"),
        (["state", "show", ""], "the value is empty"),
    ]
    for words, said in wrong:
        refused = flip27(*words)
        assert (refused.code, said in refused.err) == (1, True), refused.err


def test_list_distinguishes_readable_damaged_and_unfinished_savepoints(saved: Path, tmp_path: Path) -> None:
    for name in ("savepoint-8-damaged", "savepoint-9-unfinished"):
        (saved.parent / name / "segments").mkdir(parents=True)
        (saved.parent / name / "segments" / "a").write_text("a")
    (saved.parent / "savepoint-8-damaged" / "_metadata").write_text("{")
    (saved.parent / "notes.txt").write_text("of the user")
    (saved.parent / "other").mkdir()
    found = {Path(one["directory"]): one for one in flip27("savepoint", "list", saved.parent, "--json").data}
    assert {path.name: entry["status"] for path, entry in found.items()} == {
        saved.name: "readable",
        "savepoint-8-damaged": "damaged",
        "savepoint-9-unfinished": "unfinished",
    }
    assert found[saved]["checkpoint_id"] == 1
    assert found[saved]["uid"] == "files"
    assert "cannot be read" in found[saved.parent / "savepoint-8-damaged"]["problem"]


def test_show_names_the_source_of_a_savepoint(saved: Path) -> None:
    for location in (saved, f"{saved}/", saved / "_metadata"):
        found = flip27("savepoint", "show", location, "--json").data
        assert (found["checkpoint_id"], found["finished"], found["segments"]) == (1, MANY, 3)
        assert found["checkpoint_at"] == "1970-01-01T00:00:01Z"
        assert found["source"]["enumerator"] == "files"
        assert found["lineage"].startswith("files-")


def test_verify_checks_every_file_of_a_complete_savepoint(saved: Path) -> None:
    said = flip27("savepoint", "verify", saved, "--json")
    assert said.code == 0
    assert said.data["is_whole"] is True
    folders = [Path(file["name"]).parts[0] for file in said.data["files"]]
    assert folders == ["_metadata", "segments", "segments", "segments"]
    assert flip27("savepoint", "verify", saved).err == "4 files, 0 damaged: the savepoint is complete\n"


def test_reports_are_verified_too(saved_with_reports: Path) -> None:
    (report,) = (saved_with_reports / "reports").iterdir()
    assert flip27("savepoint", "verify", saved_with_reports).code == 0
    text = report.read_text()
    report.write_text(text.replace('"rows":2', '"rows":3'))
    said = flip27("savepoint", "verify", saved_with_reports)
    assert said.code == 1
    assert report.name in said.out


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "another"])
def test_a_damaged_segment_is_named_and_exits_1(damage: str, saved: Path) -> None:
    segment = segment_of(saved)
    data = segment.read_bytes()
    others = [other for other in segment.parent.iterdir() if other != segment]
    if damage == "gone":
        segment.unlink()
    else:
        flipped = data[:-1] + bytes([data[-1] ^ 1])
        segment.write_bytes({"flipped": flipped, "cut": data[:9], "another": others[0].read_bytes()}[damage])
    said = flip27("savepoint", "verify", saved, "--json")
    assert said.code == 1
    assert said.data["is_whole"] is False
    assert [file["name"] for file in said.data["files"] if file["problem"]] == [f"segments/{segment.name}"]


def test_damaged_metadata_is_found_by_verify_and_never_deleted(saved: Path) -> None:
    metadata = saved / "_metadata"
    metadata.write_text(metadata.read_text().replace(f'"finished": {MANY}', '"finished": 1'))
    said = flip27("savepoint", "verify", saved, "--json")
    assert said.code == 1
    assert [file["name"] for file in said.data["files"]] == ["_metadata"]
    assert flip27("savepoint", "delete", saved, "--yes").code == 1
    assert segment_of(saved).exists()


def test_delete_asks_for_confirmation_and_deletes_nothing_without_it(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        said = flip27("savepoint", "delete", saved)
        assert said.code == 1
        assert f"Delete the savepoint {saved}" in said.err
        assert savepoints.verify(str(saved)).is_whole
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert flip27("savepoint", "delete", saved).code == 0
    assert not saved.exists()


def test_delete_leaves_files_that_do_not_belong_to_the_savepoint(saved: Path) -> None:
    (saved / "notes.txt").write_text("of the user")
    said = flip27("savepoint", "delete", saved, "--yes", "--json")
    assert said.data == {"directory": str(saved), "files": 4}
    assert [path.name for path in saved.rglob("*")] == ["notes.txt"]


@pytest.mark.parametrize("location", [".", "..", "segments", "nowhere"])
def test_deleting_a_location_that_is_not_a_savepoint_is_refused(location: str, saved: Path) -> None:
    before = sorted(saved.parent.rglob("*"))
    said = flip27("savepoint", "delete", saved / location if location != "." else saved.parent, "--yes")
    assert said.code == 1
    assert "there is no savepoint" in said.err
    assert sorted(saved.parent.rglob("*")) == before


def test_a_half_deleted_savepoint_is_no_longer_a_savepoint(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flip27_source.snapshots.store import LocalStore

    deleted: list[str] = []
    really = LocalStore.delete

    def crash_at_the_second(store: LocalStore, name: str) -> None:
        if deleted:
            raise KeyboardInterrupt
        deleted.append(name)
        really(store, name)

    monkeypatch.setattr(LocalStore, "delete", crash_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        savepoints.delete(str(saved))
    assert deleted == [f"{saved.name}/_metadata"]
    assert segment_of(saved).exists()
    (entry,) = savepoints.list_savepoints(str(saved.parent))
    assert entry.status == "unfinished"
    with pytest.raises(StateLocationError, match="there is no savepoint"):
        savepoints.describe(str(saved))


def test_a_savepoint_of_a_whole_query_is_verified_and_deleted_completely(tmp_path: Path) -> None:
    query = three_batches(tmp_path)
    made = flip27(
        "savepoint", "create", "--state", query.checkpoint / "flip27", "--to", tmp_path / "saved", "--query",
        "--json",
    )  # fmt: skip
    saved = Path(made.data["directory"])
    assert flip27("savepoint", "show", saved, "--json").data["query_batch"] == 1
    said = flip27("savepoint", "verify", saved, "--json")
    assert said.code == 0
    assert "query/offsets/1" in {file["name"] for file in said.data["files"]}
    assert {file["name"] for file in said.data["files"]} == {
        str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file()
    }
    offset = saved / "query" / "offsets" / "1"
    offset.write_bytes(offset.read_bytes()[:-1])
    said = flip27("savepoint", "verify", saved, "--json")
    assert said.code == 1
    assert [file["name"] for file in said.data["files"] if file["problem"]] == ["query/offsets/1"]
    assert flip27("savepoint", "delete", saved, "--yes").code == 0
    assert not saved.exists()


def test_a_savepoint_that_a_query_has_claimed_is_not_deleted(saved: Path) -> None:
    owner = {"lineage": "files-0123456789abcdef", "state": "/fork", "uid": "files"}
    (saved / "_claim").write_text(json.dumps(owner))
    said = flip27("savepoint", "delete", saved, "--yes")
    assert said.code == 1
    assert "claimed by the query whose source files has its state in /fork/files-0123456789abcdef" in said.err
    assert flip27("savepoint", "show", saved, "--json").data["claimed_by"] == owner["lineage"]
    (saved / "_claim").unlink()
    assert flip27("savepoint", "delete", saved, "--yes").code == 0


def test_savepoints_in_object_stores_are_managed_in_the_same_way(saved: Path, s3_bucket: S3Bucket) -> None:
    store, bucket = s3_bucket.file_system, f"s3://{s3_bucket.name}"
    for file in saved.rglob("*"):
        if file.is_file():
            store.pipe_file(f"{bucket}/moved/{saved.name}/{file.relative_to(saved)}", file.read_bytes())
    words = storage(s3_bucket.storage_options)
    (entry,) = flip27("savepoint", "list", f"{bucket}/moved", *words, "--json").data
    assert entry["status"] == "readable"
    assert flip27("savepoint", "verify", entry["directory"], *words).code == 0
    assert flip27("savepoint", "delete", entry["directory"], "--yes", *words).code == 0
    assert flip27("savepoint", "list", f"{bucket}/moved", *words, "--json").data == []
    store.invalidate_cache()
    assert store.find(f"{bucket}/moved") == []


def test_metadata_that_does_not_belong_to_a_savepoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "_metadata").write_text(json.dumps({"format": 1, "kind": "table"}))
    said = flip27("savepoint", "delete", tmp_path / "table", "--yes")
    assert said.code == 1
    assert (tmp_path / "table" / "_metadata").exists()
