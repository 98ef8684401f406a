"""Which transactions a chunk contains: those that its snapshot sees. Pure: numbers in, booleans out.

A chunk of a table is read in one snapshot. An event of the log that concerns a row of this chunk is delivered
if and only if the snapshot does not see the event's transaction: then the chunk has the row as it was before.
Comparing positions in the log instead loses rows, because a commit is in the log before it is visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_EPOCH = 1 << 32
_HALF_EPOCH = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSnapshot:
    """A value of ``pg_current_snapshot()``; transaction ids have 64 bits, with their epoch.

    Attributes:
        xmin: every transaction below it has ended.
        xmax: no transaction from here on had ended.
        in_progress: the transactions between the two that had not ended, ascending.
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> TransactionSnapshot:
        """The snapshot that PostgreSQL writes as ``xmin:xmax:xid,xid``."""
        parts = text.split(":")
        if len(parts) != 3:
            raise ValueError(f"{text[:100]!r} is not a snapshot of the form xmin:xmax:xid,xid")
        listed = tuple(sorted(int(xid) for xid in parts[2].split(",") if xid))
        return cls(xmin=int(parts[0]), xmax=int(parts[1]), in_progress=listed)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.in_progress))}"

    def sees(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each committed transaction, whether its changes are visible (``pg_visible_in_snapshot``)."""
        seen = xids < self.xmax
        if self.in_progress:
            seen &= ~np.isin(xids, np.array(self.in_progress, dtype=np.int64))
        return seen


def widened(xids: npt.NDArray[np.int64], near: int) -> npt.NDArray[np.int64]:
    """The 64-bit ids of transactions of which the log gives the lower 32 bits.

    PostgreSQL keeps all transactions that are in use within 2**31 of each other, so the id that is nearest to
    ``near``, the 64-bit id of such a transaction, is the right one.
    """
    distance = (xids - near) % _EPOCH
    return near + np.where(distance >= _HALF_EPOCH, distance - _EPOCH, distance)


SEES_NOTHING = str(TransactionSnapshot(xmin=1, xmax=1))
"""The snapshot of a chunk of which every change is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """What happens to events of the rows of one chunk, or of several neighbouring chunks.

    Attributes:
        snapshot: the snapshot in which the chunk was read, as text; None if the chunk is not read yet.
            Its snapshot will then see every transaction of the window, so no event is delivered.
    """

    snapshot: str | None = None

    def delivered(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each transaction, whether its events of these rows are delivered."""
        if self.snapshot is None:
            return np.zeros(len(xids), dtype=np.bool_)
        return ~TransactionSnapshot.parse(self.snapshot).sees(xids)


def ended_below(snapshots: Sequence[str | None], xmin: int) -> bool:
    """Whether all of these chunks are read, and every transaction that began before a snapshot has ended.

    All transactions below ``xmin`` have ended, so those from ``xmin`` on are seen by none of the snapshots.
    """
    return all(text is not None and TransactionSnapshot.parse(text).xmax <= xmin for text in snapshots)
