"""Reading regular files and nothing else, up to a number of bytes.

A FIFO or a device may lie where a file is looked for: opening one can block for ever, reading one may
never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
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
    """It is no file that could be read; the message says what it is."""


def read_regular_file(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """The whole content of a regular file; links to one are followed.

    Args:
        limit: most bytes that it may have; None for any number.

    Raises:
        UnreadableFileError: it is something else, or longer.
        OSError: as reading it raises.
    """
    # Looked at first: some devices do something when they are opened.
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
    """The content of a file on a file system of fsspec; more than ``limit`` bytes are not asked for.

    Raises:
        UnreadableFileError: it is no file, or longer.
        Exception: as the file system raises.
    """
    if limit is not None and is_object_store(file_system):
        try:
            return bytes(file_system.cat_file(path, start=0, end=limit + 1))
        except FileNotFoundError:
            raise
        except Exception:  # noqa: BLE001 - an empty object has no range that could be asked for
            file_system.invalidate_cache(path)
    if limit is not None:
        _check_info(file_system.info(path), limit)
    return bytes(file_system.cat_file(path))


def _check_info(info: Mapping[str, Any], limit: int) -> None:
    if info["type"] != "file":
        raise UnreadableFileError(f"is a {info['type']}, not a file")
    if info["size"] > limit:
        raise UnreadableFileError(f"has more than {limit} bytes")


def within(limit: int | None, data: bytes, name: str, location: str) -> bytes:
    """The data, which may have no more than ``limit`` bytes."""
    if limit is not None and len(data) > limit:
        raise no_state(name, location, f"has more than {limit} bytes")
    return data


def no_state(name: str, location: str, why: object) -> CorruptStateError:
    """What is there under the name of a state file is none."""
    return CorruptStateError(
        f"{name} in the state location {location} {why}",
        remedy="move it away, and restore the file of that name from a backup if the query needs it",
    )


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnreadableFileError(f"is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')}, not a file")
