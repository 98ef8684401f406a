"""Links in a landing folder: a link that leads back to a parent neither stops a query nor doubles rows."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.files.cleaning import CleanFile
from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.listing.local_disk import GRANULARITY_S
from flip27_source.errors import OptionError
from tests.deadline import until
from tests.other_file_systems import PASSWORD, USER, sftp_server
from tests.places import LocalPlace

from .file_sources import Run, files_source, rounds_on, write
from .test_cleaning import Landing, cleaning_of
from .test_enumerator_listing import Watched


def names_below(root: Path | str, *, recursive: bool = True) -> list[str]:
    """Return the listed paths relative to the root; a path that is listed twice is returned twice."""
    listed = open_listers([str(root)], {}).files(recursive=recursive)
    return sorted(os.path.relpath(path, root) for path, info in listed if info() is not None)


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


LOOPS = {
    "to itself": {"loop": "loop"},
    "to the root": {"loop": "."},
    "to the root from below": {"x/loop": ".."},
    "above the root": {"x/loop": "../.."},
    "to the root of the file system": {"x/loop": "/"},
    "to an intermediate directory": {"x/y/loop": ".."},
    "two links to each other": {"one": "two", "two": "one"},
    "two directories that link to each other": {"x/to_z": "../z", "z/to_x": "../x"},
    "a partition directory": {"day=1/day=2": "."},
    "a hidden link": {"x/.loop": ".."},
}


@pytest.mark.parametrize("links", LOOPS.values(), ids=LOOPS)
def test_a_loop_of_links_is_skipped_and_all_other_files_are_read(
    tmp_path: Path, links: dict[str, str]
) -> None:
    root = tmp_path / "in"
    write(root, "a", "x/b", "x/y/c", "z/d", "day=1/e")
    for name, target in links.items():
        link(root / name, target)
    run = Run(files_source(root, recursiveFileLookup=True))
    found = [os.path.realpath(split.path) for split in run.read()]
    expected = {str(root / name) for name in ("a", "x/b", "x/y/c", "z/d", "day=1/e")}
    assert set(found) == expected
    assert len(found) <= 2 * len(expected)  # directories that link to each other double files
    write(root, "later")
    assert run.names() == ["later"]


def test_files_behind_a_link_to_another_directory_are_read_except_for_a_loop(tmp_path: Path) -> None:
    write(tmp_path / "in", "a")
    write(tmp_path / "elsewhere", "b", "deep/c")
    link(tmp_path / "in" / "link", tmp_path / "elsewhere")
    link(tmp_path / "elsewhere" / "back", tmp_path / "in")
    link(tmp_path / "elsewhere" / "self", tmp_path / "elsewhere")
    assert names_below(tmp_path / "in") == ["a", "link/b", "link/deep/c"]


def test_a_glob_does_not_match_a_loop(tmp_path: Path) -> None:
    write(tmp_path, "x/orders/a")
    link(tmp_path / "loop", ".")
    listed = open_listers([f"{tmp_path}/*/orders"], {}).files(recursive=False)
    assert [os.path.relpath(path, tmp_path) for path, _ in listed] == ["x/orders/a"]


def test_a_loop_is_reported_once_and_again_when_it_reappears(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a")
    link(tmp_path / "loop", "loop")
    rounds = rounds_on(tmp_path, recursiveFileLookup=True)
    told = f"the link {tmp_path}/loop is skipped: Too many levels of symbolic links"
    assert [rounds.names(), rounds.names(), rounds.names()] == [["a"], [], []]
    assert caplog.messages.count(told) == 1
    (tmp_path / "loop").unlink()
    rounds.names()
    link(tmp_path / "loop", "loop")
    rounds.names()
    assert caplog.messages.count(told) == 2


def test_a_loop_does_not_keep_its_directory_from_being_left_out_of_listings(tmp_path: Path) -> None:
    write(tmp_path, "x/a")
    link(tmp_path / "x" / "loop", "..")
    watched = Watched(tmp_path).settled()
    assert watched.round() == ([], [])
    write(tmp_path, "x/b")
    assert watched.round() == (["b"], ["x"])


def test_a_loop_below_directories_that_are_not_scanned_again_is_still_found(tmp_path: Path) -> None:
    """The path of links to a directory stays known while the directory is left out of listings."""
    write(tmp_path / "in", "a")
    write(tmp_path / "elsewhere", "b/c")
    link(tmp_path / "in" / "link", tmp_path / "elsewhere")
    watched = Watched(tmp_path / "in").settled()
    assert watched.round() == ([], [])
    link(tmp_path / "elsewhere" / "b" / "back", tmp_path / "in")
    assert watched.round(GRANULARITY_S) == ([], ["link/b"])


@pytest.mark.parametrize("target", ["nowhere", "a/below-a-file", "x" * 300, "loop"])
def test_a_dangling_link_is_read_once_it_leads_to_a_file(tmp_path: Path, target: str) -> None:
    write(tmp_path, "a")
    link(tmp_path / "loop", target)
    rounds = rounds_on(tmp_path)
    assert rounds.names() == ["a"]
    (tmp_path / "loop").unlink()
    write(tmp_path.parent / f"{tmp_path.name}-other", "b")
    link(tmp_path / "loop", tmp_path.parent / f"{tmp_path.name}-other" / "b")
    assert rounds.names() == ["loop"]


def test_a_path_that_is_a_loop_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    link(tmp_path / "loop", "loop")
    with pytest.raises(OptionError, match="loop cannot be listed: Too many levels of symbolic links"):
        open_listers([str(tmp_path / "loop")], {}).check_root()


def test_a_directory_that_vanishes_or_becomes_a_file_while_its_parent_is_listed_does_not_stop_the_query(
    tmp_path: Path,
) -> None:
    """Its files count as removed, like a file that vanishes between its listing and its ``stat``."""
    write(tmp_path, "a", "b", "x/c", "y/d")
    listed = open_listers([str(tmp_path)], {}).files(recursive=True)
    found = [os.path.relpath(next(listed)[0], tmp_path) for _ in range(2)]
    assert sorted(found) == ["a", "b"]
    shutil.rmtree(tmp_path / "x")
    write(tmp_path, "x")
    shutil.rmtree(tmp_path / "y")
    assert list(listed) == []
    assert names_below(tmp_path) == ["a", "b", "x"]


def test_links_on_an_sftp_server_are_read_if_they_lead_to_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "in/a", "in/x/b", "elsewhere/c", data=b"12345")
    for name, target in {"loop": "loop", "up": "..", "x/back": "..", "nowhere": "nothing"}.items():
        link(tmp_path / "in" / name, target)
    link(tmp_path / "in" / "file", "../elsewhere/c")
    link(tmp_path / "in" / "folder", "../elsewhere")
    with sftp_server(tmp_path) as server:
        lister = open_listers([f"{server.url}/in"], {"username": USER, "password": PASSWORD})
        for _ in range(2):
            listed = {p.removeprefix(f"{server.url}/in/"): info() for p, info in lister.files(recursive=True)}
            known = {name: info.length for name, info in listed.items() if info is not None}
            assert known == {"a": 5, "x/b": 5, "file": 5}
    passed_over = {text.partition(" is skipped")[0] for text in caplog.messages}
    assert passed_over == {f"the link /in/{name}" for name in ("loop", "up", "x/back", "folder")}
    assert len(caplog.messages) == 4


EACH_WAY = pytest.mark.parametrize("clean", ["delete", "archive"])
BEFORE: list[Callable[[], None]] = []
"""What happens the next time that a file is about to be taken away."""


def _audit(event: str, _: tuple[Any, ...]) -> None:
    if event in ("os.remove", "os.rename") and BEFORE:
        BEFORE.pop()()


sys.addaudithook(_audit)


def due(path: Path, clean: str, archive: Path) -> CleanFile:
    """Return the cleaning that is due for a file in its present state."""
    found = path.stat()
    target = f"{archive}/{str(path).lstrip('/')}" if clean == "archive" else None
    return CleanFile(
        path=str(path), length=found.st_size, modified_us=found.st_mtime_ns // 1000, archive=target
    )


@EACH_WAY
def test_a_file_behind_a_link_that_leads_out_of_the_path_is_read_and_stays_with_a_warning(
    tmp_path: Path, clean: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = LocalPlace(tmp_path)
    place.put("a")
    write(tmp_path / "elsewhere", "b")
    (tmp_path / "landing" / "link").symlink_to(tmp_path / "elsewhere")
    landing = Landing(place, clean, recursiveFileLookup="true")
    assert sorted(landing.next_batch()) == ["a", "b"]
    landing.clean()
    until(lambda: "a" not in place.names())
    done = "deleted" if clean == "delete" else "archived"
    why = "is not below the source's path, because its directory is a link,"
    told = f"{tmp_path}/landing/link/b {why} and was not "
    until(lambda: told + done in caplog.messages, lambda: caplog.messages)
    assert (tmp_path / "elsewhere" / "b").read_bytes() == b"data"


def clean_now(root: Path, clean: str, *paths: Path) -> Path:
    """Clean files as a source that reads the root; returns the archive's folder for the root."""
    archive = root.parent / "archive"
    cleaning = cleaning_of(root, clean, sourceArchiveDir=str(archive))
    for path in paths:
        cleaning.perform(due(path, clean, archive))
    return archive / str(root).lstrip("/")


