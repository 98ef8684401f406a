"""Faults of the disk with the state. Each lasts for a while and is then removed.

Some need a separate mount. :func:`in_a_mount_namespace` gives the soak a mount namespace that no other
process sees and that ends with its last process. If the machine does not allow it, these faults are
left out.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.namespaces import restarted_in

MOUNTS = "FLIP27_SOAK_MOUNTS"
DISK_BYTES = 64 << 20
"""The size of the disk for the state. Spark's checkpoint and the sinks are on another disk."""

_DEADLINE_S = 20.0


def in_a_mount_namespace() -> None:
    """Restart this program in a namespace in which it may mount; return if it is there or cannot be."""
    probe = "mount -t tmpfs -o size=64k flip27-soak /tmp"
    restarted_in(["--mount"], module="tests.soak", answer=MOUNTS, probe=probe)


class FaultyDisk:
    """A folder; on its own small disk if one can be mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_mount = os.environ.get(MOUNTS) == "yes"
        folder.mkdir()
        if self.has_mount:
            _mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "flip27-soak", str(folder))

    def close(self) -> None:
        """Unmount the disk."""
        if self.has_mount:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    @contextlib.contextmanager
    def full(self, chance: random.Random) -> Iterator[str]:
        """Fill the disk, as another program would, except for some bytes."""
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
        """Mount the disk read-only, as the kernel does after an error."""
        self._remount("ro")
        try:
            yield "mounted read-only"
        finally:
            self._remount("rw")

    @contextlib.contextmanager
    def permissions(self, chance: random.Random, below: list[Path]) -> Iterator[str]:
        """Take away the permission to write to, list or enter some folder."""
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
        """Limit the size of files (``ulimit -f``): a write beyond the limit is cut short."""
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
        # The disk is busy while a file is open for writing.
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
