"""cleanSource removes only files that are really below the source's path, whatever links there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.files.cleaning import CleanFile
from tests.deadline import until
from tests.places import LocalPlace

from .file_sources import write
from .test_cleaning import Landing, cleaning_of

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


@EACH_WAY
def test_files_behind_a_link_within_the_path_are_cleaned(tmp_path: Path, clean: str) -> None:
    root, archive = tmp_path / "landing", tmp_path / "archive"
    write(root / "x", "a")
    (root / "link").symlink_to("x")
    cleaning_of(root, clean, sourceArchiveDir=str(archive)).perform(due(root / "link" / "a", clean, archive))
    assert list((root / "x").iterdir()) == []
    assert (archive / str(root).lstrip("/") / "link" / "a").exists() == (clean == "archive")


@EACH_WAY
def test_a_path_that_is_itself_a_link_is_cleaned(tmp_path: Path, clean: str) -> None:
    archive = tmp_path / "archive"
    write(tmp_path / "disk" / "x", "a")
    (tmp_path / "landing").symlink_to("disk")
    cleaning_of(tmp_path / "landing", clean, sourceArchiveDir=str(archive)).perform(
        due(tmp_path / "landing/x/a", clean, archive)
    )
    assert list((tmp_path / "disk" / "x").iterdir()) == []


@EACH_WAY
def test_cleaning_a_link_to_a_file_removes_the_link_and_keeps_the_file(tmp_path: Path, clean: str) -> None:
    root, archive = tmp_path / "landing", tmp_path / "archive"
    write(tmp_path / "elsewhere", "a")
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere" / "a")
    cleaning_of(root, clean, sourceArchiveDir=str(archive)).perform(due(root / "link", clean, archive))
    assert not os.path.lexists(root / "link")
    assert (tmp_path / "elsewhere" / "a").read_bytes() == b"data"


@EACH_WAY
def test_files_that_a_glob_matches_through_a_link_out_of_its_base_folder_are_not_cleaned(
    tmp_path: Path, clean: str
) -> None:
    root, archive = tmp_path / "landing", tmp_path / "archive"
    write(root / "x" / "orders", "a")
    write(tmp_path / "elsewhere" / "orders", "b")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    cleans = cleaning_of(root / "*" / "orders", clean, sourceArchiveDir=str(archive))
    for path in (root / "x" / "orders" / "a", root / "link" / "orders" / "b"):
        cleans.perform(due(path, clean, archive))
    assert not (root / "x" / "orders" / "a").exists()
    assert (tmp_path / "elsewhere" / "orders" / "b").exists()


@EACH_WAY
def test_a_file_of_a_former_path_of_the_source_is_cleaned_unless_it_is_behind_a_link(
    tmp_path: Path, clean: str
) -> None:
    archive = tmp_path / "archive"
    write(tmp_path / "before", "a")
    write(tmp_path / "before", "b")
    (tmp_path / "link").symlink_to("before")
    cleans = cleaning_of(tmp_path / "landing", clean, sourceArchiveDir=str(archive))
    cleans.perform(due(tmp_path / "before" / "a", clean, archive))
    cleans.perform(due(tmp_path / "link" / "b", clean, archive))
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
