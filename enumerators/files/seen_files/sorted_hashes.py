"""Stores many hashes in little more than their own size; a Python set takes seven times as much."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

import pyarrow as pa

HASH_BYTES = 16

_PREFIX_BITS = 18
_SPARE_BITS = 24 - _PREFIX_BITS
_MOST_RECENT = 1 << 18


class SortedHashes:
    """A set of 128-bit hashes: sorted, and searched among the hashes with the same prefix.

    New hashes wait in a Python set until there are many of them.
    """

    def __init__(self, hashes: bytes) -> None:
        """``hashes``: the concatenated hashes, in any order."""
        self._recent: set[bytes] = set()
        self._sorted, self._starts = _arranged(hashes)

    def __contains__(self, hashed: bytes) -> bool:
        prefix = int.from_bytes(hashed[:3], "big") >> _SPARE_BITS
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
    import pyarrow.compute as pc  # imported here because the import is slow, and most sets are small

    kind = pa.binary(HASH_BYTES)
    unsorted = pa.Array.from_buffers(kind, len(hashes) // HASH_BYTES, [None, pa.py_buffer(hashes)])
    order = pc.array_sort_indices(unsorted)
    data = unsorted.take(order).buffers()[1].to_pybytes()[: len(hashes)]
    prefixes = _Prefixes(data)
    starts = array("Q")
    for prefix in range(1 << _PREFIX_BITS):
        first = (prefix << _SPARE_BITS).to_bytes(3, "big")
        starts.append(HASH_BYTES * bisect_left(prefixes, first, starts[-1] // HASH_BYTES if starts else 0))
    starts.append(len(data))
    return data, starts


class _Prefixes:
    """The first bytes of sorted hashes, as a sequence."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __getitem__(self, number: int) -> bytes:
        return self._data[HASH_BYTES * number : HASH_BYTES * number + 3]

    def __len__(self) -> int:
        return len(self._data) // HASH_BYTES
