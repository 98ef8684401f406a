"""Lists files: local disk by scandir, everything else through fsspec.

A lister yields paths. Further information is requested only for new files, because on local disk that costs
ten times as much as the listing.
"""

from __future__ import annotations

import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.files.entries import etag_of, modified_us
from flip27_source.enumerators.files.globs import NameTest, expand_paths, has_glob, name_test, split_glob
from flip27_source.enumerators.files.links import LEADS_NOWHERE, DirectoryLinks, Folder
from flip27_source.enumerators.files.listing.errors import (
    cannot_be_listed,
    has_a_user,
    no_such_path,
    not_a_directory,
    not_answered,
    unknown_length,
    unreachable,
)
from flip27_source.enumerators.files.unchanged_directories import UnchangedDirectories
from flip27_source.errors import OptionError
from flip27_source.file_systems.paths import (
    check_name,
    checked_location,
    connected,
    disk_path,
    host_of,
    is_azure,
    is_object_store,
    listed_name,
    listed_path,
    names_a_user,
    open_file_system,
    path_text,
    redacted,
    says_gone,
)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The information about a file.

    Attributes:
        length: in bytes.
        modified_us: modification time, microseconds since the epoch.
        etag: the ETag, if there is one.
        changed_us: when the entry last changed; on local disk, moving the file there also changes it.
    """

    length: int
    modified_us: int
    etag: str = ""
    changed_us: int = 0

    @property
    def appeared_us(self) -> int:
        """The latest time at which the file may have appeared at its path."""
        return max(self.modified_us, self.changed_us)


FileFound = tuple[str, Callable[[], FileInfo | None]]
"""A path, and a function that returns its information, or None if the file has vanished."""


class Lister(ABC):
    """Lists the files under one root."""

    @abstractmethod
    def check_root(self) -> None:
        """Raise OptionError unless the root is a readable directory."""

    @abstractmethod
    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        """Every file that is not hidden by Spark's rules, in any order."""

    def files_after(self, path: str, *, recursive: bool) -> Iterator[FileFound]:
        """The files whose paths come after ``path``, in the order of code points."""
        return (found for found in self.files(recursive=recursive) if found[0] > path)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        """What ``files`` would yield for this file if it existed; None if it would leave the file out.

        ``path`` may be spelled differently than in a listing. File systems that may have millions of files do
        this without a listing.
        """
        return next((found for found in self.files(recursive=recursive) if found[0] == path), None)

    def remember(self, unsettled: Collection[str]) -> None:  # noqa: B027 - most list everything anyway
        """Record that all files listed since the last call are known, except ``unsettled``.

        From now on, directories may be skipped in listings while they do not change.
        """

    def forget(self) -> None:  # noqa: B027
        """List all directories again."""


def open_lister(
    path: str,
    storage_options: Mapping[str, Any],
    *,
    ignore_missing: bool = False,
    may_be_emptied: bool = False,
) -> Lister:
    """The lister for a path, a glob or an fsspec URL.

    Args:
        ignore_missing: a missing path has no files; otherwise it is an error.
        may_be_emptied: the same, only for object stores: all files may have been read and removed.
    """
    listers = [_open_one(one, storage_options, ignore_missing, may_be_emptied) for one in expand_paths(path)]
    return listers[0] if len(listers) == 1 else ManyLister(listers)


def open_listers(paths: Sequence[str], storage_options: Mapping[str, Any], **how: bool) -> Lister:
    """One lister for several paths; see :func:`open_lister`."""
    listers = [open_lister(path, storage_options, **how) for path in paths]
    return listers[0] if len(listers) == 1 else ManyLister(listers)


