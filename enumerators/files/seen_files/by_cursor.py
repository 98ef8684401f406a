"""``seenFiles=nameCursor`` and ``modifiedCursor``: keep the position reached instead of every file.

A file that appears behind a cursor is late. The time at which it appeared distinguishes it from files that
were read: it is later than the last full listing, and the file is not among the few known since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from flip27_source.enumerators.files.listing.lister import FileKnown
from flip27_source.enumerators.files.position import NOTHING, FilesPosition, WindowRun
from flip27_source.enumerators.files.seen_files.hashes import hashes_in
from flip27_source.enumerators.files.seen_files.strategy import (
    DiscoveryRound,
    SeenStrategy,
    SortedOut,
    sorted_files,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.segment import Segment
from flip27_source.values.merged_blocks import merged_blocks

MARGIN_US = 2_000_000
"""File systems round times to up to two seconds."""


def hashes_of(window: tuple[WindowRun, ...]) -> frozenset[bytes]:
    hashes = frozenset(hashed for run in window for hashed in hashes_in(run.hashes))
    for run in window:
        run.hashes.forget()
    return hashes


def extended(
    window: tuple[WindowRun, ...], current: DiscoveryRound, files: list[FileKnown]
) -> tuple[WindowRun, ...]:
    """The window with these files, which are a new run; small runs are merged."""
    if not files:
        return window
    run = WindowRun(
        hashes=Segment.of("window", b"".join(sorted(current.hash_of(path) for path, _ in files))),
        newest_us=max(info.modified_us for _, info in files),
        appeared_us=max(info.appeared_us for _, info in files),
    )
    return tuple(merged_blocks((*window, run), size_of=lambda run: run.hashes.size or 0, join=_joined))


def _joined(runs: Sequence[WindowRun]) -> WindowRun:
    return WindowRun(
        hashes=Segment.of("window", b"".join(run.hashes.data for run in runs)),
        newest_us=max(run.newest_us for run in runs),
        appeared_us=max(run.appeared_us for run in runs),
    )


def sorted_by_name(
    files: Iterable[FileKnown],
    hash_of: Callable[[str], bytes],
    position: FilesPosition,
    window: Collection[bytes],
) -> SortedOut:
    """Files before the cursor that appeared since the last full listing are late."""
    sorted_out = SortedOut()
    after = position.after
    since_us = position.appeared_us - MARGIN_US
    # Older versions, which did not record what is listed, have a time also where they kept no window.
    checks = position.checked_ms > 0 and bool(position.window or position.listed)
    for path, info in files:
        if after is None or path > after:
            sorted_out.new.append((path, info))
        elif checks and info.appeared_us >= since_us and hash_of(path) not in window:
            sorted_out.late.append((path, info))
        else:
            sorted_out.known.append((path, info))
    return sorted_out


def sorted_by_time(
    files: Iterable[FileKnown],
    hash_of: Callable[[str], bytes],
    position: FilesPosition,
    window: Collection[bytes],
) -> SortedOut:
    """Files older than the window that appeared since the last listing are late."""
    sorted_out = SortedOut()
    since_us = position.appeared_us - MARGIN_US
    for path, info in files:
        is_old = info.modified_us < position.low_us and info.appeared_us < since_us
        if is_old or hash_of(path) in window:
            sorted_out.known.append((path, info))
        elif info.modified_us >= position.low_us:
            sorted_out.new.append((path, info))
        else:
            sorted_out.late.append((path, info))
    return sorted_out


class NameCursor(SeenStrategy):
    """Names only grow: files after the last name are new.

    All files are listed from time to time to find late files; otherwise only those after the cursor.
    """

    name = "nameCursor"

    def __init__(self, check_interval_s: float | None) -> None:
        self._interval_ms = None if check_interval_s is None else check_interval_s * 1000

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """The files after the cursor, or all files if a check is due."""
        if position is None or position.after is None or self._is_check_due(current, position):
            current.listing.lister.forget()
            start = position or replace(NOTHING, strategy=self.name)
            files, fresh, start = sorted_files(self, current, start)
            return fresh, self.adopt(current, files.all, start).counted(fresh)
        new = list(current.matching(position.after))
        if not new:
            return [], position
        if self._interval_ms is None:
            position = replace(position, window=(), checked_ms=0)
        else:
            position = replace(position, window=extended(position.window, current, new))
        fresh = current.taken(new)
        return fresh, replace(position, after=max(path for path, _ in new)).counted(fresh)

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        return sorted_by_name(current.matching(), current.hash_of, position, hashes_of(position.window))

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The last name, and the files too recent to be distinguished from late files by time."""
        after = max((path for path, _ in files), default=None)
        appeared_us = max((info.appeared_us for _, info in files), default=0)
        recent = []
        if self._interval_ms is not None:
            recent = [(path, info) for path, info in files if info.appeared_us >= appeared_us - MARGIN_US]
        return replace(
            position,
            strategy=self.name,
            after=max(after or "", position.after or "") or None,
            appeared_us=max(appeared_us, position.appeared_us),
            window=extended((), current, recent),
            checked_ms=0 if self._interval_ms is None else current.now_ms,
        )

    def _is_check_due(self, current: DiscoveryRound, position: FilesPosition) -> bool:
        return self._interval_ms is not None and current.now_ms >= position.checked_ms + self._interval_ms


class ModifiedCursor(SeenStrategy):
    """Modification times grow, within ``allowedLateness``: only files in that window are kept."""

    name = "modifiedCursor"

    def __init__(self, lateness_s: float) -> None:
        self._lateness_us = int(lateness_s * 1_000_000)
        self._runs: tuple[WindowRun, ...] = ()
        self._window = frozenset[bytes]()

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """The files in the time window that are not known."""
        if position is None or position.window is not self._runs:
            current.listing.lister.forget()
        start = position or replace(NOTHING, strategy=self.name)
        files, fresh, start = sorted_files(self, current, start)
        if position is not None and not files.new and not files.late:
            return [], position
        after = self._moved(current, start, [*files.new, *files.late])
        self._load(after)
        return fresh, after.counted(fresh)

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        self._load(position)
        return sorted_by_time(current.matching(), current.hash_of, position, self._window)

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The window of all these files."""
        return self._moved(current, replace(position, strategy=self.name), files)

    def _load(self, position: FilesPosition) -> None:
        if position.window is not self._runs:
            self._window, self._runs = hashes_of(position.window), position.window

    def _moved(
        self, current: DiscoveryRound, position: FilesPosition, files: list[FileKnown]
    ) -> FilesPosition:
        """The position after these files became known."""
        newest_us = max((info.modified_us for _, info in files), default=0)
        low_us = max(position.low_us, newest_us - self._lateness_us)
        appeared_us = max((info.appeared_us for _, info in files), default=0)
        appeared_us = max(position.appeared_us, appeared_us)

        def is_needed(modified_us: int, file_appeared_us: int) -> bool:
            return modified_us >= low_us or file_appeared_us >= appeared_us - MARGIN_US

        window = tuple(run for run in position.window if is_needed(run.newest_us, run.appeared_us))
        recent = [(path, info) for path, info in files if is_needed(info.modified_us, info.appeared_us)]
        window = extended(window, current, recent)
        return replace(position, low_us=low_us, appeared_us=appeared_us, window=window)


CURSORS = {NameCursor.name: sorted_by_name, ModifiedCursor.name: sorted_by_time}
"""How files are sorted by a position of each strategy."""
