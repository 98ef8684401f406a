"""Locations: state locations, lineages, savepoints and Spark checkpoints; others are refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from flip27_source.errors import CorruptStateError, OptionError, StateLocationError
from flip27_source.savepoints.format import write_savepoint
from flip27_source.snapshots.locations import Lineage, find_lineages, lineages_in
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.store import MemoryStore, open_store
from tests.cli.command_line import flip27
from tests.s3_server import S3Bucket
from tests.snapshots.spark_logs import STORAGE, FileQuery, log_batch, log_commit, view_rows


def found(location: Path | str, *, only: str | None = None, states: Sequence[str] = ()) -> list[Lineage]:
    return find_lineages(str(location), STORAGE, only=only, state_locations=states)


def paths(lineages: list[Lineage]) -> dict[str, str]:
    return {Path(row["path"]).name: row["status"] for row in view_rows("files", lineages)}


def query_of(root: Path, *names: str, state: str | None = "flip27") -> FileQuery:
    """Return a query that has read these files, one in each batch."""
    query = FileQuery(root, state)
    for name in names:
        query.land(name)
        query.batch()
    return query


def test_a_spark_checkpoint_leads_to_its_state_and_shows_which_batches_are_complete(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt", "b.txt")
    assert paths(found(query.checkpoint)) == {"a.txt": "finished", "b.txt": "finished"}
    (query.checkpoint / "commits" / "1").unlink()
    assert paths(found(query.checkpoint)) == {"a.txt": "finished", "b.txt": "planned"}
    assert [row["batch_id"] for row in view_rows("checkpoints", found(query.checkpoint))] == [0, 1]


def test_a_state_location_lists_its_lineages_and_one_of_them_can_be_selected(tmp_path: Path) -> None:
    first = query_of(tmp_path, "a.txt")
    second = FileQuery(tmp_path)
    second.land("b.txt")
    second.batch()
    state = first.checkpoint / "flip27"
    names = [lineage.name for lineage in found(state)]
    assert names == sorted(path.name for path in state.iterdir())
    assert len(names) == 2
    assert [row["lineage"] for row in view_rows("source", found(state))] == names
    assert [lineage.name for lineage in found(state, only=names[1])] == [names[1]]
    wrong = names[1][:-1] + ("0" if names[1][-1] != "0" else "1")
    with pytest.raises(OptionError, match=f"did you mean {names[1]}"):
        found(state, only=wrong)


def test_a_lineage_can_be_given_directly_with_or_without_a_slash_and_as_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_of(tmp_path, "a.txt")
    (lineage,) = (query.checkpoint / "flip27").iterdir()
    monkeypatch.chdir(lineage)
    for location in (str(lineage), f"{lineage}/", f"file://{lineage}", ".", os.path.join("..", lineage.name)):
        assert [item.name for item in found(location)] == [lineage.name]
        assert paths(found(location)) == {"a.txt": "planned"}


def test_a_savepoint_is_read_as_a_single_complete_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_of(tmp_path, "a.txt", "b.txt")
    (lineage,) = found(query.checkpoint / "flip27")
    offset = Offset.from_json(json.loads((query.checkpoint / "offsets" / "1").read_text().splitlines()[-1]))
    assert offset.name is not None
    source, target = open_store(str(lineage.parent), STORAGE), open_store(str(tmp_path / "saved"), STORAGE)
    write_savepoint(source, lineage.folder, offset.name, target, created_ms=0)
    (directory,) = (tmp_path / "saved").iterdir()
    moved = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(directory, moved)
    shutil.rmtree(query.checkpoint)
    monkeypatch.chdir(moved.parent)
    for location in (moved, f"{moved}/", moved / "_metadata", "renamed"):
        (item,) = found(location)
        assert (item.name, item.is_savepoint) == ("renamed", True)
        assert paths([item]) == {"b.txt": "finished"}
        (row,) = view_rows("checkpoints", [item])
        assert (row["checkpoint_id"], row["status"], row["digest"]) == (2, "complete", offset.name.digest)
        assert view_rows("source", [item])[0]["enumerator"] == "files"


def test_inline_state_is_read_from_sparks_offset_log(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt", "b.txt", state=None)
    (lineage,) = found(query.checkpoint)
    assert lineage.name == "inline-0"
    assert paths([lineage]) == {"a.txt": "finished", "b.txt": "finished"}
    assert [row["status"] for row in view_rows("checkpoints", [lineage])] == ["complete", "complete"]
    assert len(view_rows("source", [lineage])) == 1
    assert view_rows("reports", [lineage]) == []


def test_other_sources_of_the_query_and_batches_without_new_data_are_ignored(tmp_path: Path) -> None:
    query = FileQuery(tmp_path)
    query.land("a.txt")
    offset = query.batch()
    initial = {"checkpoint": 0, "format": 1, "state": {"inline": {}}, "summary": {}}
    log_batch(query.checkpoint, 0, {"topic": {"0": 5}}, None, initial)
    log_batch(query.checkpoint, 1, {"topic": {"0": 7}}, offset, initial)
    log_batch(query.checkpoint, 2, {"topic": {"0": 9}}, offset, initial)
    log_commit(query.checkpoint, 1)
    (lineage,) = found(query.checkpoint)
    (row,) = view_rows("checkpoints", [lineage])
    assert (row["batch_id"], row["status"]) == (1, "complete")


def test_a_document_that_sparks_log_does_not_name_yet_is_pending(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt", "b.txt")
    for folder in ("offsets", "commits"):
        (query.checkpoint / folder / "1").unlink()
    assert [r["status"] for r in view_rows("checkpoints", found(query.checkpoint))] == ["complete", "pending"]
    assert paths(found(query.checkpoint)) == {"a.txt": "finished"}


def test_checkpoints_that_a_query_went_back_from_are_not_pending_and_come_last(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt")
    went_back_to = query.at
    for name in ("b.txt", "c.txt"):
        query.land(name)
        query.batch()
    again = FileQuery(tmp_path, allowRolledBackCheckpoint="true")
    again.at, again._batch_id = went_back_to, 1
    (query.checkpoint / "offsets" / "2").unlink()
    again.batch()
    for words in ([], ["--limit", "4"]):
        found = flip27("state", "history", query.checkpoint, *words, "--json").data
        shown = [(row["checkpoint_id"], row["status"]) for row in found]
        assert shown == [(2, "complete"), (1, "complete"), (3, "orphan"), (2, "orphan")]


def test_state_outside_the_spark_checkpoint_has_to_be_named(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt", state="../elsewhere")
    with pytest.raises(StateLocationError, match=r'option\("stateLocation", ...\)'):
        found(query.checkpoint)
    elsewhere = str(tmp_path / "elsewhere")
    assert paths(found(query.checkpoint, states=[str(tmp_path), elsewhere])) == {"a.txt": "finished"}
    with pytest.raises(StateLocationError, match="and not in"):
        found(query.checkpoint, states=[str(tmp_path)])


@pytest.mark.parametrize("state", [".", "flip27", "state/of/orders", "deep/orders"])
def test_state_is_searched_in_the_spark_checkpoint_and_two_levels_below(tmp_path: Path, state: str) -> None:
    query = query_of(tmp_path, "a.txt", state=state)
    if state == "state/of/orders":
        with pytest.raises(StateLocationError, match="names lineage files-"):
            found(query.checkpoint)
    else:
        assert paths(found(query.checkpoint)) == {"a.txt": "finished"}


def test_a_file_of_the_user_in_the_spark_checkpoint_is_not_searched(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt", state="flip27")
    (query.checkpoint / "notes.txt").write_text("")
    assert paths(found(query.checkpoint)) == {"a.txt": "finished"}


def test_of_two_copies_of_the_state_the_one_with_sparks_newest_checkpoint_is_read(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt")
    shutil.copytree(query.checkpoint / "flip27", query.checkpoint / "backup")
    with pytest.raises(StateLocationError, match=r"in several places: .*/backup, .*/flip27"):
        found(query.checkpoint)
    query.land("b.txt")
    query.batch()
    assert [lineage.parent for lineage in found(query.checkpoint)] == [str(query.checkpoint / "flip27")]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda root: root, "is empty or does not exist"),
        (lambda root: (root / "data.json").write_text("{}"), "contains no state of flip27"),
        (lambda root: (root / "offsets").mkdir(), "contains no batch of a flip27 source yet"),
        (lambda root: log_batch(root, 0, {"topic": 1}), "contains no batch of a flip27 source yet"),
    ],
)
def test_the_error_for_a_location_without_state_says_what_is_there(
    tmp_path: Path, make: object, said: str
) -> None:
    assert callable(make)
    make(tmp_path)
    with pytest.raises(StateLocationError, match=said):
        found(tmp_path)


def test_an_offset_log_of_another_version_is_refused(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt")
    file = query.checkpoint / "offsets" / "0"
    file.write_text(file.read_text().replace("v1", "v3", 1))
    with pytest.raises(CorruptStateError, match=r"offset log of version v1 or v2: it starts with \['v3'\]"):
        found(query.checkpoint)
    file.write_bytes(b"v1\n\xff")
    with pytest.raises(CorruptStateError, match="offsets/0 in the query's checkpoint is not UTF-8"):
        found(query.checkpoint)


def test_sources_of_an_offset_log_of_version_2_have_names(tmp_path: Path) -> None:
    query = query_of(tmp_path, "a.txt")
    in_version_1 = found(query.checkpoint)
    file = query.checkpoint / "offsets" / "0"
    version, metadata, offset = file.read_text().splitlines()
    assert version == "v1"
    file.write_text("\n".join(["v2", metadata, f"orders:{offset}"]))
    assert found(query.checkpoint) == in_version_1


def test_a_spark_checkpoint_and_its_state_are_read_from_an_object_store(
    tmp_path: Path, s3_bucket: S3Bucket
) -> None:
    query = query_of(tmp_path, "a.txt")
    s3_bucket.file_system.put(str(query.checkpoint), f"{s3_bucket.name}/checkpoint", recursive=True)
    storage = {
        name.removeprefix("storage."): json.loads(text) if text.startswith("{") else text
        for name, text in s3_bucket.options.items()
        if name.startswith("storage.")
    }
    url = f"s3://{s3_bucket.name}/checkpoint"
    for location in (url, f"{url}/", f"{url}/flip27/"):
        lineages = find_lineages(location, storage)
        assert [Path(row["path"]).name for row in view_rows("files", lineages, storage=storage)] == ["a.txt"]


def test_a_lineage_that_cannot_be_listed_is_not_taken_for_one_that_is_gone() -> None:
    class Refusing(MemoryStore):
        def list(self, folder: str) -> list[str]:
            raise StateLocationError(f"cannot list {folder}: 403 Forbidden")

    with pytest.raises(StateLocationError, match="403"):
        lineages_in(Refusing(), ["files-4b39a1b2c3d4e5f6"])
