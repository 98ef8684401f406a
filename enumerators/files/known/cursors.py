"""``seenFiles=nameCursor`` and ``modifiedCursor``: keep the position reached instead of every file.

A file that appears behind a cursor is late. The time at which it appeared distinguishes it from files that
were read: it is later than the last full listing, and the file is not among the few known since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flip27_source.enumerators.files.known.hashes import hashes_in
from flip27_source.enumerators.files.known.strategy import (
    NOTHING,
    DiscoveryRound,
    FileKnown,
    FilesPosition,
    SeenStrategy,
    SortedOut,
    WindowRun,
    counted,
    with_late,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.segment import Segment
from flip27_source.values.merged_blocks import merged_blocks

MARGIN_US = 2_000_000
"""File systems round times to up to two seconds."""


class Window:
    """The hashes in the runs of a position."""

    def __init__(self, runs: tuple[WindowRun, ...]) -> None:
        self._hashes = {run.hashes.name: frozenset(hashes_in(run.hashes)) for run in runs}
        for run in runs:
            run.hashes.forget()

    def __contains__(self, hashed: bytes) -> bool:
        return any(hashed in hashes for hashes in self._hashes.values())


def run_of(current: DiscoveryRound, files: list[FileKnown]) -> tuple[WindowRun, ...]:
    """One run of these files; empty if there are no files."""
    if not files:
        return ()
    return (
        WindowRun(
            hashes=Segment.of("window", b"".join(sorted(current.hash_of(path) for path, _ in files))),
            newest_us=max(found.modified_us for _, found in files),
            appeared_us=max(found.appeared_us for _, found in files),
        ),
    )


def merged(runs: tuple[WindowRun, ...]) -> tuple[WindowRun, ...]:
    """The runs; small ones are merged."""
    return tuple(merged_blocks(runs, size_of=lambda run: run.hashes.size or 0, join=_joined))


def _joined(runs: Sequence[WindowRun]) -> WindowRun:
    return WindowRun(
        hashes=Segment.of("window", b"".join(run.hashes.data for run in runs)),
        newest_us=max(run.newest_us for run in runs),
        appeared_us=max(run.appeared_us for run in runs),
    )


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
            current.lister.forget()
            start = position or replace(NOTHING, strategy=self.name)
            sorted_out = self.sort_out(current, start)
            late, start = with_late(current, sorted_out.late, start)
            files = [*current.taken(sorted_out.new), *late]
            everything = [*sorted_out.known, *sorted_out.new, *sorted_out.late]
            return files, counted(self.adopt(current, everything, start), files)
        new = list(current.matching(position.after))
        if not new:
            return [], position
        window = position.window
        if self._interval_ms is not None:
            window = merged((*window, *run_of(current, new)))
        files = current.taken(new)
        after = max(path for path, _ in new)
        return files, counted(replace(position, after=after, window=window), files)

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """Sort by name; files before the cursor that appeared since the last full listing are late."""
        window = Window(position.window)
        sorted_out = SortedOut([], [], [])
        after = position.after
        since_us = position.appeared_us - MARGIN_US
        checks = position.checked_ms > 0 and self._interval_ms is not None
        for path, found in current.matching():
            if after is None or path > after:
                sorted_out.new.append((path, found))
            elif checks and found.appeared_us >= since_us and current.hash_of(path) not in window:
                sorted_out.late.append((path, found))
            else:
                sorted_out.known.append((path, found))
        return sorted_out

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The last name, and the files too recent to be distinguished from late files by time."""
        after = max((path for path, _ in files), default=None)
        appeared_us = max((found.appeared_us for _, found in files), default=0)
        window = []
        if self._interval_ms is not None:
            window = [(path, found) for path, found in files if found.appeared_us >= appeared_us - MARGIN_US]
        return replace(
            position,
            strategy=self.name,
            after=max(after or "", position.after or "") or None,
            appeared_us=max(appeared_us, position.appeared_us),
            window=run_of(current, window),
            checked_ms=current.now_ms,
        )

    def _is_check_due(self, current: DiscoveryRound, position: FilesPosition) -> bool:
        return self._interval_ms is not None and current.now_ms >= position.checked_ms + self._interval_ms


class ModifiedCursor(SeenStrategy):
    """Modification times grow, within ``allowedLateness``: only files in that window are kept."""

    name = "modifiedCursor"

    def __init__(self, lateness_s: float) -> None:
        self._lateness_us = int(lateness_s * 1_000_000)
        self._runs: tuple[WindowRun, ...] = ()
        self._window = Window(())

    def find(
        self, current: DiscoveryRound, position: FilesPosition | None
    ) -> tuple[list[FileSplit], FilesPosition]:
        """The files in the time window that are not known."""
        if position is None or position.window is not self._runs:
            current.lister.forget()
        before = position or replace(NOTHING, strategy=self.name)
        sorted_out = self.sort_out(current, before)
        if position is not None and not sorted_out.new and not sorted_out.late:
            return [], position
        late, before = with_late(current, sorted_out.late, before)
        files = [*current.taken(sorted_out.new), *late]
        after = self._moved(current, before, [*sorted_out.new, *sorted_out.late])
        self._load(after)
        return files, counted(after, files)

    def sort_out(self, current: DiscoveryRound, position: FilesPosition) -> SortedOut:
        """Sort by time; files older than the window that appeared since the last listing are late."""
        self._load(position)
        window = self._window
        sorted_out = SortedOut([], [], [])
        since_us = position.appeared_us - MARGIN_US
        for path, found in current.matching():
            is_old = found.modified_us < position.low_us and found.appeared_us < since_us
            if is_old or current.hash_of(path) in window:
                sorted_out.known.append((path, found))
            elif found.modified_us >= position.low_us:
                sorted_out.new.append((path, found))
            else:
                sorted_out.late.append((path, found))
        return sorted_out

    def adopt(
        self, current: DiscoveryRound, files: list[FileKnown], position: FilesPosition
    ) -> FilesPosition:
        """The window of all these files."""
        return self._moved(current, replace(position, strategy=self.name), files)

    def _load(self, position: FilesPosition) -> None:
        if position.window is not self._runs:
            self._window, self._runs = Window(position.window), position.window

    def _moved(
        self, current: DiscoveryRound, position: FilesPosition, files: list[FileKnown]
    ) -> FilesPosition:
        """The position after these files became known."""
        newest_us = max((found.modified_us for _, found in files), default=0)
        low_us = max(position.low_us, newest_us - self._lateness_us)
        appeared_us = max((found.appeared_us for _, found in files), default=0)
        appeared_us = max(position.appeared_us, appeared_us)

        def is_needed(modified_us: int, file_appeared_us: int) -> bool:
            return modified_us >= low_us or file_appeared_us >= appeared_us - MARGIN_US

        kept = tuple(run for run in position.window if is_needed(run.newest_us, run.appeared_us))
        young = [(path, found) for path, found in files if is_needed(found.modified_us, found.appeared_us)]
        return replace(
            position, low_us=low_us, appeared_us=appeared_us, window=merged((*kept, *run_of(current, young)))
        )
