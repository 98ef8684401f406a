"""Who may write to a state location: whoever may, may edit what the source reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from .findings import Finding, ok, warning

CHECK = "state location, permissions"
_LOOKED_AT = 1000
"""How many directories below the location are looked at, at most."""


def writers(location: Path) -> Finding:
    """Whether everybody on the machine may write there, or put another directory in its place."""
    for folder in (location, *islice(_below(location), _LOOKED_AT)):
        mode = _mode(folder)
        if mode & stat.S_IWOTH:
            return _open_to_all(folder, mode, "add, and so edit the state of the source")
    for parent in location.parents:
        mode = _mode(parent)
        # In a directory such as /tmp, with the sticky bit, only its owner may rename a directory.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return _open_to_all(parent, mode, "put another directory in the place of the state location")
    return ok(CHECK, "not everybody may write there")


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
        return []  # it is not there, or what cannot be looked at is found by the other checks


def _mode(folder: Path) -> int:
    try:
        return folder.stat().st_mode
    except OSError:
        return 0


def _open_to_all(folder: Path, mode: int, what: str) -> Finding:
    return warning(
        CHECK,
        f"everybody may write to {folder} (mode {stat.S_IMODE(mode):04o}): {what}",
        f"chmod o-w {folder}, and start Spark with a umask such as 027; where executors run as another user, "
        "with 007 and a group that driver and executors have in common",
    )
