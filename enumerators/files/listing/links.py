"""Links that are not followed: each is skipped with a warning, and the listing continues.

On local disk, these are links to a directory that contains them; following them would give the same files
under ever longer names. On other file systems, these are all links to directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any

from flip27_source.enumerators.files.listing.skipped_paths import SkippedPaths
from flip27_source.file_systems.moved_paths import is_at_or_below

LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""The errors for a link that currently has no target."""

_SKIPPED = "the link %s is skipped: %s"

Folder = tuple[str, tuple[str, ...]]
"""A directory, and the real paths of the directories that contain the links on the way to it."""

_SFTP_FAILURE = 4
"""The error code of an SFTP server for a link to itself; lost connections have other codes."""


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
