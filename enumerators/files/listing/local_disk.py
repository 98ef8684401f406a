"""Lists local disk by scandir."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
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
from flip27_source.enumerators.files.listing.unchanged_directories import UnchangedDirectories
from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import disk_path, path_text


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