def _open_one(
    path: str, storage_options: Mapping[str, Any], ignore_missing: bool, may_be_emptied: bool
) -> Lister:
    local = disk_path(checked_location(path, what="path", error_type=OptionError))
    if local is not None:
        if os.path.isfile(local) and not has_glob(local):
            return OneFile(os.path.abspath(local))
        # If a directory has a name that looks like a glob, the path means that directory.
        folder, pattern = (local, []) if os.path.isdir(local) else split_glob(local)
        return LocalLister(os.path.abspath(folder), pattern, ignore_missing=ignore_missing)
    if names_a_user(path):
        raise has_a_user(path)
    file_system, root = open_file_system(path, storage_options, what="path", error_type=OptionError)
    host = host_of(path)
    root, pattern = (
        split_glob(root) if has_glob(root) and not _is_folder(file_system, root, path) else (root, [])
    )
    ignore_missing = ignore_missing or (may_be_emptied and is_object_store(file_system))
    kind: type[FsspecLister] = FsspecLister
    if hasattr(file_system, "call_s3"):
        from flip27_source.enumerators.files.listing.s3 import S3Lister

        kind = S3Lister
    elif "http" in file_system.protocol:
        from flip27_source.enumerators.files.listing.web_servers import HttpLister

        kind = HttpLister
    return kind(file_system, root, redacted(path), pattern, ignore_missing=ignore_missing, host=host)


def _is_folder(file_system: Any, root: str, path: str) -> bool:
    try:
        return bool(file_system.isdir(root))
    except Exception as error:
        raise unreachable(redacted(path), error) from error


class ManyLister(Lister):
    """Lists one directory after the other; a file in several of them is listed several times."""

    def __init__(self, listers: Sequence[Lister]) -> None:
        self._listers = listers

    def check_root(self) -> None:
        for lister in self._listers:
            lister.check_root()

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        for lister in self._listers:
            yield from lister.files(recursive=recursive)

    def files_after(self, path: str, *, recursive: bool) -> Iterator[FileFound]:
        for lister in self._listers:
            yield from lister.files_after(path, recursive=recursive)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        found = (lister.entry(path, recursive=recursive) for lister in self._listers)
        return next((one for one in found if one is not None), None)

    def remember(self, unsettled: Collection[str]) -> None:
        for lister in self._listers:
            lister.remember(unsettled)

    def forget(self) -> None:
        for lister in self._listers:
            lister.forget()


class OneFile(Lister):
    """A path on local disk that is a file; once the file is gone, there are no files."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check_root(self) -> None:
        try:
            os.stat(self._path)
        except OSError as error:
            raise cannot_be_listed(self._path, error) from error

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        if os.path.exists(self._path):
            yield path_text(self._path), lambda: _stat_info(lambda: os.stat(self._path))


def is_hidden(name: str) -> bool:
    """True if Spark's file sources ignore a file or directory with this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _left_out_by(shows_hidden: bool, matches: NameTest) -> NameTest:
    return lambda name: (is_hidden(name) and not shows_hidden) or not matches(name)


def is_listed(name: str, root: str, tests: Sequence[tuple[bool, NameTest]], *, recursive: bool) -> bool:
    """Whether listing a root would yield a file of this name.

    Args:
        tests: for each level of a glob, whether hidden names may match, and the test of a name.
    """
    start = f"{root.rstrip('/')}/"
    parts = name[len(start) :].split("/")
    if not name.startswith(start) or len(parts) < max(len(tests), 1) or not parts[-1]:
        return False
    for part, (shows_hidden, matches) in zip(parts, tests, strict=False):
        if (is_hidden(part) and not shows_hidden) or not matches(part):
            return False
    below = parts[len(tests) :]
    if any(is_hidden(part) for part in below):
        return False
    return recursive or all(is_partition(part) for part in below[:-1])


