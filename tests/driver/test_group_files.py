"""The records of a group's members, as several processes write and read them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from flip27_source.coordination.groups import Member
from flip27_source.driver.group_files import GroupFiles, application_folder
from flip27_source.errors import OptionError

RECORD = Member(run="own", source="orders", began_ms=1, beat_ms=2, lineage="files-0f3a", potential_us=3)

CHILD = """\
import sys
from flip27_source.coordination.groups import Member
from flip27_source.driver.group_files import GroupFiles
application, group, run = sys.argv[1:]
GroupFiles(application, group, run).write(Member(run=run, source="child", began_ms=1, beat_ms=2))
print("written", flush=True)
sys.stdin.read()
"""


def files(tmp_path: Path, run: str = "own", group: str = "orders") -> GroupFiles:
    return GroupFiles(str(tmp_path), group, run)


def runs(one: GroupFiles) -> list[str]:
    return [record.run for record in one.read()]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has written a record and lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), "orders", "child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    yield process
    process.kill()
    process.communicate()


def test_members_read_each_others_newest_records(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path, "other")
    assert one.read() == []
    one.write(RECORD)
    assert other.read() == [RECORD]
    other.write(replace(RECORD, run="other"))
    one.write(changed := replace(RECORD, potential_us=4))
    assert (one.read(), other.read()) == ([replace(RECORD, run="other")], [changed])
    one.close()
    one.write(RECORD)
    one.beat(10_000)
    assert other.read() == []


def test_other_groups_and_other_applications_have_other_members(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    members = [
        files(tmp_path / application, run, group)
        for application in ("one", "two")
        for group in ("orders", "../orders")
        for run in ("a", "b")
    ]
    for member in members:
        member.write(RECORD)
    assert [len(member.read()) for member in members] == [1] * 8


def test_a_killed_process_does_not_count_any_more(tmp_path: Path, child: subprocess.Popen[str]) -> None:
    one = files(tmp_path)
    assert runs(one) == ["child"]
    child.kill()
    child.wait()
    assert runs(one) == []
    assert len(list(tmp_path.rglob("child"))) == 0


def test_without_locks_a_record_counts_until_it_is_too_old(
    tmp_path: Path, child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    one = files(tmp_path)
    child.kill()
    child.wait()
    assert runs(one) == ["child"]


def test_a_beat_says_only_that_the_member_is_alive(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path, "other")
    one.beat(5)
    assert other.read() == []
    one.write(RECORD)
    one.beat(5)
    assert other.read() == [replace(RECORD, beat_ms=5)]


def test_an_unchanged_record_is_written_again_only_after_a_second(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path, "other")
    for beat_ms, stored_ms in ((0, 0), (999, 0), (1000, 1000), (1500, 1000)):
        one.write(replace(RECORD, beat_ms=beat_ms))
        assert other.read() == [replace(RECORD, beat_ms=stored_ms)]
    one.write(changed := replace(RECORD, beat_ms=1501, potential_us=9))
    assert other.read() == [changed]


def test_records_are_for_the_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files(tmp_path).write(RECORD)
    finally:
        os.umask(before)
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    files(tmp_path).write(RECORD)
    (folder,) = tmp_path.iterdir()
    (tmp_path / "elsewhere").mkdir()
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="is not a folder of the user"):
        files(tmp_path).write(RECORD)


def test_a_folder_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path, "other")
    one.write(RECORD)
    (folder,) = tmp_path.iterdir()
    (folder / "own").unlink()
    folder.rmdir()
    assert other.read() == []
    one.beat(5)
    assert other.read() == [replace(RECORD, beat_ms=5)]


def test_what_is_no_record_is_left_out(tmp_path: Path) -> None:
    one, odd, other = (files(tmp_path, run) for run in ("own", "odd", "other"))
    one.write(RECORD)
    odd.write(RECORD)
    (folder,) = tmp_path.iterdir()
    for text in ("", "{", '{"run": 3}'):
        (folder / "odd").write_text(text)
        assert other.read() == [RECORD]


def test_a_reader_never_misses_a_member_that_writes_all_the_time(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path, "other")
    one.write(RECORD)
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            one.write(replace(RECORD, potential_us=number))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = [runs(other) for _ in range(3000)]
    finally:
        is_over.set()
        thread.join()
    assert found == [["own"]] * 3000


def test_the_folder_of_the_application(tmp_path: Path) -> None:
    own = tmp_path / "blockmgr-72df4cc0"
    own.mkdir()
    for named in (f"{own}", f"/absent/blockmgr-1,{own}", f"{tmp_path},{own},{tmp_path}"):
        assert application_folder({"SPARK_LOCAL_DIRS": named}) == str(own)
    for named in ("", str(tmp_path), "/absent/blockmgr-1"):
        with pytest.raises(OptionError, match="alignmentGroup is set, and Spark has not told"):
            application_folder({"SPARK_LOCAL_DIRS": named})
