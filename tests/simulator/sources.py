"""Sources of the simulator: the rows of all of them, and one source with an author's mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import DiscoveringEnumerator, Discovery, SplitReader

LINE = pa.schema([pa.field("value", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A split with a single row: its name and number."""

    split_id: str
    number: int = 0
    weight: float = 1.0


class ItemReader(SplitReader[Item]):
    def read(self, split: Item) -> Iterator[Any]:
        yield (f"{split.split_id}:{split.number}",)


class CarelessEnumerator(DiscoveringEnumerator[Item]):
    """Finds an item in each round; a mistake of its author shows in one of the rounds.

    Attributes:
        mistake: one of ``MISTAKES``; None once the author has fixed it.
        comes_at: the round in which it shows.
    """

    mistake: ClassVar[str | None] = None
    comes_at: ClassVar[int] = 0
    last: ClassVar[int] = 0

    def discover(self, position: int | None) -> Discovery[Item, int | None]:
        at = position or 0
        if at >= self.last:
            return Discovery([], at)
        mistake = self.mistake if at == self.comes_at else None
        change = MISTAKES.get(mistake or "", {})
        if "instead" in change:
            return change["instead"]  # type: ignore[no-any-return] # that is the mistake
        item = replace(Item(split_id=f"item-{at}", number=at), **change.get("split", {}))
        return Discovery(change.get("splits", [item]), change.get("position", at + 1))


MISTAKES: dict[str, dict[str, Any]] = {
    "a position that is NaN": {"position": float("nan")},
    "a position that is a text": {"position": "1"},
    "a split_id that is a number": {"split": {"split_id": 7}},
    "a split_id that is not Unicode": {"split": {"split_id": "\udcff"}},
    "a field that is infinite": {"split": {"weight": float("inf")}},
    "a field that is a text": {"split": {"number": "7"}},
    "splits that are texts": {"splits": ["a"]},
    "a list instead of a Discovery": {"instead": ["a"]},
}
"""Mistakes of an author, each with the value that ``discover`` returns instead."""
