"""Moves a file to the archive: nothing is overwritten there, and no original goes before its copy is checked.

A name in the archive may be taken: by another version of the file, by a file of another bucket, by a copy
made before a crash. The names of a file are tried until one is free or has the same bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import IO, Any, Protocol

from flip27_source.enumerators.files.entries import content_hash_of, etag_of
from flip27_source.errors import ActionError
from flip27_source.file_systems.durable_files import DurableFiles
from flip27_source.file_systems.file_moves import can_rename, link_file
from flip27_source.file_systems.paths import is_object_store
from flip27_source.segment import content_digest

_CHUNK_BYTES = 8 << 20
_LONGEST_NAME_BYTES = 255


class File(Protocol):
    """The file to archive."""

    def move(self, target: str) -> bool:
        """False if ``target`` has other bytes; else it has those of the file, which is gone."""


_locks = [threading.Lock() for _ in range(256)]
"""A name belongs to one of them: one thread at a time archives under a name, whichever query it serves."""


def archive(file: File, target: str, modified_us: int) -> None:
    """Move a file to ``target``, or to a name with its modification time if that name is taken."""
    with _locks[hash(target) % len(_locks)]:
        next(name for name in _possible(target, modified_us) if file.move(name))


def _possible(target: str, modified_us: int) -> Iterator[str]:
    """Names in the same folder for a file with this modification time."""
    yield target
    folder, slash, name = target.rpartition("/")
    encoded = os.fsencode(name)
    for ending in (f".{modified_us}{f'.{number}' if number > 1 else ''}" for number in count(1)):
        if len(encoded) + len(ending) > _LONGEST_NAME_BYTES:
            name = f"{encoded[:100].decode(errors='ignore')}.{content_digest(encoded)}"
        yield f"{folder}{slash}{name}{ending}"


class LocalFile:
    """A file in an open folder, wherever the folder's path leads now.

    Args:
        is_unchanged: asked again before the file is removed, because comparing a large file takes long.
    """

    def __init__(
        self, folder: int, name: str, length: int, is_unchanged: Callable[[], bool], files: DurableFiles
    ) -> None:
        self._folder, self._name, self._length = folder, name, length
        self._is_unchanged, self._files = is_unchanged, files

    def move(self, target: str) -> bool:
        if os.path.lexists(target):
            return self._is_in(target) and self._removed(target)
        try:
            self._files.move(self._name, target, folder=self._folder)
            return True
        except OSError as error:
            if isinstance(error, FileExistsError):
                return False
            if error.errno != errno.EXDEV:
                raise
        with contextlib.suppress(FileExistsError):
            self._files.copy_from(self._name, target, length=self._length, folder=self._folder)
            if not self._is_in(target):
                raise _other_bytes(self._name, target)
        return self.move(target)

    def _is_in(self, target: str) -> bool:
        info = os.stat(target) if os.path.exists(target) else None
        if info is None or not stat.S_ISREG(info.st_mode) or info.st_size != self._length:
            return False
        mine = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        with open(mine, "rb") as file, open(target, "rb") as other:
            return _are_equal(file, other, info.st_size)

    def _removed(self, target: str) -> bool:
        if self._is_unchanged():
            self._files.make_durable(target)  # a killed process may have put it there
            self._files.remove(self._name, folder=self._folder)
        return True


class RemoteFile:
    """A file of an fsspec file system.

    Args:
        info: its entry in the file system.
        is_unchanged: asked again before the file is removed.
    """

    def __init__(
        self, file_system: Any, path: str, info: Mapping[str, Any], is_unchanged: Callable[[], bool]
    ) -> None:
        self._fs, self._path, self._info, self._is_unchanged = file_system, path, info, is_unchanged

    def move(self, target: str) -> bool:
        archived = entry_of(self._fs, target)
        if archived is not None:
            return self._is_in(target, archived) and self._removed()
        if not is_object_store(self._fs):
            self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            if can_rename(self._fs):
                return self._renamed(target)
        try:
            self._copy(target)
        except FileExistsError:
            return False
        archived = entry_of(self._fs, target)
        if archived is None or not self._is_in(target, archived):
            raise _other_bytes(self._path, target)
        return self._removed()

    def _renamed(self, target: str) -> bool:
        try:
            link_file(self._fs, self._path, target)
        except Exception:  # noqa: BLE001 - asyncssh and others raise errors of their own
            # There are no hard links, or another process has taken the name, or the answer was lost.
            if entry_of(self._fs, target) is not None:
                return self.move(target)
            self._fs.mv(self._path, target)
            return True
        return self._removed()

    def _copy(self, target: str) -> None:
        """Copy the version that was found. Other file systems than S3 ignore the conditions."""
        conditions = {"IfNoneMatch": "*", "CopySourceIfMatch": self._info.get("ETag")}
        try:
            self._fs.cp_file(self._path, target, **{key: value for key, value in conditions.items() if value})
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
            self._fs.cp_file(self._path, target)  # the server copies without conditions only

    def _is_in(self, target: str, archived: Mapping[str, Any]) -> bool:
        """The tags of S3 and the hashes of others prove that bytes are equal, but not that they differ."""
        if archived.get("size") != self._info.get("size"):
            return False
        if any(of(archived) == of(self._info) != "" for of in (etag_of, content_hash_of)):
            return True
        with (
            self._fs.open(self._path, "rb", block_size=_CHUNK_BYTES) as file,
            self._fs.open(target, "rb", block_size=_CHUNK_BYTES) as other,
        ):
            return _are_equal(file, other, archived["size"])

    def _removed(self) -> bool:
        if self._is_unchanged():
            self._fs.rm_file(self._path)
        return True


def entry_of(file_system: Any, path: str) -> Mapping[str, Any] | None:
    """The server's current entry for a file; None if the file does not exist."""
    file_system.invalidate_cache(path.rpartition("/")[0])
    try:
        info: Mapping[str, Any] = file_system.info(path)
    except FileNotFoundError:
        return None
    return info if info.get("type") == "file" else None


def _other_bytes(path: str, target: str) -> ActionError:
    return ActionError(
        f"{path} was copied to {target}, but the copy has other bytes; the original file stays",
        remedy="check the archive's file system; the action is retried",
    )


def _are_equal(file: IO[bytes], other: IO[bytes], size: int) -> bool:
    """Compare two files of ``size`` bytes; a read that ends early tells nothing."""
    while size:
        chunk, beside = file.read(_CHUNK_BYTES), other.read(_CHUNK_BYTES)
        if not chunk or len(chunk) != len(beside):
            raise OSError(errno.EIO, "a file ended early while it was compared with the archive")
        if chunk != beside:
            return False
        size -= len(chunk)
    return True
