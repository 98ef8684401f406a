"""Which of chunks and log has a change: applies the rules of a table's ranges to changes. Pure.

An *emptying* removes every row of a table, as TRUNCATE does: it concerns all ranges. If the snapshots of some
of them have it and those of others do not, it is delivered, and the chunks that were read are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


def are_delivered(has: Sequence[Bools], empties: Bools, ranges_of: Callable[[Int64s], Int64s]) -> Bools:
    """True for the changes to deliver: those that the snapshot of their row's chunk does not have.

    Args:
        has: for each range of the key, which of the changes its snapshots have; a range that is not read yet
            will have all of them.
        empties: which changes are emptyings; such a change is delivered if any range does not have it.
        ranges_of: the number of the range of each of these changes, which are given by their indexes. It is
            called only for changes that some ranges have and others do not.
    """
    if len(has) == 1:
        return ~has[0]
    everywhere = np.logical_and.reduce(has)
    nowhere = ~np.logical_or.reduce(has)
    delivered: Bools = nowhere | (empties & ~everywhere)
    open_rows = np.flatnonzero(~nowhere & ~everywhere & ~empties)
    if len(open_rows):
        delivered[open_rows] = ~np.stack(has)[ranges_of(open_rows), open_rows]
    return delivered


def is_emptied_between(has: Sequence[Bools]) -> bool:
    """Whether the snapshots of some ranges have one of these emptyings, and those of others do not."""
    seen = np.stack(has)
    return bool((seen.any(axis=0) & ~seen.all(axis=0)).any())
