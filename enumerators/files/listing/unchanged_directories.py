"""Finds local directories that need not be listed again, because they have not changed.

A new file changes the times of its directory. This module relies on these times only on file systems
that are known to update them, and only if a time stamp is old enough: within the granularity of time stamps,
a directory may change without a new time stamp. An overwritten file does not change its directory.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable

from flip27_source.enumerators.files.listing.skipped_paths import Folder
from flip27_source.file_systems.moved_paths import is_at_or_below

GRANULARITY_S = 2.0
"""A time stamp must be this old before it is trusted; FAT has the coarsest time stamps."""

MOST_DIRECTORIES = 100_000
"""The most directories that are remembered, which take about 60 MB; others are listed in each round."""

_TRUSTED = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs"})
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Spaces and a few other bytes in mountinfo."""

Stamp = tuple[int, int, int, int]


class UnchangedDirectories:
    """Remembers the directories below one root across listings.

    A round calls ``begin``, then for each directory ``subfolders_of`` and, if that returns None, ``listed``,
    then ``end`` and ``remember``. A round without ``remember`` only forgets directories that no longer exist.
    """

    def __init__(self, root: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._now_s = now_s
        self._device: int | None = None
        self._known: dict[str, tuple[Stamp, list[Folder]]] = {}
        self._first_seen: dict[str, tuple[Stamp, float]] = {}
        self._believed: dict[str, Stamp] = {}
        self._listed: dict[str, tuple[Stamp, list[Folder]]] = {}
        self._come_across: set[str] = set()

    def begin(self) -> None:
        self._believed.clear()
        self._listed.clear()
        self._come_across.clear()
        if self._device is None:
            self._device = device_to_trust(self._root)

    def subfolders_of(self, folder: str) -> list[Folder] | None:
        """The known subfolders of an unchanged directory; None if the directory must be listed."""
        if self._device is None or self._device < 0:
            return None
        try:
            status = os.stat(folder)
        except OSError:
            return None  # listing the directory reports the error
        if status.st_dev != self._device:
            return None
        stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
        known = self._known.get(folder)
        if known is None and folder not in self._first_seen and len(self._first_seen) >= MOST_DIRECTORIES:
            return None
        self._come_across.add(folder)
        if known is not None and known[0] == stamp:
            return known[1]
        first_seen = self._first_seen.get(folder)
        now_s = self._now_s()
        if first_seen is None or first_seen[0] != stamp:
            self._first_seen[folder] = (stamp, now_s)
        elif now_s - first_seen[1] >= GRANULARITY_S:
            # The stamp was taken before the following listing, so any later change gives a new stamp.
            self._believed[folder] = stamp
        return None

    def listed(self, folder: str, subfolders: list[Folder]) -> None:
        """Record that the directory was listed completely."""
        stamp = self._believed.get(folder)
        if stamp is not None:
            self._listed[folder] = (stamp, subfolders)

    def end(self) -> None:
        """Complete the listing; directories that it did not find are gone."""
        for remembered in (self._known, self._first_seen):
            for folder in remembered.keys() - self._come_across:
                del remembered[folder]
        self._come_across.clear()

    def remember(self, unsettled: Collection[str]) -> None:
        for path in unsettled:
            self._listed.pop(os.path.dirname(path), None)
        self._known.update(self._listed)
        self._listed.clear()

    def forget(self) -> None:
        self._known.clear()
        self._listed.clear()


def device_to_trust(root: str) -> int:
    """The device of the root if its file system keeps the times of directories; otherwise -1."""
    try:
        if sys.platform != "linux":
            return -1
        with open("/proc/self/mountinfo", "rb") as mounts:
            kind = file_system_of(os.path.realpath(root), mounts)
        return os.stat(root).st_dev if kind in _TRUSTED else -1
    except OSError:
        return -1


def file_system_of(path: str, mounts: Iterable[bytes]) -> str:
    """The type of the file system that contains a path.

    Args:
        mounts: the lines of ``/proc/self/mountinfo``.
    """
    longest, kind = "", ""
    for line in mounts:
        before, _, after = line.partition(b" - ")
        point = os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), before.split(b" ")[4]))
        if is_at_or_below(path, point) and len(point) >= len(longest):
            longest, kind = point, after.split(b" ")[0].decode()
    return kind
