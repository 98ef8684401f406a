"""The known files: 128-bit hashes of their paths, in immutable runs.

New hashes make a new run, and runs of similar size are merged. So each hash is written only a few times, and
a document names few runs. Everything here runs on the discovery thread.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Iterable

import pyarrow as pa

from flip27_source.segment import Segment
from flip27_source.values.merged_blocks import merged_blocks

HASH_BYTES = 16
_PREFIX_BITS = 18
_SPARE_BITS = 32 - _PREFIX_BITS
_MOST_RECENT = 1 << 18

FEW = 1 << 21
"""Up to this number of hashes is kept in a Python set, which is fastest; more are sorted, to save memory."""

MERGE_WIDTH = 16
"""This number of runs of similar size becomes one run."""


def path_hash(path: str) -> bytes:
    """128 bits of BLAKE2b; for a million files, the probability of a collision is 1 in 10^26."""
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=HASH_BYTES).digest()


class SortedHashes:
    """A set of many hashes in little more than their own size; a Python set takes seven times as much.

    They are sorted, and searched among the hashes with the same prefix. New hashes wait in a Python set
    until there are many of them.
    """

    def __init__(self, hashes: bytes) -> None:
        """``hashes``: the concatenated hashes, in any order."""
        self._recent: set[bytes] = set()
        self._sorted, self._starts = _arranged(hashes)

    def __contains__(self, hashed: bytes) -> bool:
        prefix = int.from_bytes(hashed[:4], "big") >> _SPARE_BITS
        find, end = self._sorted.find, self._starts[prefix + 1]
        at = find(hashed, self._starts[prefix], end)
        while at >= 0 and at % HASH_BYTES:  # a match across two hashes
            at = find(hashed, at + 1, end)
        return at >= 0 or hashed in self._recent

    def __len__(self) -> int:
        return len(self._sorted) // HASH_BYTES + len(self._recent)

    def update(self, hashes: Iterable[bytes]) -> None:
        """Add hashes that are not in the set."""
        self._recent.update(hashes)
        if len(self._recent) > _MOST_RECENT:
            self._sorted, self._starts = _arranged(b"".join((self._sorted, *self._recent)))
            self._recent = set()


def _arranged(hashes: bytes) -> tuple[bytes, array[int]]:
    """The sorted hashes, and the start of the hashes of each prefix, followed by the end."""
    import numpy as np  # imported here because the imports are slow, and most sets are small
    import pyarrow.compute as pc

    kind = pa.binary(HASH_BYTES)
    unsorted = pa.Array.from_buffers(kind, len(hashes) // HASH_BYTES, [None, pa.py_buffer(hashes)])
    order = pc.array_sort_indices(unsorted)
    data = unsorted.take(order).buffers()[1].to_pybytes()[: len(hashes)]
    prefixes = np.frombuffer(data, ">u4")[:: HASH_BYTES // 4] >> _SPARE_BITS
    starts = np.searchsorted(prefixes, np.arange((1 << _PREFIX_BITS) + 1)) * HASH_BYTES
    return data, array("Q", starts.astype(np.uint64).tobytes())


class SeenFiles:
    """A set of path hashes and the runs that store it.

    Attributes:
        hashes: the same set, in which lookups are a little faster than in this object.
    """

    def __init__(self, runs: Iterable[Segment] = (), *, few: int = FEW) -> None:
        self.runs: tuple[Segment, ...] = tuple(runs)
        self._few = few
        self.hashes: set[bytes] | SortedHashes = set()
        if sum(map(_count, self.runs)) > few:
            self.hashes = SortedHashes(b"".join(map(_forgotten, self.runs)))
            return
        for run in self.runs:
            self.hashes.update(hashes_in(run))
            run.forget()

    @classmethod
    def of(cls, hashes: Iterable[bytes]) -> SeenFiles:
        """A new set of these hashes, which may repeat."""
        seen = cls()
        seen.add(list(dict.fromkeys(hashes)))
        return seen

    def __contains__(self, hashed: bytes) -> bool:
        return hashed in self.hashes

    def __len__(self) -> int:
        return len(self.hashes)

    def without(self, gone: Collection[bytes]) -> SeenFiles:
        """The set without these hashes; only the runs that contain one of them are rewritten."""
        runs = []
        for run in self.runs:
            hashes = hashes_in(run)
            left = [hashed for hashed in hashes if hashed not in gone]
            if len(left) == len(hashes):
                runs.append(run)
            elif left:
                runs.append(Segment.of("seen", b"".join(left)))
        return SeenFiles(runs)

    def add(self, hashes: list[bytes]) -> None:
        """Add new files: all of them, or none if older runs cannot be fetched."""
        if not hashes:
            return
        new = Segment.of("seen", b"".join(hashes))
        runs = merged_blocks((*self.runs, new), size_of=_count, join=_joined, width=MERGE_WIDTH)
        self.hashes.update(hashes)
        if isinstance(self.hashes, set) and len(self.hashes) > self._few:
            self.hashes = SortedHashes(b"".join(self.hashes))
        self.runs = tuple(runs)


def _count(run: Segment) -> int:
    return (run.size if run.size is not None else len(run.data)) // HASH_BYTES


def _joined(runs: Iterable[Segment]) -> Segment:
    return Segment.of("seen", b"".join(run.data for run in runs))


def _forgotten(run: Segment) -> bytes:
    data = run.data
    run.forget()
    return data


def hashes_in(run: Segment) -> list[bytes]:
    """The hashes of a run, in order."""
    data = run.data
    return [data[i : i + HASH_BYTES] for i in range(0, len(data), HASH_BYTES)]
