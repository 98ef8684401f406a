"""SimulatedDisk: a disk in memory that can lose power, become full, and fail.

A power cut can lose any part of the data that was not synced, and can undo any change of names in a folder
that was not synced since. Each file system call is one step, at which a process can be killed or suspended,
or receive an error. The same seed gives the same disk.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from flip27_source.file_systems.regular_files import UnreadableFileError

Gate = Callable[[str, str], None]
"""Called before each file system call with its name and its path; may raise an OSError, or Killed."""


@dataclass(slots=True, eq=False)
class _File:
    """A file: ``data`` is its content, ``synced`` the content that survives a power cut."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    modified_s: float = 0.0


_FOLDER = None
_Names = dict[str, _File | None]
"""Absolute paths; the value of a folder is None."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of names that is not durable yet.

    Attributes:
        removes, adds: paths.
        folders: syncing any of these folders makes the change durable.
    """

    folders: frozenset[str]
    removes: str | None = None
    adds: str | None = None
    file: _File | None = None

    def apply(self, names: _Names) -> None:
        """Make the change. A name in a missing folder cannot be reached."""
        if self.adds is not None:
            names[self.adds] = self.file
        if self.removes is not None:
            names.pop(self.removes, None)


class SimulatedDisk:
    """All files of one machine; see :meth:`seen_by` for the calls of one process.

    Attributes:
        names: the names as processes see them. durable: the names that survive a power cut.
        changes: the changes of names that are not durable yet. handles: the open files.
        room_bytes: free space in bytes; None for no limit.
        now: the modification time of written files, in seconds.
        of_others: folders in which only other users may write.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.names: _Names = {"/": _FOLDER}
        self.durable: _Names = {"/": _FOLDER}
        self.changes: list[_Change] = []
        self.handles: dict[int, _File] = {}
        self.next_handle = 100
        self.names_given = 0
        self.room_bytes: int | None = None
        self.now = 0.0
        self.of_others: set[str] = set()

    def seen_by(self, gate: Gate | None = None) -> ProcessDisk:
        """The disk as seen by one process; ``gate`` is called before each of its calls."""
        return ProcessDisk(self, gate)

    def cut_power(self) -> None:
        """Lose all, some or none of the data that is not durable, as the seed decides."""
        names = dict(self.durable)
        for change in self.changes:
            if self._random.random() < 0.5:
                change.apply(names)
        self.names = {path: file for path, file in names.items() if self._is_reachable(path, names)}
        self.durable = dict(self.names)
        self.changes.clear()
        self.handles.clear()
        for file in self.names.values():
            if file is not None and bytes(file.data) != file.synced:
                written = bytes(file.data)
                cut = written[: self._random.randrange(len(written) + 1)]
                kept = self._random.choice([file.synced, cut, bytes(len(written)), written])
                file.data, file.synced = bytearray(kept), kept

    def files(self) -> dict[str, bytes]:
        """Every file with its content."""
        return {path: bytes(file.data) for path, file in sorted(self.names.items()) if file is not None}

    def damage(self, path: str, content: bytes) -> None:
        """Replace the content of a file without any process."""
        file = self.file(path)
        file.data, file.synced = bytearray(content), content

    def _is_reachable(self, path: str, names: _Names) -> bool:
        while path != "/":
            path = os.path.dirname(path)
            if names.get(path, 0) is not _FOLDER:
                return False
        return True

    def file(self, path: str) -> _File:
        try:
            found = self.names[path]
        except KeyError:
            raise _error(errno.ENOENT, path) from None
        if found is None:
            raise _error(errno.EISDIR, path)
        return found

    def change(self, *folders: str, adds: str | None = None, removes: str | None = None) -> None:
        file = None if adds is None else self.names[adds]
        self.changes.append(_Change(frozenset(folders), removes, adds, file))


class ProcessDisk:
    """The disk calls of one process: a :class:`flip27_source.file_systems.durable_files.Disk`."""

    def __init__(self, disk: SimulatedDisk, gate: Gate | None = None) -> None:
        self._disk = disk
        self._gate = gate

    def new_name(self) -> str:
        self._disk.names_given += 1
        return f"{self._disk.names_given:032x}"

    def open_new(self, path: str) -> int:
        disk = self._enter("open_new", path)
        folder = os.path.dirname(path)
        if disk.names.get(folder, 0) is not _FOLDER:
            raise _error(errno.ENOENT, path)
        if path in disk.names:
            raise _error(errno.EEXIST, path)
        disk.names[path] = file = _File(modified_s=disk.now)
        disk.change(folder, adds=path)
        disk.next_handle += 1
        disk.handles[disk.next_handle] = file
        return disk.next_handle

    def write(self, handle: int, data: memoryview) -> int:
        disk = self._enter("write", "")
        file = disk.handles[handle]
        taken = len(data)
        if disk.room_bytes is not None:
            taken = min(taken, disk.room_bytes)
            if taken == 0 and data:
                raise _error(errno.ENOSPC, "")
            disk.room_bytes -= taken
        file.data += data[:taken]
        file.modified_s = disk.now
        return taken

    def sync(self, handle: int) -> None:
        disk = self._enter("sync", "")
        file = disk.handles[handle]
        file.synced = bytes(file.data)

    def close(self, handle: int) -> None:
        disk = self._enter("close", "")
        del disk.handles[handle]

    def link(self, source: str, target: str, folder: int | None = None) -> None:
        disk = self._enter("link", target)
        file = disk.file(source)
        if target in disk.names:
            raise _error(errno.EEXIST, target)
        disk.names[target] = file
        disk.change(os.path.dirname(target), adds=target)

    def is_same(self, source: str, target: str, folder: int | None = None) -> bool:
        disk = self._enter("is_same", target)
        return disk.file(source) is disk.file(target)

    def rename(self, source: str, target: str, folder: int | None = None) -> None:
        disk = self._enter("rename", target)
        disk.names[target] = disk.file(source)
        del disk.names[source]
        disk.change(os.path.dirname(source), os.path.dirname(target), adds=target, removes=source)

    def remove(self, path: str, folder: int | None = None) -> None:
        disk = self._enter("remove", path)
        file = disk.file(path)
        del disk.names[path]
        disk.change(os.path.dirname(path), removes=path)
        if disk.room_bytes is not None and file not in disk.names.values():
            disk.room_bytes += len(file.data)

    def make_folder(self, path: str) -> None:
        disk = self._enter("make_folder", path)
        if path in disk.names:
            raise _error(errno.EEXIST, path)
        if disk.names.get(os.path.dirname(path), 0) is not _FOLDER:
            raise _error(errno.ENOENT, path)
        disk.names[path] = _FOLDER
        disk.change(os.path.dirname(path), adds=path)

    def remove_folder(self, path: str) -> None:
        disk = self._enter("remove_folder", path)
        if any(name.startswith(f"{path}/") for name in disk.names):
            raise _error(errno.ENOTEMPTY, path)
        del disk.names[path]
        disk.change(os.path.dirname(path), removes=path)

    def sync_folder(self, path: str, folder: int | None = None) -> None:
        disk = self._enter("sync_folder", path)
        left: list[_Change] = []
        for change in disk.changes:
            if path in change.folders:
                change.apply(disk.durable)
            else:
                left.append(change)
        disk.changes = left

    def exists(self, path: str) -> bool:
        return path in self._enter("exists", path).names

    def is_folder(self, path: str) -> bool:
        return self._enter("is_folder", path).names.get(path, 0) is _FOLDER

    def is_writable(self, path: str) -> bool:
        return path not in self._disk.of_others

    def modified_s(self, path: str) -> float:
        return self._enter("modified_s", path).file(path).modified_s

    def now_s(self) -> float:
        return self._disk.now

    def names(self, path: str) -> list[str]:
        disk = self._enter("names", path)
        if path not in disk.names:
            raise _error(errno.ENOENT, path)
        folder = path.rstrip("/") + "/"
        below = (name.removeprefix(folder) for name in disk.names if name.startswith(folder))
        return [name for name in below if name and "/" not in name]

    def read(self, path: str, limit: int | None = None) -> bytes:
        if self.is_folder(path):
            raise UnreadableFileError("is a directory, not a file")
        data = bytes(self._enter("read", path).file(path).data)
        if limit is not None and len(data) > limit:
            raise UnreadableFileError(f"has more than {limit} bytes")
        return data

    def _enter(self, call: str, path: str) -> SimulatedDisk:
        if self._gate is not None:
            self._gate(call, path)
        return self._disk


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
