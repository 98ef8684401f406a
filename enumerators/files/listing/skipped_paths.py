"""SkippedPaths: paths that every round of discovery skips are logged and counted once."""

from __future__ import annotations

import logging

from flip27_source.enumerators.files.seen_files.hashes import path_hash

_log = logging.getLogger("flip27_source")


class SkippedPaths:
    """Counts skipped paths, and remembers only those that the last round skipped.

    Attributes:
        count: the number of skipped paths in total.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: set[bytes] = set()
        self._current: set[bytes] = set()

    def begin(self) -> None:
        """Start a round; the paths of an incomplete previous round stay remembered."""
        self._last |= self._current
        self._current = set()

    def skip(self, path: str, warning: str, *arguments: str) -> None:
        """Skip a path; the first time, log a warning about it, with the arguments."""
        hashed = path_hash(path)
        if hashed not in self._last and hashed not in self._current:
            self.count += 1
            _log.warning(warning, path, *arguments)
        self._current.add(hashed)

    def end(self) -> None:
        """Complete the round; paths that it did not skip are forgotten."""
        self._last, self._current = self._current, set()
