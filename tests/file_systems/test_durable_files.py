"""Durable files: a name has all bytes or does not exist, whatever limit, crash or power cut intervenes."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flip27_source.errors import StateLocationError
from flip27_source.file_systems.durable_files import OS_DISK, Disk, DurableFiles
from flip27_source.snapshots.store import LocalStore
from tests.simulator.disk import ProcessDisk, SimulatedDisk

SEEDS = range(40)
ROOT = "/ckpt/orders/flip27"
NAME = f"{ROOT}/lineage/segments/a"
OLD, NEW = b"what was there before" * 50, b"what is written now" * 100


class PowerFails(BaseException):
    """The power has failed: no later call has an effect."""


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Set a limit as ``ulimit -f`` does: a write beyond it is cut short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_on(disk: SimulatedDisk, gate: Callable[[str, str], None] | None = None) -> DurableFiles:
    return DurableFiles(ROOT, disk.seen_by(gate))


def stops_at(step: int, error: BaseException) -> Callable[[str, str], None]:
    """A gate that raises at a given call and at every later one."""
    calls = 0

    def gate(call: str, path: str) -> None:
        nonlocal calls
        calls += 1
        if calls >= step:
            raise error

    return gate


def calls_of(work: Callable[[DurableFiles], object]) -> int:
    """The number of calls that ``work`` makes to the disk."""
    count = 0

    def gate(call: str, path: str) -> None:
        nonlocal count
        count += 1

    work(files_on(SimulatedDisk(), gate))
    return count


def test_a_write_cut_short_by_a_limit_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    data = bytes(200_000)
    with largest_file(65_536), pytest.raises(StateLocationError, match="cannot write segments/a"):
        store.create("segments/a", data)
    assert list((tmp_path / "segments").iterdir()) == []
    assert store.create("segments/a", data)
    assert store.read("segments/a") == data


def test_a_replacement_cut_short_by_a_limit_keeps_the_old_content(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.replace("a", b"before")
    with largest_file(65_536), pytest.raises(StateLocationError):
        store.replace("a", bytes(200_000))
    assert store.read("a") == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_truncated_file_is_rewritten_under_its_content_name(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments" / "a").write_bytes(NEW[:65])
    store.ensure("segments/a", NEW)
    assert store.read("segments/a") == NEW


def test_a_disk_that_accepts_one_byte_at_a_time_gets_all_bytes() -> None:
    disk = SimulatedDisk()

    class TakesOne(ProcessDisk):
        def write(self, handle: int, data: memoryview) -> int:
            return super().write(handle, data[:1])

    files = DurableFiles(ROOT, TakesOne(disk))
    assert files.create(NAME, b"abc")
    assert disk.files() == {NAME: b"abc"}


def test_a_full_disk_is_an_error_that_keeps_the_old_content() -> None:
    disk = SimulatedDisk()
    files = files_on(disk)
    files.replace(NAME, OLD)
    disk.room_bytes = len(NEW) - 1
    with pytest.raises(OSError, match="No space left"):
        files.replace(NAME, NEW)
    assert disk.files() == {NAME: OLD}
    disk.room_bytes = len(NEW)
    files.replace(NAME, NEW)
    assert disk.files() == {NAME: NEW}


@pytest.mark.parametrize("seed", SEEDS)
def test_replacements_and_removals_survive_a_power_cut(seed: int) -> None:
    disk = SimulatedDisk(seed)
    files = files_on(disk)
    files.create(NAME, OLD)
    files.replace(NAME, NEW)
    files.create(f"{ROOT}/another/b", OLD)
    files.remove(f"{ROOT}/another/b")
    disk.cut_power()
    assert disk.files() == {NAME: NEW}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_name_created_by_a_dead_process_is_durable_once_it_is_found(seed: int) -> None:
    disk = SimulatedDisk(seed)
    steps = calls_of(lambda files: files.create(NAME, NEW))
    with pytest.raises(PowerFails):  # the last call of a create syncs the folder
        files_on(disk, stops_at(steps, PowerFails())).create(NAME, NEW)
    assert not files_on(disk).create(NAME, NEW)
    disk.cut_power()
    assert disk.files()[NAME] == NEW


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_that_a_dead_process_has_deleted_stays_away_once_it_is_deleted_again(seed: int) -> None:
    disk = SimulatedDisk(seed)
    files_on(disk).create(NAME, OLD)
    with pytest.raises(PowerFails):  # before the folder is synced
        files_on(disk, stops_at(2, PowerFails())).remove(NAME)
    files_on(disk).remove(NAME)
    disk.cut_power()
    assert disk.files() == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_folders_created_by_a_dead_process_are_durable_once_they_are_used(seed: int) -> None:
    for step in range(1, calls_of(lambda files: files.create(NAME, NEW))):
        disk = SimulatedDisk(seed)
        with pytest.raises(PowerFails):
            files_on(disk, stops_at(step, PowerFails())).create(NAME, NEW)
        files_on(disk).create(f"{ROOT}/lineage/segments/b", NEW)
        disk.cut_power()
        assert disk.files()[f"{ROOT}/lineage/segments/b"] == NEW


def another_users(call: str, path: str) -> None:
    """Refuse to sync the folder above the root."""
    if (call, path) == ("sync_folder", "/ckpt"):
        raise PermissionError(errno.EACCES, "Permission denied", path)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_folder_above_the_root_that_cannot_be_synced_is_an_error(seed: int) -> None:
    disk = SimulatedDisk(seed)
    with pytest.raises(PermissionError):
        files_on(disk, another_users).create(NAME, NEW)
    assert NAME not in disk.files()


def test_a_folder_above_the_root_that_belongs_to_another_user_need_not_be_synced() -> None:
    disk = SimulatedDisk()
    files_on(disk).create(NAME, OLD)
    disk.of_others = {"/ckpt"}
    assert files_on(disk, another_users).create(f"{NAME}2", NEW)


def test_a_folder_that_a_dead_process_of_this_user_may_have_made_must_be_synced() -> None:
    disk = SimulatedDisk()
    disk.seen_by().make_folder("/ckpt")
    disk.seen_by().make_folder("/ckpt/orders")
    with pytest.raises(PermissionError):
        files_on(disk, another_users).create(NAME, NEW)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_power_cut_a_file_has_its_old_or_its_new_content(seed: int) -> None:
    def create_and_replace(files: DurableFiles) -> None:
        files.create(NAME, OLD)
        files.replace(NAME, NEW)

    for step in range(1, calls_of(create_and_replace) + 1):
        disk = SimulatedDisk(seed)
        with pytest.raises(PowerFails):
            create_and_replace(files_on(disk, stops_at(step, PowerFails())))
        disk.cut_power()
        assert disk.files().get(NAME) in {None, OLD, NEW}, f"power failed at call {step}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_an_error_in_any_call_is_raised_and_leaves_a_complete_file_or_none(number: int) -> None:
    for step in range(1, calls_of(lambda files: files.create(NAME, NEW)) + 1):
        disk = SimulatedDisk()
        broken = files_on(disk, stops_at(step, OSError(number, os.strerror(number))))
        with pytest.raises(OSError, match=os.strerror(number)):
            broken.create(NAME, NEW)
        assert disk.files().get(NAME) in {None, NEW}, f"failed at call {step}"


def test_temporary_files_of_killed_processes_are_removed_only_when_they_are_old() -> None:
    disk = SimulatedDisk()
    for step in range(1, calls_of(lambda files: files.create(NAME, NEW))):
        with suppress(PowerFails):
            files_on(disk, stops_at(step, PowerFails())).create(NAME, NEW)
    files = files_on(disk)
    left = sum("/.tmp-" in path for path in disk.files())
    assert left > 0
    assert files.remove_abandoned(os.path.dirname(NAME)) == 0
    disk.now = 3600
    assert files.remove_abandoned(os.path.dirname(NAME)) == left
    assert not [path for path in disk.files() if "/.tmp-" in path]


def test_a_copy_is_complete_with_times_and_permissions_or_absent(tmp_path: Path) -> None:
    source, target = tmp_path / "landing" / "a", tmp_path / "archive" / "day=1" / "a"
    source.parent.mkdir()
    source.write_bytes(NEW)
    os.utime(source, ns=(1_000, 2_000))
    source.chmod(0o640)
    files = DurableFiles(str(tmp_path / "archive"))
    with pytest.raises(OSError, match=f"{len(NEW)} bytes were copied, 7 were expected"):
        files.copy_from(str(source), str(target), length=7)
    assert list(target.parent.iterdir()) == []
    files.copy_from(str(source), str(target), length=len(NEW))
    assert target.read_bytes() == NEW
    assert (target.stat().st_mtime_ns, target.stat().st_mode & 0o777) == (2_000, 0o640)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_moved_file_keeps_one_of_its_names_after_a_power_cut(seed: int) -> None:
    source, target = "/landing/a", "/archive/landing/a"

    def prepared() -> SimulatedDisk:
        disk = SimulatedDisk(seed)
        DurableFiles("/landing", disk.seen_by()).create(source, NEW)
        return disk

    count = 0

    def counting(call: str, path: str) -> None:
        nonlocal count
        count += 1

    DurableFiles("/archive", prepared().seen_by(counting)).move(source, target)
    for step in range(1, count + 1):
        disk = prepared()
        gate = stops_at(step, PowerFails())
        with pytest.raises(PowerFails):
            DurableFiles("/archive", disk.seen_by(gate)).move(source, target)
        disk.cut_power()
        assert set(disk.files()) & {source, target}, f"power failed at call {step}"
    moved = prepared()
    DurableFiles("/archive", moved.seen_by()).move(source, target)
    moved.cut_power()
    assert moved.files() == {target: NEW}


@pytest.mark.parametrize("kind", ["of this machine", "simulated"])
def test_the_disk_of_this_machine_and_the_simulated_disk_behave_alike(kind: str, tmp_path: Path) -> None:
    root = str(tmp_path) if kind == "of this machine" else "/x"
    disk: Disk = OS_DISK if kind == "of this machine" else SimulatedDisk().seen_by()
    files = DurableFiles(root, disk)
    assert files.create(f"{root}/a/b", b"1")
    assert not files.create(f"{root}/a/b", b"2")
    files.replace(f"{root}/a/c", b"3")
    files.replace(f"{root}/a/c", b"4")
    files.move(f"{root}/a/c", f"{root}/d/e")
    files.remove(f"{root}/never")
    assert disk.names(f"{root}/a") == ["b"]
    assert disk.read(f"{root}/a/b") == b"1"
    assert disk.read(f"{root}/d/e", 10) == b"4"
    assert not disk.exists(f"{root}/a/c")
    assert disk.is_folder(f"{root}/d")
    with pytest.raises(FileNotFoundError):
        files.move(f"{root}/a/c", f"{root}/d/f")
    with pytest.raises(FileNotFoundError):
        disk.names(f"{root}/nothing")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder(f"{root}/d")
