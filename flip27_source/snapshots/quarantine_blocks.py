"""Quarantined splits in their stored form: inside the document if their total size is small, or in segments.

A quarantined record carries its bytes. The segments are written once and shared by the documents that
follow, so that a checkpoint only writes what is new. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from ..coordination.checkpoints import QuarantinedSplit
from ..segment import Segment
from .documents import StoredQuarantineBlock, StoredQuarantined

INLINE_BYTES = 16 * 1024
"""Quarantined splits are stored inside the document up to this total size."""

BLOCK_BYTES = 256 * 1024
"""A segment ends with the split that reaches this size."""

_Encode = Callable[[Any], msgspec.Raw]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuarantine:
    """Quarantined splits as a document stores them.

    Attributes:
        inside: those inside the document.
        blocks: the segments of the others.
    """

    inside: list[StoredQuarantined]
    blocks: list[StoredQuarantineBlock]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    items: tuple[QuarantinedSplit[Any], ...]
    segment: Segment

    def has(self, items: Sequence[QuarantinedSplit[Any]]) -> bool:
        """Whether ``items`` begins with the splits of the block, as the same objects."""
        return len(items) >= len(self.items) and all(
            mine is other for mine, other in zip(self.items, items, strict=False)
        )


class QuarantineBlocks:
    """Encodes quarantined splits; a full block is encoded once, unless the splits before it change."""

    def __init__(self, encode: _Encode) -> None:
        self._encode = encode
        self._full: list[_Block] = []

    def stored(
        self, quarantined: Sequence[QuarantinedSplit[Any]], collected: dict[str, Segment]
    ) -> StoredQuarantine:
        """The stored form; its segments are added to ``collected``."""
        full, rest = self._known(quarantined)
        stored = as_stored(rest, self._encode)
        if not full and sum(_size(item) for item in stored) <= INLINE_BYTES:
            return StoredQuarantine(inside=stored, blocks=[])
        blocks = [*full]
        first = 0
        for group in _groups(stored):
            items = tuple(rest[first : first + len(group)])
            first += len(group)
            blocks.append(_Block(items=items, segment=Segment._of_values("quarantine", group)))
        # The last block is not full: it grows with the next split.
        self._full = blocks[:-1]
        collected.update({block.segment.name: block.segment for block in blocks})
        return StoredQuarantine(
            inside=[],
            blocks=[
                StoredQuarantineBlock(items=block.segment.name, count=len(block.items)) for block in blocks
            ],
        )

    def _known(
        self, quarantined: Sequence[QuarantinedSplit[Any]]
    ) -> tuple[list[_Block], Sequence[QuarantinedSplit[Any]]]:
        """The full blocks that the splits begin with, and the splits after them."""
        blocks: list[_Block] = []
        for block in self._full:
            if not block.has(quarantined):
                break
            blocks.append(block)
            quarantined = quarantined[len(block.items) :]
        return blocks, quarantined


def as_stored(items: Iterable[QuarantinedSplit[Any]], encode: _Encode) -> list[StoredQuarantined]:
    return [structs.replace(item, split=encode(item.split)) for item in items]


def as_given(
    items: Iterable[StoredQuarantined], decode: Callable[[msgspec.Raw], Any]
) -> tuple[QuarantinedSplit[Any], ...]:
    return tuple(structs.replace(item, split=decode(item.split)) for item in items)


def _size(item: StoredQuarantined) -> int:
    return len(bytes(item.split)) + len(item.error)


def _groups(items: Sequence[StoredQuarantined]) -> Iterator[list[StoredQuarantined]]:
    group: list[StoredQuarantined] = []
    size = 0
    for item in items:
        group.append(item)
        size += _size(item)
        if size >= BLOCK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
