"""Outbox: what was sent and is in no plan yet, in order, and what of it has to wait. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Outbox(Generic[ItemT]):
    """Items that the next plan may take, and behind them items that are held back until a release."""

    __slots__ = ("_held", "_items")

    def __init__(self) -> None:
        self._items: deque[ItemT] = deque()
        self._held: list[ItemT] = []

    def add(self, item: ItemT, *, is_held: bool) -> None:
        """Add an item behind those that are there."""
        (self._held if is_held else self._items).append(item)

    def release(self) -> None:
        """What was held back may be taken from now on."""
        self._items.extend(self._held)
        self._held.clear()

    def peek(self) -> ItemT | None:
        """The first item that may be taken."""
        return self._items[0] if self._items else None

    def take(self) -> ItemT:
        """Remove that item."""
        return self._items.popleft()

    def take_all(self) -> list[ItemT]:
        """Remove all items that may be taken."""
        taken = list(self._items)
        self._items.clear()
        return taken

    def __contains__(self, item: object) -> bool:
        """Whether an item may be taken."""
        return item in self._items

    def waiting(self) -> Iterator[ItemT]:
        """All items, those that are held back last."""
        yield from self._items
        yield from self._held

    def __len__(self) -> int:
        """How many may be taken."""
        return len(self._items)
