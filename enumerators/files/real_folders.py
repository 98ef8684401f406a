"""Opens folders by their real location, because a link on the way to a file may lead anywhere.

A folder is opened, checked, and used by its descriptor, so replacing it by a link in between has no effect.
POSIX only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from flip27_source.enumerators.files.listing.skipped_paths import LEADS_NOWHERE
from flip27_source.file_systems.moved_paths import is_at_or_below

_FOLDER = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""On Linux, execute permission on a folder is enough, as for a path."""


def open_below(folder: str, roots: Sequence[str]) -> int | None:
    """A descriptor of a folder that is really at or below one of ``roots``; None if it is elsewhere.

    A folder whose path is below none of the roots belongs to a source that had other paths; it must not be
    reached through a link.

    Raises:
        FileNotFoundError: the folder does not exist, or a link to it has no target.
    """
    try:
        if not any(is_at_or_below(folder, root) for root in roots):
            return _open_without_links(folder)
        descriptor = os.open(folder, _FOLDER)
    except OSError as error:
        if error.errno in LEADS_NOWHERE:
            raise FileNotFoundError(error.errno, error.strerror, folder) from None
        raise
    try:
        if _is_below(descriptor, roots):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_below(descriptor: int, roots: Iterable[str]) -> bool:
    """True if one of the roots is among the parents of the folder, which links cannot change."""
    identities = set(_identities(roots))
    current = os.dup(descriptor)
    try:
        while (here := _identity(os.fstat(current))) not in identities:
            parent = os.open("..", _FOLDER, dir_fd=current)
            os.close(current)
            current = parent
            if _identity(os.fstat(current)) == here:
                return False
        return True
    finally:
        os.close(current)


def _identities(roots: Iterable[str]) -> Iterable[tuple[int, int]]:
    for root in roots:
        try:
            yield _identity(os.stat(root))
        except FileNotFoundError:
            continue


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _open_without_links(folder: str) -> int | None:
    current = os.open("/", _FOLDER)
    for part in filter(None, folder.split("/")):
        try:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
        except NotADirectoryError:  # the component is a link
            return None
        finally:
            os.close(current)
        current = below
    return current
