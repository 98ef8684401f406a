"""How much is listed: local directories that have changed, and pages of S3 after a cursor."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from flip27_source.enumerators.files.listing.choice import open_listers
from flip27_source.enumerators.files.listing.lister import Lister
from flip27_source.enumerators.files.listing.local_disk import (
    GRANULARITY_S,
    LocalLister,
    device_to_trust,
    file_system_of,
)
from flip27_source.enumerators.files.listing.s3 import S3Lister
from tests.s3_server import S3Bucket

from .file_sources import Rounds, rounds_on, write

SCANNED: list[str] = []
"""The directories that this process has scanned."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.scandir":
        SCANNED.append(str(arguments[0]))


sys.addaudithook(_audit)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Watched:
    """A query on a local directory, with a clock; reports the files and scanned directories of each round."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.clock = Clock()
        self.lister = LocalLister(str(root), now_s=self.clock)
        self.rounds = rounds_on(root, recursiveFileLookup=True, **options)
        self.rounds.list_with(self.lister)

    @property
    def remembered(self) -> int:
        """The number of directories that are remembered."""
        return len(self.lister._unchanged._first_seen)

    def round(self, after_s: float = GRANULARITY_S) -> tuple[list[str], list[str]]:
        self.clock.now_s += after_s
        SCANNED.clear()
        names = self.rounds.names()
        scanned = [path for path in SCANNED if path.startswith(str(self.root))]
        return names, sorted(os.path.relpath(path, self.root) for path in scanned)

    def settled(self) -> Watched:
        """Run rounds until the times of all directories are trusted; return the query."""
        self.round()
        self.round()
        return self


ALL = [".", "x", "x/y", "z"]


def test_unchanged_directories_are_not_scanned_again(tmp_path: Path) -> None:
    write(tmp_path, "a", "x/b", "x/y/c", "z/d")
    watched = Watched(tmp_path)
    assert watched.round() == (["a", "b", "c", "d"], ALL)
    assert watched.round() == ([], ALL)
    assert watched.round() == ([], [])
    write(tmp_path, "x/y/e")
    assert watched.round() == (["e"], ["x/y"])
    write(tmp_path, "new/f")
    assert watched.round() == (["f"], [".", "new", "x/y"])


def test_a_directory_that_has_changed_just_now_is_scanned_until_its_time_is_old_enough(
    tmp_path: Path,
) -> None:
    """Within the granularity of its time stamp it may change again without a visible difference."""
    write(tmp_path, "a")
    watched = Watched(tmp_path).settled()
    write(tmp_path, "b")
    assert watched.round(0.1) == (["b"], ["."])
    assert watched.round(GRANULARITY_S - 0.1) == ([], ["."])
    assert watched.round(0.1) == ([], ["."])
    assert watched.round(0.1) == ([], [])


def test_a_file_that_is_moved_in_with_an_old_time_is_found(tmp_path: Path) -> None:
    write(tmp_path, "x/a")
    watched = Watched(tmp_path).settled()
    other = tmp_path.parent / f"{tmp_path.name}-other"
    write(other, "b", modified_s=1000)
    os.rename(other / "b", tmp_path / "x" / "b")
    os.utime(tmp_path / "x", (1000, 1000))
    assert watched.round()[0] == ["b"]


def test_a_directory_with_a_file_that_is_not_accepted_yet_is_scanned_again(tmp_path: Path) -> None:
    """Neither a touched file nor a link that gets a target changes the directory's time."""
    write(tmp_path, "x/a", "z/b", modified_s=1000)
    os.symlink(tmp_path / "target", tmp_path / "x" / "link")
    watched = Watched(tmp_path, modifiedAfter="1970-01-02T00:00:00Z")
    watched.settled()
    for _ in range(2):
        assert watched.round() == ([], ["x", "z"])
    os.utime(tmp_path / "z" / "b", (1_700_000_000, 1_700_000_000))
    assert watched.round()[0] == ["b"]


