"""Files that each round of discovery meets again and leaves out: each is told and counted once."""

from __future__ import annotations

from flip27_source.enumerators.files.known.hashes import path_hash


class FilesLeftOut:
    """Counts files, and remembers those only that the last round has met: no more than there are now.

    Attributes:
        count: how many there were in all.
    """

    def __init__(self) -> None:
        self.count = 0
        self._known: set[bytes] = set()
        self._met: set[bytes] = set()

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known | self._met)

    def begin(self) -> None:
        """A round begins; of one that did not come to its end everything is remembered."""
        self._known |= self._met
        self._met = set()

    def is_new(self, path: str) -> bool:
        """Whether this file is left out for the first time, for all that is remembered."""
        hashed = path_hash(path)
        is_new = hashed not in self._known and hashed not in self._met
        self._met.add(hashed)
        self.count += is_new
        return is_new

    def end(self) -> None:
        """The round has come to its end: what it did not meet is gone."""
        self._known, self._met = self._met, set()
