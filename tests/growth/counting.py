"""Counts work instead of timing it: the calls of Python and C functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """The number of function calls of ``work`` in this thread."""
    count = 0

    def counted(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def grows_too_fast(small: int, middle: int, large: int) -> bool:
    """Whether the work for one, two and four times the input has a significant part that is not linear.

    From the second to the third, linear work grows by twice as much as from the first to the second, and
    quadratic work by four times as much. Constant work has no influence.
    """
    first, second = middle - small, large - middle
    return second > 2.6 * max(first, 0) + 0.1 * small


class CountedText(str):
    """Text that counts the characters that are searched or copied, in ``Looked.at``."""

    __slots__ = ()

    def find(self, what: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        last = len(self) if end is None else end
        found = super().find(what, start, last)
        Looked.at += (last if found < 0 else found) - start
        return found

    def __getitem__(self, at: Any) -> str:
        found = super().__getitem__(at)
        Looked.at += len(found)
        return found


class CountedBytes(bytes):
    """Bytes that count those that are read or copied, in ``Looked.at``."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Looked.at += len(found) if isinstance(found, bytes) else 1
        return found


class Looked:
    """The number of characters and bytes that were read since it was set to 0."""

    at = 0