class LocalLister(Lister):
    """Local disk: one scandir for each directory that may have changed, and stat only for new files.

    ``pattern`` has one glob for each level below the root. Files that match all of it are listed, and so
    are the files in directories that match all of it.
    """

    def __init__(
        self,
        root: str,
        pattern: Sequence[str] = (),
        *,
        ignore_missing: bool = False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._unchanged = UnchangedDirectories(root, now_s)
        self._directory_links = DirectoryLinks()
        self._tests = [(glob.startswith((".", "_")), name_test(glob)) for glob in pattern]
        self._ignore_missing = ignore_missing

    def check_root(self) -> None:
        try:
            mode = os.stat(self._root).st_mode
            if not stat.S_ISDIR(mode):
                raise not_a_directory(self._root)
            os.scandir(self._root).close()
        except (FileNotFoundError, NotADirectoryError):
            if not self._ignore_missing:
                raise no_such_path(self._root) from None
        except OSError as error:
            raise cannot_be_listed(self._root, error) from error

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        self._unchanged.begin()
        self._directory_links.begin()
        folders: list[tuple[Folder, int]] = [((self._root, ()), 0)]
        while folders:
            folder, level = folders.pop()
            known = self._unchanged.subfolders_of(folder[0])
            if known is not None:
                folders += [(found, level + 1) for found in known]
                continue
            matches = self._tests[level] if level < len(self._tests) else None
            is_left_out = is_hidden if matches is None else _left_out_by(*matches)
            below: list[Folder] = []
            for entry in self._entries(folder[0]):
                if is_left_out(entry.name):
                    continue
                try:
                    is_directory = entry.is_dir()
                except OSError as error:
                    self._directory_links.leads_nowhere(entry, error)
                    is_directory = False
                if is_directory:
                    if matches is not None or recursive or is_partition(entry.name):
                        below += self._directory_links.below(entry, folder)
                elif level + 1 >= len(self._tests):
                    yield path_text(entry.path), entry_info(entry)
            self._unchanged.listed(folder[0], below)
            folders += [(found, level + 1) for found in below]
        self._unchanged.end()

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        # Without a listing, because ``remember`` would then count all listed files as known.
        local = disk_path(path)
        name = "" if local is None else os.path.abspath(local)
        if not is_listed(name, self._root, self._tests, recursive=recursive):
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


def entry_info(entry: os.DirEntry[str]) -> Callable[[], FileInfo | None]:
    """A function that requests the information; None if the file has vanished or is not a regular file.

    A link without a target may get one later; reading a pipe could wait forever.
    """
    return lambda: _stat_info(entry.stat)


def _stat_info(asked: Callable[[], os.stat_result]) -> FileInfo | None:
    try:
        found = asked()
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            return None
        raise
    if not stat.S_ISREG(found.st_mode):
        return None
    return FileInfo(found.st_size, found.st_mtime_ns // 1000, "", found.st_ctime_ns // 1000)


class FsspecLister(Lister):
    """Any fsspec file system: one listing gives names, sizes and times together."""

    def __init__(
        self,
        file_system: Any,
        root: str,
        shown: str,
        pattern: Sequence[str] = (),
        *,
        ignore_missing: bool = False,
        host: str = "",
    ) -> None:
        self._opened = file_system
        self._directory_links = DirectoryLinks()
        self._host = host
        self._root = root.rstrip("/")
        self._shown = shown
        self._is_file = False
        self._tests = [(glob.startswith((".", "_")), name_test(glob)) for glob in pattern]
        self._ignore_missing = ignore_missing

    @property
    def _fs(self) -> Any:
        self._opened = connected(self._opened)
        return self._opened

    def check_root(self) -> None:
        try:
            is_file, exists = self._kind_of_root()
        except Exception as error:
            raise unreachable(self._shown, error) from error
        self._is_file = is_file
        if not exists and not self._ignore_missing:
            raise no_such_path(self._shown)

    def _kind_of_root(self) -> tuple[bool, bool]:
        """Whether the root is a file, and whether it exists."""
        if self._fs.isfile(self._root) and not self._fs.isdir(self._root):
            return True, True
        return False, self._ignore_missing or self._fs.exists(self._root)

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        self._fs.invalidate_cache()
        if self._is_file:
            yield from self._only_file()
            return
        self._directory_links.begin()
        folders = [self._root]
        for level, (shows_hidden, matches) in enumerate(self._tests):
            below: list[str] = []
            for info in (info for folder in folders for info in self._entries(folder)):
                name = info["name"].rstrip("/").rpartition("/")[2]
                if (is_hidden(name) and not shows_hidden) or not matches(name):
                    continue
                if info["type"] == "directory":
                    below.append(info["name"].rstrip("/"))
                elif level + 1 == len(self._tests):
                    yield self._found(info)
            folders = below
        for folder in folders:
            yield from self._files_of(folder, recursive=recursive)

    def _only_file(self) -> Iterator[FileFound]:
        """The root, which is a file, unless it has been archived or deleted."""
        try:
            info = self._fs.info(self._root)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return
            raise not_answered(self._shown, error) from error
        yield self._found({**info, "name": self._root})

    def _files_of(self, folder: str, *, recursive: bool) -> Iterator[FileFound]:
        skip = len(folder) + 1
        # On other file systems, fsspec's find silently skips directories that cannot be listed.
        by_pages = recursive and is_object_store(self._fs)
        for info in self._fs.find(folder, detail=True).values() if by_pages else self._entries(folder):
            parts = info["name"].rstrip("/")[skip:].split("/")
            if not parts[0] or any(is_hidden(part) for part in parts):
                continue
            if info["type"] == "directory":
                if recursive or is_partition(parts[-1]):
                    yield from self._files_of(info["name"].rstrip("/"), recursive=recursive)
            else:
                yield self._found(info)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        name = self._name_of(path)
        if name is None or not is_listed(name, self._root, self._tests, recursive=recursive):
            return None
        return listed_path(self._fs, self._host, name), lambda: self._info_of(name)

    def _name_of(self, path: str) -> str | None:
        """The name of a path in this file system; None if it is in another one, or cannot be requested."""
        host, own = host_of(path), self._host
        # The account of Azure may be written with different endpoints.
        if host and own and host.partition(".")[0] != own.partition(".")[0]:
            return None
        try:
            return listed_name(path)
        except OSError:
            return None  # found by a listing, and reported when it is read

    def _info_of(self, name: str) -> FileInfo | None:
        """What a listing would say about a file now; None if it does not exist."""
        self._fs.invalidate_cache()
        return self._asked(name)

    def _found(self, info: Mapping[str, Any]) -> FileFound:
        name = info["name"]
        path = listed_path(self._fs, self._host, name)
        if info.get("type") == "link":
            return path, lambda: self._behind(name)
        return path, lambda: self._asked(name) if info.get("size") is None else _file_info(info)

    def _behind(self, link: str) -> FileInfo | None:
        found = self._directory_links.file_behind(self._fs, link)
        return None if found is None else _file_info(found)

    def _asked(self, name: str) -> FileInfo | None:
        """Request what a listing of names, as over HTTP, does not have; None if there is no such file."""
        try:
            info = self._fs.info(name)
        except FileNotFoundError as error:
            if says_gone(error, self._shown):
                return None
            raise not_answered(name, error) from error
        if info["type"] == "directory":
            return None  # Hadoop's mkdir on Azure writes an empty blob, and a message names it
        if info.get("size") is None:
            raise unknown_length(name)
        return _file_info(info)

    def _entries(self, folder: str) -> Any:
        """The entries directly in a folder."""
        if is_azure(self._fs):
            check_name("abfs", folder)
        try:
            return self._fs.ls(folder, detail=True)
        except FileNotFoundError:
            # In an object store, a folder disappears with its last file.
            if folder != self._root or self._ignore_missing or is_object_store(self._fs):
                return ()
            raise


def _file_info(info: Mapping[str, Any]) -> FileInfo:
    return FileInfo(int(info["size"]), modified_us(info), etag_of(info))


def is_partition(name: str) -> bool:
    """True if a directory is a partition (``year=2026``), whose files belong to the path."""
    return "=" in name
