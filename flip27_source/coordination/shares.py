"""Fair shares: divides a batch among live splits. Pure.

Each split that may have data gets an equal part of the remaining limits. Parts that some splits do not use
are divided among splits that used up theirs, until nothing is left or no split needs more. If there is less
than one row or file per split, the splits at the front of the queue get one each.

No split waits forever. A split that is read goes to the end of the queue, and the first split in the queue
with data is always read. If its smallest step is larger than its share, the step reduces the shares of the
others and may even exceed the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from ..enumerator import BoundedRange, Budget
from ..split import SplitT, size_of

Bound = Callable[[SplitT, Budget], "BoundedRange[SplitT] | None"]

MAX_DOUBLINGS = 64
"""Enough to grow from one row to any number of rows, so a split with data always reads some."""

_NAMES = ("files", "rows", "bytes")


@dataclass(slots=True)
class _Share(Generic[SplitT]):
    """A split's share so far, by name of the limit, the resulting range, and what of the limits it uses."""

    split: SplitT
    given: dict[str, int]
    used: dict[str, int]
    latest_us: int | None
    cut: BoundedRange[SplitT] | None = None

    def ask(self, bound: Bound[SplitT]) -> BoundedRange[SplitT] | None:
        self.cut = cut = bound(self.split, Budget(**self.given, latest_us=self.latest_us))
        size = None if cut is None else size_of(cut.read)
        self.used = {name: (size and getattr(size, name)) or 0 for name in self.given}
        return cut

    @property
    def wants_more(self) -> bool:
        """Whether the split has used up its share and may continue after it."""
        if self.cut is None or self.cut.rest is None:
            return False
        return any(self.used[name] >= given for name, given in self.given.items())


def fair_ranges(
    live: Sequence[SplitT], left: Budget, bound: Bound[SplitT]
) -> list[tuple[SplitT, BoundedRange[SplitT]]]:
    """The live splits that are read in this batch, with their ranges.

    Splits with larger shares come later in the result, so that their next turn is later as well.

    Args:
        live: live splits, in the order of their turns.
        left: the remaining limits of the batch, and its horizon.
        bound: bounds a split by a budget; called again for the same split when its share grows.
    """
    rest = {name: value for name in _NAMES if (value := getattr(left, name)) is not None}
    if not rest:
        # There is no limit to share, and there may be thousands of splits.
        bounded = ((split, bound(split, left)) for split in live)
        return [(split, cut) for split, cut in bounded if cut is not None]
    nothing = dict.fromkeys(rest, 0)
    shares = [_Share(split, nothing, nothing, left.latest_us) for split in live]
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
            used, is_new, is_begun = share.used, share.cut is None, share.given is not nothing
            share.given = (
                {name: amount + part[name] for name, amount in share.given.items()} if is_begun else part
            )
            if share.ask(bound) is None and is_new:
                _find_step(share, rest, bound, is_first=is_first)
            is_first = is_first and share.cut is None
            if share.used != used:
                more = {name: max(0, share.used[name] - used[name]) for name in rest}
                rest = {name: max(0, amount - more[name]) for name, amount in rest.items()}
        # Splits that have not been bounded yet come first, then splits with the smallest share.
        again = sorted(
            (share for share in hungry[:asked] if share.wants_more),
            key=lambda share: tuple(share.given.values()),
        )
        if rest == before and asked == len(hungry):
            break
        hungry = [*hungry[asked:], *again]
    served = sorted(shares, key=lambda share: tuple(share.given.values()))
    return [(share.split, share.cut) for share in served if share.cut is not None]


def used_of(left: Budget, ranges: Sequence[tuple[SplitT, BoundedRange[SplitT]]]) -> float:
    """The part of the limits that ranges use: 1 if they use up one of them."""
    sizes = [size_of(cut.read) for _, cut in ranges]
    limits = {name: most for name in _NAMES if (most := getattr(left, name))}
    return max((sum(getattr(one, name) or 0 for one in sizes) / limits[name] for name in limits), default=0)


def _part(amounts: dict[str, int], rest: dict[str, int], position: int, number: int) -> dict[str, int] | None:
    """The part of the split at ``position`` of ``number``; None if nothing is left of some limit."""
    parts = {
        name: min(rest[name], amount // number + (position < amount % number))
        for name, amount in amounts.items()
    }
    return parts if all(parts.values()) else None


def _find_step(share: _Share[SplitT], rest: dict[str, int], bound: Bound[SplitT], *, is_first: bool) -> None:
    """Find the smallest step of a split that reads nothing within its share, by doubling the share.

    ``is_first``: no split before it in the queue has data, so its step may exceed the limits.
    """
    if bound(share.split, Budget(latest_us=share.latest_us)) is None:
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