@EACH_WAY
def test_files_behind_a_link_within_the_path_are_cleaned(tmp_path: Path, clean: str) -> None:
    root = tmp_path / "landing"
    write(root, "x/a")
    (root / "link").symlink_to("x")
    archived = clean_now(root, clean, root / "link" / "a")
    assert list((root / "x").iterdir()) == []
    assert (archived / "link" / "a").exists() == (clean == "archive")


@EACH_WAY
def test_a_path_that_is_itself_a_link_is_cleaned(tmp_path: Path, clean: str) -> None:
    write(tmp_path, "disk/x/a")
    (tmp_path / "landing").symlink_to("disk")
    clean_now(tmp_path / "landing", clean, tmp_path / "landing/x/a")
    assert list((tmp_path / "disk" / "x").iterdir()) == []


@EACH_WAY
def test_cleaning_a_link_to_a_file_removes_the_link_and_keeps_the_file(tmp_path: Path, clean: str) -> None:
    root = tmp_path / "landing"
    write(tmp_path, "elsewhere/a")
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere" / "a")
    clean_now(root, clean, root / "link")
    assert not os.path.lexists(root / "link")
    assert (tmp_path / "elsewhere" / "a").read_bytes() == b"data"


@EACH_WAY
def test_files_that_a_glob_matches_through_a_link_out_of_its_base_folder_are_not_cleaned(
    tmp_path: Path, clean: str
) -> None:
    root = tmp_path / "landing"
    write(root, "x/orders/a")
    write(tmp_path, "elsewhere/orders/b")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    cleaning = cleaning_of(root / "*" / "orders", clean, sourceArchiveDir=str(tmp_path / "archive"))
    for path in (root / "x" / "orders" / "a", root / "link" / "orders" / "b"):
        cleaning.perform(due(path, clean, tmp_path / "archive"))
    assert not (root / "x" / "orders" / "a").exists()
    assert (tmp_path / "elsewhere" / "orders" / "b").exists()


