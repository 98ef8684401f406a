"""Fair shares: how much of a batch each live split gets. Pure.

Each split that may have data gets an equal part of what is left of the limits. What some do not use is
handed round among those that used their part up, until nothing is left or nobody wants more. Where there
is less than one row or file for each, those at the front of the queue get one.

No split waits for ever. Whoever reads something goes to the end of the queue, and of those that have
something to read, the first in the queue always reads: if its smallest step is larger than its share, the
step is taken from what the others would get, and even beyond the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from ..enumerator import BoundedRange, Budget
from ..split import SplitSize, SplitT, size_of

Bound = Callable[[SplitT, Budget], "BoundedRange[SplitT] | None"]

MAX_DOUBLINGS = 64
"""From one row to more than there are: a split that has something to read gives it before that."""

_NAMES = ("files", "rows", "bytes")


@dataclass(slots=True)
class _Share(Generic[SplitT]):
    """What a split was given so far, by name of the limit, and the range that came of it."""

    split: SplitT
    given: dict[str, int]
    cut: BoundedRange[SplitT] | None = None

    def used(self, name: str) -> int:
        """How much of a limit its range takes; 0 where that is not known."""
        return 0 if self.cut is None else _amount(size_of(self.cut.read), name)

    def ask(self, bound: Bound[SplitT]) -> BoundedRange[SplitT] | None:
        """Cut the split by what it was given."""
        self.cut = bound(self.split, Budget(**self.given))
        return self.cut

    @property
    def wants_more(self) -> bool:
        """Whether it has used up what it was given, and may go on behind that."""
        if self.cut is None or self.cut.rest is None:
            return False
        return any(self.used(name) >= given for name, given in self.given.items())


def fair_ranges(
    live: Sequence[SplitT], left: Budget, bound: Bound[SplitT]
) -> list[tuple[SplitT, BoundedRange[SplitT]]]:
    """What the live splits read in this batch: each split that has something to read, and its range.

    Who was given more comes later, and so has its next turn later.

    Args:
        live: in the order in which they have their turn.
        left: what is left of the batch's limits.
        bound: cuts a split by a budget; asked again for the same split when it is given more.
    """
    rest = {name: value for name in _NAMES if (value := getattr(left, name)) is not None}
    shares = [_Share(split, dict.fromkeys(rest, 0)) for split in live]
    hungry = shares
    is_first = True
    while hungry and all(rest.values()):
        before = dict(rest)
        asked = 0
        for position, share in enumerate(hungry):
            part = _part(before, rest, position, len(hungry))
            if part is None:
                break
            asked += 1
            used = {name: share.used(name) for name in rest}
            is_new = share.cut is None
            share.given = {name: amount + part[name] for name, amount in share.given.items()}
            if share.ask(bound) is None and is_new and rest:
                _find_step(share, rest, bound, is_first=is_first)
            is_first = is_first and share.cut is None
            rest = {name: _less(amount, share.used(name) - used[name]) for name, amount in rest.items()}
        # Who has not been asked yet comes first, then who has got least.
        again = sorted(
            (share for share in hungry[:asked] if share.wants_more),
            key=lambda share: tuple(share.given.values()),
        )
        if rest == before and asked == len(hungry):
            break
        hungry = [*hungry[asked:], *again]
    served = sorted(shares, key=lambda share: tuple(share.given.values()))
    return [(share.split, share.cut) for share in served if share.cut is not None]


def _part(amounts: dict[str, int], rest: dict[str, int], position: int, number: int) -> dict[str, int] | None:
    """The part of the split at ``position`` of ``number``; None where there is nothing of some limit."""
    parts = {
        name: min(rest[name], amount // number + (position < amount % number))
        for name, amount in amounts.items()
    }
    return parts if all(parts.values()) else None


def _find_step(share: _Share[SplitT], rest: dict[str, int], bound: Bound[SplitT], *, is_first: bool) -> None:
    """Find the smallest step of a split that reads nothing within its share, by doubling the share.

    ``is_first``: nobody before it in the queue has something to read, so its step may pass the limits.
    """
    if bound(share.split, Budget()) is None:
        return
    for _ in range(MAX_DOUBLINGS):
        if share.given != rest:
            share.given = {name: min(2 * amount, rest[name]) for name, amount in share.given.items()}
        elif is_first:
            rest = share.given = {name: 2 * amount for name, amount in share.given.items()}
        else:
            return
        if share.ask(bound) is not None:
            return


def _less(amount: int, used: int) -> int:
    return max(0, amount - max(0, used))


def _amount(size: SplitSize, name: str) -> int:
    return getattr(size, name) or 0
