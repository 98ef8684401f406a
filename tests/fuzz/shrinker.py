"""Shrinks a case that shows a mismatch."""

from __future__ import annotations

from collections.abc import Callable

from .case import Case
from .comparison import Mismatch

_MOST_TRIES = 150


def shrunk(
    case: Case, mismatch: Mismatch, unknown: Callable[[Case], list[Mismatch]], tries: int = _MOST_TRIES
) -> tuple[Case, Mismatch]:
    """The smallest case found with a mismatch of the same kind, and that mismatch.

    Args:
        unknown: returns the mismatches of a case that are not due to declared differences.
        tries: the largest number of cases to read.
    """
    smaller = case.smaller()
    while tries:
        candidate = next(smaller, None)
        if candidate is None:
            break
        tries -= 1
        if candidate == case:
            continue
        same = [one for one in unknown(candidate) if _is_alike(one, mismatch)]
        if same:
            case, mismatch = candidate, same[0]
            smaller = case.smaller()
    return case, mismatch


def _is_alike(one: Mismatch, other: Mismatch) -> bool:
    return one.kind == other.kind and one.column_type == other.column_type
