"""SortedHashes: a set of very many hashes that needs little more memory than their bytes."""

from __future__ import annotations

import hashlib
import random

import pytest

from flip27_source.enumerators.files.seen_files import hashes as seen_hashes
from flip27_source.enumerators.files.seen_files.hashes import HASH_BYTES, SeenFiles, SortedHashes


def hashes(first: int, last: int) -> list[bytes]:
    return [hashlib.blake2b(b"%d" % number, digest_size=HASH_BYTES).digest() for number in range(first, last)]


@pytest.mark.parametrize("count", [0, 1, 2, 5_000])
def test_sorted_hashes_contain_the_given_hashes_and_no_others(count: int) -> None:
    held = SortedHashes(b"".join(hashes(0, count)))
    assert len(held) == count
    assert all(hashed in held for hashed in hashes(0, count))
    assert not any(hashed in held for hashed in hashes(count, count + 5_000))


def test_bytes_across_two_adjacent_hashes_are_not_found() -> None:
    """Look up every slice of the bytes of hashes with equal prefixes: only the real hashes are found."""
    alike = [bytes([7, 7, 7]) + bytes([number]) * 13 for number in range(3, 250)] + [bytes([7] * HASH_BYTES)]
    data = b"".join(sorted(set(alike)))
    held = SortedHashes(data)
    cut = [data[at : at + HASH_BYTES] for at in range(len(data) - HASH_BYTES + 1)]
    assert [hashed in held for hashed in cut] == [hashed in set(alike) for hashed in cut]


def test_overlapping_hashes_of_few_byte_values_are_found_at_every_position() -> None:
    """The bytes are 0, 1 and 255: hashes have the first and the last prefix, and many overlap."""
    drawn = random.Random(27)
    values = [bytes(drawn.choice((0, 1, 255)) for _ in range(HASH_BYTES)) for _ in range(4_000)]
    given, others = set(values[:2_000]), values[2_000:]
    held = SortedHashes(b"".join(given))
    assert all(hashed in held for hashed in given)
    assert [hashed in held for hashed in others] == [hashed in given for hashed in others]


def test_new_hashes_are_found_before_and_after_they_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_hashes, "_MOST_RECENT", 10)
    held = SortedHashes(b"".join(hashes(0, 100)))
    for first in range(100, 200, 4):
        held.update(hashes(first, first + 4))
        assert len(held) == first + 4
        assert all(hashed in held for hashed in hashes(0, first + 4))
    assert not any(hashed in held for hashed in hashes(200, 300))


def test_seen_files_are_the_same_whether_held_in_a_set_or_as_sorted_hashes() -> None:
    few, many = SeenFiles(few=1_000_000), SeenFiles(few=50)
    for first in range(0, 400, 40):
        for seen in (few, many):
            seen.add(hashes(first, first + 40))
    assert isinstance(few.hashes, set)
    assert isinstance(many.hashes, SortedHashes)
    again = SeenFiles(many.runs, few=50)
    assert isinstance(again.hashes, SortedHashes)
    for seen in (few, many, again):
        assert len(seen) == 400
        assert seen.runs == few.runs
        assert [hashed in seen for hashed in hashes(0, 500)] == [True] * 400 + [False] * 100
