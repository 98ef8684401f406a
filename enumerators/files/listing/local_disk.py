"""Lists local disk by scandir, without the directories that have not changed since the last listing."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from flip27_source.enumerators.files.globs import has_glob, split_glob
from flip27_source.enumerators.files.listing.errors import cannot_be_listed, no_such_path, refuse_sink_log
from flip27_source.enumerators.files.listing.lister import (
    FileFound,
    FileInfo,
    GlobLevels,
    Lister,
    is_partition,
)
from flip27_source.enumerators.files.listing.skipped_paths import LEADS_NOWHERE, DirectoryLinks, Folder
from flip27_source.errors import OptionError
from flip27_source.file_systems.moved_paths import is_at_or_below
from flip27_source.file_systems.paths import disk_path, path_text

GRANULARITY_S = 2.0
"""A time stamp must be this old before it is trusted; FAT has the coarsest time stamps."""

MOST_DIRECTORIES = 100_000
"""The most directories that are remembered, which take about 60 MB; others are listed in each round."""

_TRUSTED = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs"})
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Spaces and a few other bytes in mountinfo."""

Stamp = tuple[int, int, int, int]


def is_one_file(path: str) -> bool:
    """Whether a path means a single file."""
    return os.path.isfile(path) and not has_glob(path)


def local_root(path: str) -> tuple[str, list[str]]:
    """The directory in which the listing of a path begins, or its only file; and the globs below it.

    If a directory has a name that looks like a glob, the path means that directory.
    """
    folder, globs = (path, []) if os.path.isdir(path) else split_glob(path)
    return os.path.abspath(folder), globs


class LocalLister(Lister):
    """A directory: one scandir for each directory that may have changed, and stat only for new files.

    If the root is a file when the lister is made, it is the only file, and once it is gone there is none.
    """

    def __init__(
        self,
        root: str,
        globs: Sequence[str] = (),
        *,
        ignore_missing: bool = False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._is_file = not globs and is_one_file(root)
        self._unchanged = UnchangedDirectories(root, now_s)
        self._directory_links = DirectoryLinks()
        self._levels = GlobLevels(globs)
        self._ignore_missing = ignore_missing

    def check_root(self) -> None:
        try:
            mode = os.stat(self._root).st_mode
            if self._is_file:
                return
            if not stat.S_ISDIR(mode):
                raise OptionError(
                    f"path {self._root} is neither a directory nor a regular file",
                    remedy="set path to a directory or a file",
                )
            os.scandir(self._root).close()
        except (FileNotFoundError, NotADirectoryError):
            if not self._ignore_missing:
                raise no_such_path(self._root) from None
        except OSError as error:
            raise cannot_be_listed(self._root, error) from error

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        return self._only_file() if self._is_file else self._below(recursive=recursive)

    def _only_file(self) -> Iterator[FileFound]:
        if os.path.exists(self._root):
            yield path_text(self._root), lambda: _stat_info(lambda: os.stat(self._root))

    def _below(self, *, recursive: bool) -> Iterator[FileFound]:
        self._unchanged.begin()
        self._directory_links.begin()
        folders: list[tuple[Folder, int]] = [((self._root, ()), 0)]
        while folders:
            folder, level = folders.pop()
            known = self._unchanged.subfolders_of(folder[0])
            if known is not None:
                folders += [(subfolder, level + 1) for subfolder in known]
                continue
            is_ignored = self._levels.ignored(level)
            takes_all_folders = recursive or level < len(self._levels)
            below: list[Folder] = []
            for entry in self._entries(folder[0]):
                if is_ignored(entry.name):
                    if level >= len(self._levels):
                        refuse_sink_log(entry.name, folder[0])
                    continue
                try:
                    is_directory = entry.is_dir()
                except OSError as error:
                    self._directory_links.leads_nowhere(entry, error)
                    is_directory = False
                if is_directory:
                    if takes_all_folders or is_partition(entry.name):
                        below += self._directory_links.below(entry, folder)
                elif level + 1 >= len(self._levels):
                    yield path_text(entry.path), partial(_stat_info, entry.stat)
            self._unchanged.listed(folder[0], below)
            folders += [(subfolder, level + 1) for subfolder in below]
        self._unchanged.end()
        self._directory_links.end()

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        if self._is_file:
            return super().entry(path, recursive=recursive)
        # Without a listing, because ``remember`` would then count all listed files as known.
        local = disk_path(path)
        name = "" if local is None else os.path.abspath(local)
        if not self._levels.lists(name, self._root, recursive=recursive):
            return None
        return path_text(name), lambda: _stat_info(lambda: os.stat(name))

    def remember(self, unsettled: Collection[str]) -> None:
        self._unchanged.remember([disk_path(path) or path for path in unsettled])

    def forget(self) -> None:
        self._unchanged.forget()

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            entries = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError):
            # A subdirectory that vanished while its parent was listed has no files.
            if folder == self._root and not self._ignore_missing:
                raise
            return
        with entries:
            yield from entries


def _stat_info(request: Callable[[], os.stat_result]) -> FileInfo | None:
    """The information; None if the file has vanished or is not a regular file.

    A link without a target may get one later; reading a pipe could wait forever.
    """
    try:
        status = request()
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            return None
        raise
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileInfo(status.st_size, status.st_mtime_ns // 1000, "", status.st_ctime_ns // 1000)


class UnchangedDirectories:
    """Remembers the directories below one root across listings: those that need not be listed again.

    A new file changes the times of its directory. These times count only on file systems that are known to
    update them, and only if a time stamp is old enough: within the granularity of time stamps, a directory
    may change without a new time stamp. An overwritten file does not change its directory.

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
