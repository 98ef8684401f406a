"""Reads regular files only, up to a given number of bytes.

A path may name a FIFO or a device: opening it can block forever, and reading it may never end.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from ..errors import CorruptStateError
from .paths import is_object_store

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnreadableFileError(Exception):
    """The path does not name a readable file; the message says what it names."""


def read_regular_file(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """The whole content of a regular file; symbolic links are followed.

    Args:
        limit: maximum size in bytes; None for no limit.

    Raises:
        UnreadableFileError: the path does not name a regular file, or the file is longer.
        OSError: the file cannot be read.
    """
    # Checked before opening: opening some devices has side effects.
    _check_regular(os.stat(path).st_mode)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb", buffering=0) as file:
        _check_regular(os.fstat(handle).st_mode)
        if limit is None:
            return file.readall()
        chunks: list[bytes] = []
        left = limit + 1
        while left and (chunk := file.read(left)):
            chunks.append(chunk)
            left -= len(chunk)
    if not left:
        raise UnreadableFileError(f"has more than {limit} bytes")
    return b"".join(chunks)


def read_remote_file(file_system: Any, path: str, limit: int | None) -> bytes:
    """The content of a file on an fsspec file system; little more than ``limit`` bytes are read.

    Raises:
        UnreadableFileError: the path does not name a file, or the file is longer.
        Exception: any error of the file system.
    """
    if is_object_store(file_system):
        # A range is read with one request; without one, file systems first ask for the size.
        try:
            return bytes(file_system.cat_file(path, start=0, end=None if limit is None else limit + 1))
        except FileNotFoundError:
            raise
        except Exception:  # noqa: BLE001 - a range request fails for an empty object
            file_system.invalidate_cache(path)
    if limit is not None:
        info = file_system.info(path)
        if info["type"] != "file":
            raise UnreadableFileError(f"is a {info['type']}, not a file")
        if info["size"] > limit:
            raise UnreadableFileError(f"has more than {limit} bytes")
    return bytes(file_system.cat_file(path))


def within(limit: int | None, data: bytes, name: str, location: str) -> bytes:
    """The data, checked to have at most ``limit`` bytes."""
    if limit is not None and len(data) > limit:
        raise no_state(name, location, f"has more than {limit} bytes")
    return data


def no_state(name: str, location: str, why: object) -> CorruptStateError:
    """The error for something that has the name of a state file but cannot be one."""
    return CorruptStateError(
        f"{name} in the state location {location} {why}",
        remedy="move it away; if the query needs the file, restore it from a backup",
    )


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnreadableFileError(f"is {_KINDS.get(stat.S_IFMT(mode), 'an unknown object')}, not a file")
