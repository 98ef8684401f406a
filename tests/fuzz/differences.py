"""What our readers do otherwise than Spark's, on purpose. The fuzz fails on any other difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .case import Case
from .comparison import Compared, Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference that stays.

    Attributes:
        name: for reports.
        readers: which ones.
        what: what differs. why: why it stays.
        covers: whether a mismatch is of this kind.
    """

    name: str
    readers: tuple[str, ...]
    what: str
    why: str
    covers: Callable[[Case, Mismatch, Compared], bool]


DIFFERENCES: Sequence[Difference] = ()


def known_difference(case: Case, mismatch: Mismatch, found: Compared) -> Difference | None:
    """The declared difference that a mismatch is; None where it is none."""
    for difference in DIFFERENCES:
        if case.format in difference.readers and difference.covers(case, mismatch, found):
            return difference
    return None
