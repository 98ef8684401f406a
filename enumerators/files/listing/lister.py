"""Lister: the contract of all listers, and the names of files and directories that they leave out.

A lister yields paths. Further information is requested only for new files, because on local disk that costs
ten times as much as the listing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.files.globs import NameTest, name_test


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The information about a file.

    Attributes:
        length: in bytes.
        modified_us: modification time, microseconds since the epoch.
        etag: the ETag, or on Google Cloud Storage the generation; empty if there is none.
        changed_us: when the entry last changed; on local disk, moving the file there also changes it.
        former_etag: what an earlier flip27 has stored instead of ``etag``; empty if it is the same.
    """

    length: int
    modified_us: int
    etag: str = ""
    changed_us: int = 0
    former_etag: str = ""

    @property
    def appeared_us(self) -> int:
        """The latest time at which the file may have appeared at its path."""
        return max(self.modified_us, self.changed_us)


FileFound = tuple[str, Callable[[], FileInfo | None]]
"""A path, and a function that returns its information, or None if the file has vanished."""

FileKnown = tuple[str, FileInfo]
"""A path and the file's information."""


class Lister(ABC):
    """Lists the files under one root."""

    @abstractmethod
    def check_root(self) -> None:
        """Raise OptionError unless the root is a readable directory."""

    @abstractmethod
    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        """Every file that is not hidden by Spark's rules, in any order."""

    def files_after(self, path: str, *, recursive: bool) -> Iterator[FileFound]:
        """The files whose paths come after ``path``, in the order of code points."""
        return (listed for listed in self.files(recursive=recursive) if listed[0] > path)

    def entry(self, path: str, *, recursive: bool) -> FileFound | None:
        """What ``files`` would yield for this file if it existed; None if it would ignore the file.

        ``path`` may be spelled differently than in a listing. File systems that may have millions of files do
        this without a listing.
        """
        return next((listed for listed in self.files(recursive=recursive) if listed[0] == path), None)

    def remember(self, unsettled: Collection[str]) -> None:  # noqa: B027 - most list everything anyway
        """Record that all files listed since the last call are known, except ``unsettled``.

        From now on, directories may be skipped in listings while they do not change.
        """

    def forget(self) -> None:  # noqa: B027
        """List all directories again."""


def is_hidden(name: str) -> bool:
    """True if Spark's file sources ignore a file or directory with this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def is_partition(name: str) -> bool:
    """True if a directory is a partition (``year=2026``), whose files belong to the path."""
    return "=" in name


class GlobLevels:
    """The globs of a path: one for each level of directories below the root of the listing.

    Files that match all of them are listed, and so are the files in directories that match all of them.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        self._ignored = [_ignored_by(glob) for glob in globs]

    def __len__(self) -> int:
        return len(self._ignored)

    def ignored(self, level: int) -> NameTest:
        """The test whether a listing ignores a name in a directory; the root has level 0."""
        return self._ignored[level] if level < len(self._ignored) else is_hidden

    def lists(self, name: str, root: str, *, recursive: bool) -> bool:
        """Whether the listing of a root would yield a file of this name."""
        start = f"{root.rstrip('/')}/"
        parts = name[len(start) :].split("/")
        if not name.startswith(start) or len(parts) < len(self) or not parts[-1]:
            return False
        if any(self.ignored(level)(part) for level, part in enumerate(parts)):
            return False
        return recursive or all(is_partition(part) for part in parts[len(self) : -1])


def _ignored_by(glob: str) -> NameTest:
    shows_hidden, matches = glob.startswith((".", "_")), name_test(glob)
    return lambda name: (is_hidden(name) and not shows_hidden) or not matches(name)
