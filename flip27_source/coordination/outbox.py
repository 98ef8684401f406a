"""Outbox: items that were sent and are in no plan yet, in order; some are held back. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Outbox(Generic[ItemT]):
    """Items that the next plan may take, followed by items that are held back until a release."""

    __slots__ = ("_held", "_items")

    def __init__(self) -> None:
        self._items: deque[ItemT] = deque()
        self._held: list[ItemT] = []

    def add(self, item: ItemT, *, is_held: bool) -> None:
        (self._held if is_held else self._items).append(item)

    def release(self) -> None:
        self._items.extend(self._held)
        self._held.clear()

    def peek(self) -> ItemT | None:
        return self._items[0] if self._items else None

    def take(self) -> ItemT:
        return self._items.popleft()

    def take_all(self) -> list[ItemT]:
        taken = list(self._items)
        self._items.clear()
        return taken

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def waiting(self) -> Iterator[ItemT]:
        yield from self._items
        yield from self._held

    def __len__(self) -> int:
        return len(self._items)
