"""Links on the path to a file: a file is only deleted if no folder on its path is a link.

A folder of a state location or of a savepoint may have been replaced with a link. Reading through the link
does no harm; deleting through it would delete files in another place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import StateLocationError
from ..log import LOG

if TYPE_CHECKING:
    from .store import Store


class LinkedFolderError(StateLocationError):
    """A folder is a link; nothing was deleted.

    Attributes:
        folder: the name of the link, in its store.
    """

    def __init__(self, what: str, *, remedy: str | None = None, folder: str = "") -> None:
        super().__init__(what, remedy=remedy)
        self.folder = folder


def check_local_folders(root: str, name: str) -> None:
    """Refuse a name in ``root`` if one of its folders is a link; the path of the root may contain links.

    Raises:
        LinkedFolderError: a folder is a link.
        OSError: a folder cannot be inspected.
    """
    for folder in _folders_of(name):
        path = os.path.join(root, folder)
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(mode):
            raise _linked(root, folder, os.path.realpath(path))


def check_remote_folders(file_system: Any, root: str, name: str, location: str) -> None:
    """Like :func:`check_local_folders`, on an fsspec file system whose listings show links.

    Raises:
        LinkedFolderError: a folder is a link.
    """
    for folder in _folders_of(name):
        parent, _, own = f"{root}/{folder}".rpartition("/")
        try:
            file_system.invalidate_cache(parent)
            entries = file_system.ls(parent, detail=True)
        except FileNotFoundError:
            return
        links = (str(item["name"]).rstrip("/") for item in entries if item["type"] == "link")
        if any(link.rpartition("/")[2] == own for link in links):
            raise _linked(location, folder, "another place")


class Deletion:
    """Deletes files of a store; keeps files behind a link, with one warning for each link."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._said: set[str] = set()

    def delete(self, name: str) -> bool:
        """Delete a file; False if it was kept."""
        return self._done(self._store.delete, name)

    def remove_empty(self, folder: str) -> bool:
        """Remove an empty folder; False if it was kept because of a link."""
        return self._done(self._store.remove_empty, folder)

    def _done(self, act: Callable[[str], None], name: str) -> bool:
        try:
            act(name)
        except LinkedFolderError as error:
            if error.folder not in self._said:
                self._said.add(error.folder)
                LOG.warning("%s", error)
            return False
        return True


def _folders_of(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _linked(location: str, folder: str, target: str) -> LinkedFolderError:
    return LinkedFolderError(
        f"{folder} in {location} is a link to {target}: files behind a link are not deleted",
        remedy="use the directory itself instead of a link to it, or delete the files by hand",
        folder=folder,
    )
