"""Faults of the disk that the state lies on: each is made, lasts for a while, and is gone.

Some need a mount of their own. :func:`in_a_mount_namespace` gives the soak one that nobody else sees and that
goes with its last process; where the machine allows no such thing, those faults are left out.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MOUNTS = "FLIP27_SOAK_MOUNTS"
DISK_BYTES = 64 << 20
"""Of the disk for the state; Spark's checkpoint and the sinks lie elsewhere."""

_DEADLINE_S = 20.0


def in_a_mount_namespace() -> None:
    """Start this program again where it may mount, if that is possible; on return it is as far as it gets."""
    if MOUNTS in os.environ:
        return
    for isolated in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        probe = [*isolated, "sh", "-c", "mount -t tmpfs -o size=64k flip27-soak /tmp"]
        with contextlib.suppress(OSError):
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                os.environ[MOUNTS] = "yes"
                os.execvp(isolated[0], [*isolated, sys.executable, "-m", "tests.soak", *sys.argv[1:]])
    os.environ[MOUNTS] = "no"


class FaultyDisk:
    """A folder, on a small disk of its own where one can be mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_mount = os.environ.get(MOUNTS) == "yes"
        folder.mkdir()
        if self.has_mount:
            _mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "flip27-soak", str(folder))

    def close(self) -> None:
        """Nothing of it is left."""
        if self.has_mount:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    @contextlib.contextmanager
    def full(self, chance: random.Random) -> Iterator[str]:
        """Another program has filled the disk; some bytes are left."""
        filler = self.folder / "filler"
        left = chance.choice((0, 0, 1, 2, 4)) * 4096
        with filler.open("wb", buffering=0) as file:
            try:
                with contextlib.suppress(OSError):
                    while file.write(bytes(1 << 20)):
                        pass
                file.truncate(max(0, file.tell() - left))
                yield f"{left} bytes are left"
            finally:
                filler.unlink()

    @contextlib.contextmanager
    def read_only(self, chance: random.Random) -> Iterator[str]:
        """The disk is mounted read-only, as after an error."""
        self._remount("ro")
        try:
            yield "mounted read-only"
        finally:
            self._remount("rw")

    @contextlib.contextmanager
    def permissions(self, chance: random.Random, below: list[Path]) -> Iterator[str]:
        """Some folder may no longer be written, listed or entered."""
        folders = [Path(path) for top in below for path, _, _ in os.walk(top)] or [self.folder]
        folder = chance.choice(folders)
        before, mode = folder.stat().st_mode, chance.choice((0o000, 0o555, 0o333, 0o444))
        folder.chmod(mode)
        try:
            yield f"{folder.relative_to(self.folder)} has permissions {mode:03o}"
        finally:
            with contextlib.suppress(FileNotFoundError):
                folder.chmod(before)

    @contextlib.contextmanager
    def limited(self, chance: random.Random, processes: Callable[[], list[int]]) -> Iterator[str]:
        """No file may become longer than this (``ulimit -f``): the write that passes it is cut short."""
        limit = chance.choice((0, 1, 100, 1000, 3000))
        gone, limited = threading.Event(), set[int]()

        def limit_all() -> None:
            while not gone.wait(0.05):
                for pid in processes():
                    if _set_limit(pid, limit):
                        limited.add(pid)

        thread = threading.Thread(target=limit_all, daemon=True)
        thread.start()
        try:
            yield f"no file may be longer than {limit} bytes"
        finally:
            gone.set()
            thread.join()
            for pid in limited:
                _set_limit(pid, resource.RLIM_INFINITY)

    def _remount(self, how: str) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        # Busy while a file is open for writing.
        while True:
            try:
                return _mount("-o", f"remount,bind,{how}", str(self.folder))
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _set_limit(pid: int, limit: int) -> bool:
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
    except (ProcessLookupError, PermissionError):
        return False
    return True
