"""Paths that every round of discovery skips, such as links that are not followed: logged and counted once.

On local disk, these are links to a directory that contains them; following them would give the same files
under ever longer names. On other file systems, these are all links to directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from flip27_source.enumerators.files.seen_files.hashes import path_hash
from flip27_source.file_systems.moved_paths import is_at_or_below
from flip27_source.log import LOG

LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""The errors for a link that currently has no target."""

Folder = tuple[str, tuple[str, ...]]
"""A directory, and the real paths of the directories that contain the links on the way to it."""

_SKIPPED = "the link %s is skipped: %s"

_SFTP_FAILURE = 4
"""The error code of an SFTP server for a link to itself; lost connections have other codes."""


class SkippedPaths:
    """Counts skipped paths, and remembers only those that the last round skipped.

    Attributes:
        count: the number of skipped paths in total.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: set[bytes] = set()
        self._current: set[bytes] = set()

    def begin(self) -> None:
        """Start a round; the paths of an incomplete previous round stay remembered."""
        self._last |= self._current
        self._current = set()

    def skip(self, path: str, warning: str, *arguments: str) -> None:
        """Skip a path; the first time, log a warning about it, with the arguments."""
        hashed = path_hash(path)
        if hashed not in self._last and hashed not in self._current:
            self.count += 1
            LOG.warning(warning, path, *arguments)
        self._current.add(hashed)

    def end(self) -> None:
        """Complete the round; paths that it did not skip are forgotten."""
        self._last, self._current = self._current, set()


class DirectoryLinks(SkippedPaths):
    """The links of one tree that are skipped."""

    def leads_nowhere(self, entry: os.DirEntry[str], error: OSError) -> None:
        """Skip a link without a target; ``error`` comes from following it, and other errors are raised."""
        if error.errno not in LEADS_NOWHERE:
            raise error
        self.skip(entry.path, _SKIPPED, os.strerror(error.errno))

    def below(self, entry: os.DirEntry[str], folder: Folder) -> list[Folder]:
        """The directory of an entry of ``folder``; empty if the entry is a link back to a parent."""
        path, linked_from = folder
        if not entry.is_symlink():
            return [(entry.path, linked_from)]
        target = os.path.realpath(entry.path)
        linked_from = (*linked_from, os.path.realpath(path))
        if any(is_at_or_below(place, target) for place in linked_from):
            self.skip(entry.path, _SKIPPED, f"it leads back to {target}")
            return []
        return [(entry.path, linked_from)]

    def file_behind(self, file_system: Any, name: str) -> Mapping[str, Any] | None:
        """The fsspec entry of the file that a link leads to; None if there is no such file."""
        try:
            info: Mapping[str, Any] = file_system.info(name)
        except FileNotFoundError:
            return None
        except Exception as error:
            if getattr(error, "code", None) != _SFTP_FAILURE:
                raise
            self.skip(name, _SKIPPED, str(error))
            return None
        if info["type"] == "file":
            return info
        self.skip(name, _SKIPPED, f"it leads to a {info['type']}")
        return None
