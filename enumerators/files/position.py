"""The position of discovery: which files are known. Pure: how a file becomes known is in `seen_files`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from flip27_source.enumerators.files.cleaning import PartlyRead
from flip27_source.enumerators.files.notifications.state import NotificationsState
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.file_systems.moved_paths import PathRewrite, before_moves
from flip27_source.segment import Segment


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
        checked_ms: when all files were last listed (``nameCursor``); 0 if no window is kept since then.
        late: the number of late files. late_names: the names of the last late files.
        moves: the moves of files since the original query started, oldest first.
        notified: the state of notifications; unset, and not stored, if files are only listed.
        listed: the options that chose the files before a cursor; unset, and not stored, without a cursor.
        in_buckets: true if files were cut into buckets of event times; unset, and not stored, otherwise.
        times_by: what the times of waiting files are known by; unset, and not stored, without eventTimeOrder.
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
    listed: dict[str, tuple[str, ...]] | msgspec.UnsetType = msgspec.UNSET
    times_by: str | msgspec.UnsetType = msgspec.UNSET
    in_buckets: Literal[True] | msgspec.UnsetType = msgspec.UNSET

    def moved(self, rewrite: PathRewrite) -> FilesPosition:
        """The position after a move of the files."""
        notified, listed = self.notified, self.listed
        return replace(
            self,
            notified=notified.moved(rewrite.now) if notified else notified,
            moves=(*self.moves, rewrite),
            listed={**listed, "path": tuple(map(rewrite.now, listed["path"]))} if listed else listed,
            after=None if self.after is None else rewrite.now(self.after),
            partly_read=tuple(replace(item, path=rewrite.now(item.path)) for item in self.partly_read),
            late_names=tuple(map(rewrite.now, self.late_names)),
        )

    def counted(self, fresh: Iterable[FileSplit]) -> FilesPosition:
        """The position with the counts of these new files."""
        modified_us = [file.modified_us for file in fresh]
        newest_us = max(self.newest_us, *modified_us, 0)
        return replace(self, files=self.files + len(modified_us), newest_us=newest_us)


NOTHING = FilesPosition(seen=(), files=0)


def identity_of(path: str, moves: Sequence[PathRewrite], *, name_only: bool) -> str:
    """What a file is known by: the path at which it was first found, or with ``name_only`` its name."""
    if name_only:
        return path.rpartition("/")[2]
    return before_moves(path, moves) if moves else path
