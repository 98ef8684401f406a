"""The base of the strategies for known files: the stored position, and the data of one round.

The strategies themselves decide which files are known: see ``exact`` and ``cursors``.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec

from flip27_source.enumerators.files.cleaning import PartlyRead
from flip27_source.enumerators.files.globs import NameTest
from flip27_source.enumerators.files.known.hashes import path_hash
from flip27_source.enumerators.files.listing.walk import FileInfo, Lister
from flip27_source.enumerators.files.notifications.state import NotificationsState
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError
from flip27_source.file_systems.moved_paths import PathRewrite, before_moves
from flip27_source.segment import Segment

_log = logging.getLogger("flip27_source")

LATE_NAMES = 20
"""The most names of late files in the state; the log has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRun:
    """Hashes of files that a cursor must still recognise.

    Attributes:
        hashes: the hashes of their paths.
        newest_us: their newest modification time.
        appeared_us: when the last of them appeared.
    """

    hashes: Segment
    newest_us: int
    appeared_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPosition:
    """The position of discovery: the files known so far.

    Attributes:
        seen: runs of path hashes (``seenFiles=exact``).
        files: the number of files found.
        newest_us: the modification time of the newest file taken.
        too_old: the number of files skipped because of their age.
        partly_read: large files with some ranges in complete batches; used only if files are cleaned.
        strategy: the ``seenFiles`` that made this position.
        versions: runs of hashes of path, size and time; None if overwrites are not allowed.
        overwritten: the number of files that were found changed.
        after: the path of the last file (``nameCursor``).
        low_us: files modified before this time are read or late (``modifiedCursor``).
        appeared_us: when the newest file of the last full listing appeared.
        window: files that appeared or were modified too recently to be distinguished by time alone.
        checked_ms: when all files were last listed (``nameCursor``).
        late: the number of late files. late_names: the names of the last late files.
        moves: the moves of files since the original query started, oldest first.
        notified: the state of notifications; unset, and not stored, if files are only listed.
    """

    seen: tuple[Segment, ...]
    files: int
    newest_us: int = 0
    too_old: int = 0
    partly_read: tuple[PartlyRead, ...] = ()
    strategy: str = "exact"
    versions: tuple[Segment, ...] | None = None
    overwritten: int = 0
    after: str | None = None
    low_us: int = 0
    appeared_us: int = 0
    window: tuple[WindowRun, ...] = ()
    checked_ms: int = 0
    late: int = 0
    late_names: tuple[str, ...] = ()
    moves: tuple[PathRewrite, ...] = ()
    notified: NotificationsState | msgspec.UnsetType = msgspec.UNSET

    def moved(self, rewrite: PathRewrite) -> FilesPosition:
        """The position after a move of the files."""
        notified = self.notified
        return replace(
            self,
            notified=notified.moved(rewrite.now) if notified else notified,
            moves=(*self.moves, rewrite),
            after=None if self.after is None else rewrite.now(self.after),
            partly_read=tuple(replace(item, path=rewrite.now(item.path)) for item in self.partly_read),
            late_names=tuple(map(rewrite.now, self.late_names)),
        )


NOTHING = FilesPosition(seen=(), files=0)

FileKnown = tuple[str, FileInfo]
"""A path and the file's information."""


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

    lister: Lister
    recursive: bool
    name_matches: NameTest
    name_only: bool
    choose: Callable[[str, FileInfo], FileSplit | None]
    on_late: str
    now_ms: int
    moves: tuple[PathRewrite, ...] = ()
    unsettled: list[str] = field(default_factory=list)

    def matching(self, after: str | None = None) -> Iterator[FileKnown]:
        """The files whose names match, each once, with size and time; only those after ``after``."""
        lister = self.lister
        listed = (
            lister.files(recursive=self.recursive)
            if after is None
            else lister.files_after(after, recursive=self.recursive)
        )
        paths: set[str] = set()
        for path, info in listed:
            if not self.name_matches(path.rpartition("/")[2]) or path in paths:
                continue
            found = info()
            if found is None:
                self.unsettled.append(path)
                continue
            paths.add(path)
            yield path, found

    def known_as(self, path: str) -> str:
        """The identity of a file: the path at which it was first found."""
        return before_moves(path, self.moves) if self.moves else path

    def hash_of(self, path: str) -> bytes:
        """The hash of a file's identity, which is only its name with ``name_only``."""
        return path_hash(path.rpartition("/")[2] if self.name_only else self.known_as(path))

    def taken(self, files: Iterable[FileKnown]) -> list[FileSplit]:
        """The splits of the files that the options do not exclude."""
        chosen = [(path, self.choose(path, found)) for path, found in files]
        self.unsettled += [path for path, split in chosen if split is None]
        return [split for _, split in chosen if split is not None]


@dataclass(frozen=True, slots=True)
class SortedOut:
    """All existing files, sorted into new, known and late."""

    known: list[FileKnown]
    new: list[FileKnown]
    late: list[FileKnown]


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
    sorted_out = old.sort_out(current, position)
    late, position = with_late(current, sorted_out.late, position)
    files = [*sorted_out.known, *sorted_out.new, *sorted_out.late]
    fresh = [*current.taken(sorted_out.new), *late]
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
    _log.info("seenFiles=%s continues after the files that seenFiles=%s has read", new.name, old.name)
    return fresh, counted(new.adopt(current, files, start), fresh)


def counted(position: FilesPosition, fresh: list[FileSplit]) -> FilesPosition:
    """The position with the counts of these files."""
    newest = max((file.modified_us for file in fresh), default=0)
    return replace(position, files=position.files + len(fresh), newest_us=max(position.newest_us, newest))


def with_late(
    current: DiscoveryRound, late: list[FileKnown], position: FilesPosition
) -> tuple[list[FileSplit], FilesPosition]:
    """The late files to read, and the position that reports all late files.

    Raises:
        DiscoveryError: there are late files, and ``onLateFile`` is fail.
    """
    if not late:
        return [], position
    names = sorted(path for path, _ in late)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if current.on_late == "fail":
        raise DiscoveryError(
            f"{shown} came late: the cursor of seenFiles={position.strategy} has passed this position, and "
            "the files appeared or changed after the last listing",
            remedy="set onLateFile=read to read late files, or onLateFile=report to skip and count them; "
            "seenFiles=exact records every file and has no late files",
        )
    done = "is read" if current.on_late == "read" else "is not read"
    for name in names:
        _log.warning("%s came late for seenFiles=%s and %s", name, position.strategy, done)
    position = replace(
        position,
        late=position.late + len(names),
        late_names=(*position.late_names, *names)[-LATE_NAMES:],
    )
    return (current.taken(late) if current.on_late == "read" else []), position
