"""The base of the strategies for seen files, and the data of one round of discovery.

The strategies themselves decide which files are known: see ``by_hash`` and ``by_cursor``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from flip27_source.enumerators.files.listing.choice import Listing
from flip27_source.enumerators.files.listing.lister import FileInfo, FileKnown
from flip27_source.enumerators.files.position import NOTHING, FilesPosition, identity_of
from flip27_source.enumerators.files.seen_files.hashes import path_hash
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError
from flip27_source.file_systems.moved_paths import PathRewrite
from flip27_source.log import LOG

LATE_NAMES = 20
"""The most names of late files in the state; the log has all of them."""


@dataclass(slots=True, kw_only=True)
class DiscoveryRound:
    """The data of one round of discovery.

    Attributes:
        name_only: a file is identified only by its name.
        moves: as in the position; a file is identified by its path before the moves.
        choose: returns a file as a split; None if the options exclude it.
        on_late: fail, report or read.
        unsettled: listed files that are not yet known; their directories must be listed again.
    """

    listing: Listing
    name_only: bool
    choose: Callable[[str, FileInfo], FileSplit | None]
    on_late: str
    now_ms: int
    moves: tuple[PathRewrite, ...] = ()
    unsettled: list[str] = field(default_factory=list)

    def matching(self, after: str | None = None) -> Iterator[FileKnown]:
        """The files, each once, with size and time; only those after ``after``."""
        return self.listing.known_files(after, gone=self.unsettled)

    def hash_of(self, path: str) -> bytes:
        """The hash of what a file is known by."""
        return path_hash(identity_of(path, self.moves, name_only=self.name_only))

    def taken(self, files: Iterable[FileKnown]) -> list[FileSplit]:
        """The splits of the files that the options do not exclude."""
        chosen = [(path, self.choose(path, info)) for path, info in files]
        self.unsettled += [path for path, split in chosen if split is None]
        return [split for _, split in chosen if split is not None]


@dataclass(frozen=True, slots=True)
class SortedOut:
    """All existing files, sorted into new, known and late."""

    known: list[FileKnown] = field(default_factory=list)
    new: list[FileKnown] = field(default_factory=list)
    late: list[FileKnown] = field(default_factory=list)

    @property
    def all(self) -> list[FileKnown]:
        return [*self.known, *self.new, *self.late]


class SeenStrategy(ABC):
    """A strategy that finds new files. Used only on the discovery thread."""

    name: ClassVar[str]
    goes_by_names: ClassVar[bool] = True
    """True if a directory without new names has no new file."""

    @abstractmethod
    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """The new files since ``position``, which this strategy made, and the next position."""

    def unknown(
        self, current: DiscoveryRound, paths: Sequence[str], position: FilesPosition
    ) -> Sequence[str]:
        """The paths, by default all, that ``find`` has to request from the file system."""
        return paths

    def must_list(self, position: FilesPosition | None) -> bool:
        """Whether only a listing of all files can continue from this position."""
        return position is None or position.strategy != self.name

    @abstractmethod
    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """All files, sorted by ``position``."""

    @abstractmethod
    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The position that knows exactly these files, whatever strategy found them."""


def switched(
    old: SeenStrategy, new: SeenStrategy, current: DiscoveryRound, position: FilesPosition
) -> tuple[list[FileSplit], FilesPosition]:
    """One round by the old strategy; the new strategy continues from its result, so no file is lost."""
    files, fresh, position = sorted_files(old, current, position)
    start = replace(
        NOTHING,
        files=position.files,
        newest_us=position.newest_us,
        late=position.late,
        late_names=position.late_names,
        overwritten=position.overwritten,
        strategy=new.name,
        moves=position.moves,
        notified=position.notified,
    )
    LOG.info("seenFiles=%s continues after the files that seenFiles=%s has read", new.name, old.name)
    return fresh, new.adopt(current, files.all, start).counted(fresh)


def sorted_files(
    strategy: SeenStrategy, current: DiscoveryRound, position: FilesPosition
) -> tuple[SortedOut, list[FileSplit], FilesPosition]:
    """All files, those of them that are read, and the position that reports the late ones."""
    files = strategy.sort_out(current, position)
    names = sorted(path for path, _ in files.late)
    if names and current.on_late == "fail":
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise DiscoveryError(
            f"{shown} came late: the cursor of seenFiles={position.strategy} has passed this position, and "
            "the files appeared or changed after the last listing",
            remedy="set onLateFile=read to read late files, or onLateFile=report to skip and count them; "
            "seenFiles=exact records every file and has no late files",
        )
    is_read = current.on_late == "read"
    for name in names:
        done = "is read" if is_read else "is not read"
        LOG.warning("%s came late for seenFiles=%s and %s", name, position.strategy, done)
    if names:
        late_names = (*position.late_names, *names)[-LATE_NAMES:]
        position = replace(position, late=position.late + len(names), late_names=late_names)
    return files, current.taken([*files.new, *(files.late if is_read else ())]), position
