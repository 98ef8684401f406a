"""What the ways of knowing files have in common: the stored position, and what one round works with."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from flip27_source.enumerators.files.cleaning import PartlyRead
from flip27_source.enumerators.files.globs import NameTest
from flip27_source.enumerators.files.known.hashes import path_hash
from flip27_source.enumerators.files.listing.walk import FileInfo, Lister
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import DiscoveryError
from flip27_source.file_systems.moved_paths import PathRewrite, before_moves
from flip27_source.segment import Segment

_log = logging.getLogger("flip27_source")

LATE_NAMES = 20
"""How many names of late files are kept in the state; all of them are in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRun:
    """Hashes of files that a cursor still has to tell apart.

    Attributes:
        hashes: of their paths.
        newest_us: newest modification time among them.
        appeared_us: when the last of them appeared.
    """

    hashes: Segment
    newest_us: int
    appeared_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPosition:
    """Where discovery stands: what is known of the files so far.

    Attributes:
        seen: runs of path hashes (``seenFiles=exact``).
        files: how many files were found.
        newest_us: modification time of the newest file taken.
        too_old: how many files were left out for their age.
        partly_read: large files of which some ranges are in complete batches; only where files are cleaned.
        strategy: the ``seenFiles`` that this position was made by.
        versions: runs of hashes of path, size and time; None where files may not be overwritten.
        overwritten: how many files were found changed.
        after: path of the last file (``nameCursor``).
        low_us: files modified before this are read or late (``modifiedCursor``).
        appeared_us: when the newest file of the last full listing appeared.
        window: files that appeared or were modified so lately that time alone does not tell them apart.
        checked_ms: when all files were last listed (``nameCursor``).
        late: how many files came late. late_names: the last of them.
        moves: files were moved since the query that this position comes from began; the oldest move is first.
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

    def moved(self, rewrite: PathRewrite) -> FilesPosition:
        """The position once the files were moved."""
        return replace(
            self,
            moves=(*self.moves, rewrite),
            after=None if self.after is None else rewrite.now(self.after),
            partly_read=tuple(replace(item, path=rewrite.now(item.path)) for item in self.partly_read),
            late_names=tuple(map(rewrite.now, self.late_names)),
        )


NOTHING = FilesPosition(seen=(), files=0)

FileKnown = tuple[str, FileInfo]
"""A path and what was found there."""


@dataclass(slots=True, kw_only=True)
class DiscoveryRound:
    """What one round of discovery works with.

    Attributes:
        name_only: a file is known by its name alone.
        moves: as in the position: a file is known by where it was before them.
        choose: a file as split; None where the options leave it out.
        on_late: fail, report or read.
        unsettled: files that were listed and are not known for good: their directories change unseen.
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
        """The files whose names match, each once, with size and time; those behind ``after`` only."""
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
        """What a file is known by: its path, as it was first found."""
        return before_moves(path, self.moves) if self.moves else path

    def hash_of(self, path: str) -> bytes:
        """The same as a hash; of the name alone where that is what counts."""
        return path_hash(path.rpartition("/")[2] if self.name_only else self.known_as(path))

    def taken(self, files: Iterable[FileKnown]) -> list[FileSplit]:
        """Those that the options do not leave out."""
        chosen = [(path, self.choose(path, found)) for path, found in files]
        self.unsettled += [path for path, split in chosen if split is None]
        return [split for _, split in chosen if split is not None]


@dataclass(frozen=True, slots=True)
class SortedOut:
    """All files that there are, by what is known of them."""

    known: list[FileKnown]
    new: list[FileKnown]
    late: list[FileKnown]


class SeenStrategy(ABC):
    """A way of knowing which files are new. Used on the discovery thread only."""

    name: ClassVar[str]
    goes_by_names: ClassVar[bool] = True
    """Whether a directory in which no name is new has no new file."""

    @abstractmethod
    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """The files that are new since ``position``, which this strategy made, and the next position."""

    @abstractmethod
    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """All files, by what ``position`` says of them."""

    @abstractmethod
    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The position at which just these files are known, whatever strategy found them."""


def switched(
    old: SeenStrategy, new: SeenStrategy, current: DiscoveryRound, position: FilesPosition
) -> tuple[list[FileSplit], FilesPosition]:
    """One round by the old strategy, whose outcome the new one goes on from: nothing is lost."""
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
    )
    _log.info("seenFiles=%s continues after the files that seenFiles=%s has read", new.name, old.name)
    return fresh, counted(new.adopt(current, files, start), fresh)


def counted(position: FilesPosition, fresh: list[FileSplit]) -> FilesPosition:
    """The position after these files were taken."""
    newest = max((file.modified_us for file in fresh), default=0)
    return replace(position, files=position.files + len(fresh), newest_us=max(position.newest_us, newest))


def with_late(
    current: DiscoveryRound, late: list[FileKnown], position: FilesPosition
) -> tuple[list[FileSplit], FilesPosition]:
    """Late files that are read all the same, and the position with all of them told.

    Raises:
        DiscoveryError: there are some, and ``onLateFile`` is fail.
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
