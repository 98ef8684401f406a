"""Files that every round of discovery skips: each is logged and counted once."""

from __future__ import annotations

from flip27_source.enumerators.files.known.hashes import path_hash


class FilesLeftOut:
    """Counts skipped files, and remembers only the files that the last round found.

    Attributes:
        count: the number of skipped files in total.
    """

    def __init__(self) -> None:
        self.count = 0
        self._known: set[bytes] = set()
        self._met: set[bytes] = set()

    def __len__(self) -> int:
        """The number of files that are remembered."""
        return len(self._known | self._met)

    def begin(self) -> None:
        """Start a round; the files of an incomplete previous round stay remembered."""
        self._known |= self._met
        self._met = set()

    def is_new(self, path: str) -> bool:
        """True if this file is skipped for the first time, as far as is remembered."""
        hashed = path_hash(path)
        is_new = hashed not in self._known and hashed not in self._met
        self._met.add(hashed)
        self.count += is_new
        return is_new

    def end(self) -> None:
        """Complete the round; files that it did not find are forgotten."""
        self._known, self._met = self._met, set()
