"""Deleting and links: a file is deleted only if it is where its name says, and not if a link leads to it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source import savepoints
from flip27_source.cli.main import main
from flip27_source.coordination.batch_limits import Limits
from flip27_source.errors import StateLocationError
from flip27_source.snapshots.store import LocalStore, Store, open_store
from tests.driver.batches import Batches
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.savepoints.test_savepoints import on_disk, with_bulk_state
from tests.toy_sources import BulkFeed, EchoReader

ONE = Limits(files=1)


def moved_away(folder: Path, to: Path) -> None:
    """Move the folder elsewhere, and leave a link to it in its place."""
    shutil.move(folder, to)
    folder.symlink_to(to, target_is_directory=True)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Stores


@pytest.fixture(params=["local", "sftp"])
def linked_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store whose folder a/link leads to ``outside``, which contains x."""
    (tmp_path / "state" / "a" / "real").mkdir(parents=True)
    (tmp_path / "outside" / "inner").mkdir(parents=True)
    (tmp_path / "outside" / "x").write_text("somebody's")
    (tmp_path / "state" / "a" / "link").symlink_to("../../outside")
    if request.param == "local":
        yield LocalStore(str(tmp_path / "state"))
        return
    with sftp_server(tmp_path) as server:
        yield open_store(f"{server.url}/state", {"username": USER, "password": PASSWORD})


@pytest.mark.parametrize("name", ["a/link/x", "a/link/inner/../x", "a/link/none"])
def test_nothing_is_deleted_behind_a_link(linked_store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(StateLocationError, match=r"a/link.* is a link"):
        linked_store.delete(name)
    assert names_in(tmp_path / "outside") == ["inner", "x"]


def test_no_empty_folder_behind_a_link_is_removed(linked_store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside" / "x").unlink()
    for folder in ("a/link", "a/link/inner"):
        with pytest.raises(StateLocationError, match=r"a/link.* is a link"):
            linked_store.remove_empty(folder)
    linked_store.remove_empty("a")
    assert names_in(tmp_path / "outside") == ["inner"]


def test_a_link_to_a_file_is_deleted_and_the_file_stays(linked_store: Store, tmp_path: Path) -> None:
    (tmp_path / "state" / "a" / "real" / "y").symlink_to("../../../outside/x")
    linked_store.delete("a/real/y")
    assert names_in(tmp_path / "state" / "a" / "real") == []
    assert names_in(tmp_path / "outside") == ["inner", "x"]


def test_a_state_location_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "state" / "a").mkdir(parents=True)
    (tmp_path / "here").symlink_to("disk")
    store = LocalStore(str(tmp_path / "here" / "state"))
    store.create("a/b/x", b"")
    store.delete("a/b/x")
    store.remove_empty("a")
    assert names_in(tmp_path / "disk" / "state") == []


def test_deleting_a_missing_file_in_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    LocalStore(str(tmp_path / "nowhere")).delete("a/b/x")
    LocalStore(str(tmp_path / "nowhere")).remove_empty("a/b")


# Savepoints


@pytest.fixture
def query(tmp_path: Path) -> Batches:
    return with_bulk_state(tmp_path / "state", "links", 80, retainedCheckpoints="3")


@pytest.fixture
def saved(query: Batches, tmp_path: Path) -> Path:
    """A savepoint with segments."""
    made = savepoints.create(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    assert names_in(Path(made.directory) / "segments") != []
    return Path(made.directory)


@pytest.mark.parametrize("where", ["outside", "saved/another"])
def test_a_savepoint_with_a_linked_folder_is_not_deleted_at_all(
    saved: Path, tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    moved_away(saved / "segments", tmp_path / where)
    before = (names_in(saved), names_in(tmp_path / where))
    assert main(["savepoint", "delete", str(saved), "--yes"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{saved.name}/segments" in said.replace(" ", "")
    assert "is a link" in said
    assert (names_in(saved), names_in(tmp_path / where)) == before
    assert savepoints.verify(str(saved)).is_whole


def test_a_savepoint_is_not_deleted_through_a_link_to_it(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest"
    link.symlink_to(saved)
    with pytest.raises(StateLocationError, match=r"latest in .* is a link to") as caught:
        savepoints.delete(str(link))
    assert str(saved) in str(caught.value)
    assert savepoints.verify(str(saved)).is_whole
    savepoints.delete(str(saved))
    assert not saved.exists()


def test_a_claimed_savepoint_with_a_linked_folder_is_deleted_except_for_files_behind_the_link(
    saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"savepointClaim": "claim", "retainedCheckpoints": "3", "feed": "links"}
    fork = on_disk(BulkFeed, EchoReader, tmp_path / "fork", savepoint=str(saved), **options)
    fork.batch(ONE)
    moved_away(saved / "segments", tmp_path / "outside")
    kept = names_in(tmp_path / "outside")
    with caplog.at_level(logging.WARNING, "flip27_source"):
        for _ in range(30):
            fork.batch(ONE)
        fork.wait_for_clean_up()
    assert names_in(tmp_path / "outside") == kept
    assert names_in(saved) == ["segments"]
    assert caplog.text.count("is a link") == 1
    assert not list((tmp_path / "fork").glob("*/claim.json"))


# Clean-up


@pytest.mark.parametrize("folder", ["segments", "checkpoints"])
def test_clean_up_leaves_what_a_link_leads_to_and_the_query_continues(
    query: Batches, tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    (lineage,) = (tmp_path / "state").iterdir()
    moved_away(lineage / folder, tmp_path / "outside")
    with caplog.at_level(logging.WARNING, "flip27_source"):
        for _ in range(40):
            assert query.batch(ONE) is not None
            query.wait_for_clean_up()
    outside = names_in(tmp_path / "outside")
    assert len(outside) > 30  # everything that was ever written there
    assert caplog.text.count("is a link") == 1
    other = "checkpoints" if folder == "segments" else "segments"
    assert (len(names_in(lineage / other)) > 30) is (folder == "checkpoints")  # documents name segments
    for document in outside if folder == "checkpoints" else ():
        assert document.endswith(".json")
