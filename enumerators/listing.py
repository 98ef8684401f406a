"""Listing files: local disk by scandir, everything else through fsspec.

A lister yields paths; what else is to be known of a file is asked only for files that are new,
for on local disk that costs ten times what the listing does.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.file_systems import is_object_store, local_path, open_file_system, redacted


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Size in bytes, and modification time in microseconds since the epoch."""

    length: int
    modified_us: int


FileFound = tuple[str, Callable[[], FileInfo | None]]
"""A path, and how to learn more of it; None when it has vanished since."""


class Lister(ABC):
    """Lists the files under one root."""

    @abstractmethod
    def check_root(self) -> None:
        """Raise OptionError, with the remedy, unless the root is a readable directory."""

    @abstractmethod
    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        """Every file that Spark would not call hidden, in no particular order."""


def open_lister(path: str, storage_options: Mapping[str, Any]) -> Lister:
    """The lister for a path or fsspec URL."""
    local = local_path(path)
    if local is not None:
        return LocalLister(os.path.abspath(local))
    file_system, root = open_file_system(path, storage_options, what="path", error_type=OptionError)
    return FsspecLister(file_system, root, redacted(path))


def is_hidden(name: str) -> bool:
    """Whether Spark's file sources ignore a file or directory of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


class LocalLister(Lister):
    """Local disk: one scandir for each directory, no stat but for new files."""

    def __init__(self, root: str) -> None:
        self._root = root

    def check_root(self) -> None:
        try:
            mode = os.stat(self._root).st_mode
            if not stat.S_ISDIR(mode):
                raise _not_a_directory(self._root)
            os.scandir(self._root).close()
        except (FileNotFoundError, NotADirectoryError):
            raise _no_such_path(self._root) from None
        except PermissionError as error:
            raise OptionError(
                f"path {self._root} cannot be listed: {error.strerror}",
                remedy="give the driver's user read and execute permission on the directory",
            ) from error

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        folders = [self._root]
        while folders:
            folder = folders.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        continue
                    if entry.is_dir():
                        if recursive:
                            folders.append(entry.path)
                        else:
                            _check_partition_folder(entry.name, self._root)
                    else:
                        _check_unicode(entry.path)
                        yield entry.path, entry_info(entry)


def entry_info(entry: os.DirEntry[str]) -> Callable[[], FileInfo | None]:
    """Asks the file system when called; None when the file has vanished, or is no file.

    A link to nowhere may get a target yet; a pipe would keep its reader waiting for ever.
    """

    def info() -> FileInfo | None:
        try:
            found = entry.stat()
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return FileInfo(found.st_size, found.st_mtime_ns // 1000)

    return info


class FsspecLister(Lister):
    """Any fsspec file system: one listing gives names, sizes and times together."""

    def __init__(self, file_system: Any, root: str, shown: str) -> None:
        self._fs = file_system
        self._root = root.rstrip("/")
        self._shown = shown

    def check_root(self) -> None:
        try:
            if self._fs.isfile(self._root):
                raise _not_a_directory(self._shown)
            if not self._fs.exists(self._root):
                raise _no_such_path(self._shown)
        except OptionError:
            raise
        except Exception as error:
            raise OptionError(
                f"path {self._shown} cannot be reached: {type(error).__name__}: {error}",
                remedy="check the URL, the credentials (storage.* options) and the network",
            ) from error

    def _entries(self, *, recursive: bool) -> Any:
        if recursive:
            return self._fs.find(self._root, detail=True).values()
        try:
            return self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            if is_object_store(self._fs):
                return ()  # a folder whose last file was taken away is gone too
            raise

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        self._fs.invalidate_cache()
        skip = len(self._root) + 1
        for info in self._entries(recursive=recursive):
            parts = info["name"].rstrip("/")[skip:].split("/")
            if not parts[0] or any(is_hidden(part) for part in parts):
                continue
            if info["type"] == "directory":
                _check_partition_folder(parts[-1], self._shown)
            else:
                yield self._fs.unstrip_protocol(info["name"]), _known(info)


def _known(info: Mapping[str, Any]) -> Callable[[], FileInfo | None]:
    def known() -> FileInfo | None:
        return FileInfo(int(info.get("size") or 0), modified_us(info))

    return known


_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")


def modified_us(info: Mapping[str, Any]) -> int:
    """The modification time in an fsspec listing entry, however that file system calls it."""
    for key in _TIME_KEYS:
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1_000_000)
        if isinstance(value, int | float):
            return int(value * 1_000_000)
        if isinstance(value, str):
            return int(datetime.fromisoformat(value).timestamp() * 1_000_000)
    return 0


def _check_unicode(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DiscoveryError(
            f"the file name {os.fsencode(path)!r} is not UTF-8 and cannot be stored",
            remedy="rename the file; nothing else in its directory is read before that",
        ) from None


def _check_partition_folder(name: str, root: str) -> None:
    if "=" in name:
        raise DiscoveryError(
            f"{root} has the partition directory {name}; its files would be left out",
            remedy="set recursiveFileLookup=true to read all files below the path (the values in "
            "directory names do not become columns yet), or give the partition's own path",
        )


def _not_a_directory(path: str) -> OptionError:
    return OptionError(
        f"path {path} is a file; the files enumerator reads the files of a directory",
        remedy="give the directory, and pathGlobFilter to choose files in it",
    )


def _no_such_path(path: str) -> OptionError:
    return OptionError(f"path {path} does not exist", remedy="create the directory, or correct the path")
