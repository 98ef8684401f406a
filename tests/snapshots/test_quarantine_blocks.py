"""Quarantined splits are stored in the document while they are small, else in segments that are reused."""

from __future__ import annotations

from typing import Any

import msgspec

from flip27_source.coordination.checkpoints import QuarantinedSplit
from flip27_source.segment import Segment
from flip27_source.snapshots.documents import StoredQuarantined
from flip27_source.snapshots.quarantine_blocks import BLOCK_BYTES, INLINE_BYTES, QuarantineBlocks

KIB = 1024


def split(name: str, size: int) -> QuarantinedSplit[str]:
    return QuarantinedSplit(split=name * (size // len(name)), checkpoint_id=1, attempts=1, error="bad")


def blocks() -> QuarantineBlocks:
    return QuarantineBlocks(lambda value: msgspec.Raw(msgspec.json.encode(value)))


def names(stored: Any) -> list[str]:
    return [block.items for block in stored.blocks]


def contents(segments: dict[str, Segment], stored: Any) -> list[str]:
    found = [item for name in names(stored) for item in segments[name].values(StoredQuarantined)]
    return [msgspec.json.decode(item.split)[0] for item in found]


def test_a_few_small_splits_are_stored_in_the_document() -> None:
    segments: dict[str, Segment] = {}
    stored = blocks().stored([split("a", 100), split("b", 100)], segments)
    assert (len(stored.inside), stored.blocks, segments) == (2, [], {})


def test_large_splits_are_stored_in_segments_in_their_order() -> None:
    segments: dict[str, Segment] = {}
    items = [split(name, BLOCK_BYTES // 2) for name in "abcde"]
    stored = blocks().stored(items, segments)
    assert (stored.inside, [block.count for block in stored.blocks]) == ([], [2, 2, 1])
    assert contents(segments, stored) == list("abcde")


def test_adding_a_split_keeps_full_segments_without_encoding_them_again() -> None:
    made = blocks()
    items = [split(name, BLOCK_BYTES) for name in "ab"]
    first = made.stored([*items, split("c", KIB)], {})
    encoded: list[Any] = []
    made._encode = lambda value: (encoded.append(value), msgspec.Raw(msgspec.json.encode(value)))[1]
    segments: dict[str, Segment] = {}
    second = made.stored([*items, split("c", KIB), split("d", KIB)], segments)
    assert names(second)[:2] == names(first)[:2]
    assert [value[0] for value in encoded] == ["c", "d"]
    assert contents(segments, second) == list("abcd")


def test_removing_splits_keeps_the_others() -> None:
    made = blocks()
    items = [split(name, BLOCK_BYTES) for name in "abc"]
    made.stored(items, {})
    segments: dict[str, Segment] = {}
    assert contents(segments, made.stored([items[0], items[2]], segments)) == ["a", "c"]
    last = made.stored([split("d", KIB)], segments)
    assert (len(last.inside), last.blocks) == (1, [])
    assert INLINE_BYTES > KIB