@EACH_WAY
def test_a_file_of_a_former_path_of_the_source_is_cleaned_unless_it_is_behind_a_link(
    tmp_path: Path, clean: str
) -> None:
    write(tmp_path / "before", "a", "b")
    (tmp_path / "link").symlink_to("before")
    clean_now(tmp_path / "landing", clean, tmp_path / "before" / "a", tmp_path / "link" / "b")
    assert os.listdir(tmp_path / "before") == ["b"]


@pytest.mark.parametrize("target", ["loop", "nowhere", "file/below"])
def test_a_folder_that_has_become_a_dangling_link_counts_as_removed(tmp_path: Path, target: str) -> None:
    root, archive = tmp_path / "landing", tmp_path / "archive"
    write(root / "x", "a")
    write(root, "file")
    action = due(root / "x" / "a", "delete", archive)
    (root / "x").rename(tmp_path / "away")
    (root / "x").symlink_to(target if target != "loop" else "x")
    cleaning_of(root, "delete", sourceArchiveDir=str(archive)).perform(action)
    assert (tmp_path / "away" / "a").exists()


@EACH_WAY
def test_files_behind_a_link_that_replaces_a_folder_at_the_last_moment_are_not_cleaned(
    tmp_path: Path, clean: str
) -> None:
    root, archive = tmp_path / "landing", tmp_path / "archive"
    write(root / "x", "a")
    action = due(root / "x" / "a", clean, archive)
    write(tmp_path / "elsewhere", "a")

    def exchange() -> None:
        (root / "x").rename(tmp_path / "away")
        (root / "x").symlink_to(tmp_path / "elsewhere")

    BEFORE.append(exchange)
    cleaning_of(root, clean, sourceArchiveDir=str(archive)).perform(action)
    assert BEFORE == []
    assert (tmp_path / "elsewhere" / "a").exists()
    assert not (tmp_path / "away" / "a").exists()
