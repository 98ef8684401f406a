"""Checks who may write to a state location, because a writer can edit the state of the source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from flip27_source.source_checks import Finding, ok, warning

CHECK = "state location, permissions"
_LOOKED_AT = 1000
"""Maximum number of directories below the location that are checked."""


def writers(location: Path) -> Finding:
    """Whether everybody on the machine may write to the location, or replace it with another directory."""
    for folder in (location, *islice(_below(location), _LOOKED_AT)):
        mode = _mode(folder)
        if mode & stat.S_IWOTH:
            return _open_to_all(folder, mode, "they can add files and so edit the state of the source")
    for parent in location.parents:
        mode = _mode(parent)
        # In a directory with the sticky bit, such as /tmp, a directory can only be renamed by its owner.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return _open_to_all(parent, mode, "they can replace the state location with another directory")
    return ok(CHECK, "the state location is not world-writable")


def _below(location: Path) -> Iterator[Path]:
    """The directories of lineages, and those in them."""
    for folder in _folders(location):
        yield folder
        yield from _folders(folder)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # it does not exist, or the other checks report the error


def _mode(folder: Path) -> int:
    try:
        return folder.stat().st_mode
    except OSError:
        return 0


def _open_to_all(folder: Path, mode: int, what: str) -> Finding:
    return warning(
        CHECK,
        f"everybody may write to {folder} (mode {stat.S_IMODE(mode):04o}): {what}",
        f"chmod o-w {folder}, and start Spark with a umask such as 027; if executors run as another user, "
        "use 007 and a group that the driver and the executors share",
    )