def test_directories_are_not_skipped_after_a_failed_round(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    write(tmp_path, "a")
    watched.round()
    write(tmp_path, "b")
    for _ in range(2):
        watched.clock.now_s += 10
        list(watched.lister.files(recursive=True))
    assert watched.round()[0] == ["b"]


@pytest.mark.parametrize(("overwrites", "scanned"), [(False, []), (True, [".", "18", "19"])])
def test_directories_that_are_gone_are_forgotten(
    tmp_path: Path, overwrites: bool, scanned: list[str]
) -> None:
    """Over years, new directories appear and old ones are removed."""
    watched = Watched(tmp_path, allowOverwrites=overwrites)
    for day in range(20):
        write(tmp_path, f"{day:02}/a")
        watched.settled()
        if day >= 2:
            shutil.rmtree(tmp_path / f"{day - 2:02}")
    watched.settled()
    assert watched.remembered == 3
    assert watched.round() == ([], scanned)


def test_a_limited_number_of_directories_is_remembered_and_the_others_are_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_source.enumerators.files.listing.local_disk.MOST_DIRECTORIES", 3)
    write(tmp_path, *(f"{number}/a" for number in range(5)))
    watched = Watched(tmp_path).settled()
    for number in range(3):
        names, scanned = watched.round()
        assert (names, len(scanned), watched.remembered) == ([], 3, 3)
        write(tmp_path, f"{number}/b")
        assert watched.round()[0] == ["b"]
        watched.settled()


def test_if_files_may_be_overwritten_every_directory_is_scanned(tmp_path: Path) -> None:
    """Overwriting a file does not change the time of its directory."""
    write(tmp_path, "x/a")
    watched = Watched(tmp_path, allowOverwrites=True).settled()
    watched.round()
    with open(tmp_path / "x" / "a", "ab") as file:
        file.write(b"more")
    assert watched.round() == (["a"], [".", "x"])


def test_the_search_for_late_files_scans_every_directory(tmp_path: Path) -> None:
    write(tmp_path, "x/a", "z/b")
    watched = Watched(tmp_path, seenFiles="nameCursor", backfillInterval="0 ms").settled()
    assert watched.round() == ([], [".", "x", "z"])


def test_directories_are_skipped_only_on_file_systems_known_to_update_their_times(tmp_path: Path) -> None:
    assert device_to_trust("/proc") == -1
    assert device_to_trust(str(tmp_path / "nothing")) == -1
    assert device_to_trust(str(tmp_path)) == os.stat(tmp_path).st_dev


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", "ext4"),
        ("/data/größe/in", "nfs4"),
        ("/data/a b\\/in", "cifs"),
        (os.fsdecode(b"/data/lat\xe9/in"), "fuse"),
        ("/data/größer", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_mount_point_above_it(path: str, kind: str) -> None:
    mounts = [
        b"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n",
        "22 21 0:40 / /data/größe rw - nfs4 server:/a rw\n".encode(),
        b"23 21 0:41 / /data/a\\040b\\134 rw shared:2 - cifs //server/a rw\n",
        b"24 21 0:42 / /data/lat\xe9 rw - fuse none rw\n",
    ]
    assert file_system_of(path, mounts) == kind


PAGE = 50
"""The number of keys in a page in these tests; writing a thousand keys would take long."""


class Bucket:
    """A bucket of the S3 server, and the requests that the server received."""

    def __init__(self, bucket: S3Bucket, caplog: pytest.LogCaptureFixture) -> None:
        self.name = bucket.name
        self.bucket = bucket
        self._log = caplog
        caplog.set_level(logging.INFO, logger="werkzeug")

    def put(self, *keys: str) -> None:
        for key in keys:
            self.bucket.file_system.call_s3("put_object", Bucket=self.name, Key=f"in/{key}", Body=b"x")

    def requests(self) -> list[str]:
        """Return the requests that the server has received since the last call."""
        texts = [record.getMessage() for record in self._log.records if record.name == "werkzeug"]
        self._log.clear()
        return [match[1] for text in texts if (match := re.search(r'"(\w+ /\S*) HTTP', text))]

    def lister(self) -> Lister:
        lister = open_listers([f"s3://{self.name}/in"], self.bucket.storage_options)
        assert isinstance(lister, S3Lister)
        lister.page_keys = PAGE
        return lister

    def rounds(self, **options: str) -> Rounds:
        rounds = rounds_on(f"s3://{self.name}/in", **self.bucket.options, **options)
        rounds.list_with(self.lister())
        return rounds


@pytest.fixture
def bucket(s3_bucket: S3Bucket, caplog: pytest.LogCaptureFixture) -> Bucket:
    return Bucket(s3_bucket, caplog)


@pytest.mark.parametrize("recursive", ["true", "false"])
def test_without_new_files_a_name_cursor_makes_one_request_to_s3_however_many_files_exist(
    bucket: Bucket, recursive: str
) -> None:
    bucket.put(*(f"{number:04}" for number in range(60)))
    rounds = bucket.rounds(seenFiles="nameCursor", recursiveFileLookup=recursive)
    assert len(rounds.names()) == 60
    bucket.requests()
    assert rounds.names() == []
    (request,) = bucket.requests()
    assert "list-type=2" in request
    assert "start-after=in" in request
    bucket.put("0060")
    bucket.requests()
    assert rounds.names() == ["0060"]
    assert len(bucket.requests()) == 1


def test_exact_lists_all_keys_page_by_page(bucket: Bucket) -> None:
    bucket.put(*(f"{number:04}" for number in range(60)))
    rounds = bucket.rounds()
    assert len(rounds.names()) == 60
    bucket.requests()
    assert rounds.names() == []
    assert len(bucket.requests()) == 2


def test_many_keys_under_few_prefixes_are_listed_once_and_completely(bucket: Bucket) -> None:
    keys = [f"{day}/{number:02}" for day in ("a", "b", "c", "_hidden") for number in range(20)]
    bucket.put(*keys, "top-1", "zz", "a.json", "b/deep/er/x")
    lister = bucket.lister()
    bucket.requests()
    found = [path.removeprefix(f"s3://{bucket.name}/in/") for path, _ in lister.files(recursive=True)]
    expected = {key for key in keys if not key.startswith("_")} | {"top-1", "zz", "a.json", "b/deep/er/x"}
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len(bucket.requests()) == 4  # a page, the prefixes, the rest of b and c; none for hidden ones
    after = f"s3://{bucket.name}/in/b/10"
    behind = [path.rpartition("/in/")[2] for path, _ in lister.files_after(after, recursive=True)]
    assert sorted(behind) == sorted(key for key in expected if key > "b/10")


def test_many_prefixes_are_listed_by_pages_of_all_keys(bucket: Bucket) -> None:
    keys = [f"{number:04}/x" for number in range(70)]
    bucket.put(*keys)
    lister = bucket.lister()
    bucket.requests()
    assert len(list(lister.files(recursive=True))) == 70
    assert len(bucket.requests()) == 3


def test_keys_of_any_characters_are_found_after_a_cursor_in_the_order_of_s3(bucket: Bucket) -> None:
    names = ["a b", "a+b", "a%20b", "ä", "zz", "\uff5e", "\U0001f600"]
    bucket.put("A")
    rounds = bucket.rounds(seenFiles="nameCursor")
    assert rounds.names() == ["A"]
    for name in sorted(names):
        bucket.put(name)
        assert rounds.names() == [name]
    assert rounds.names() == []
