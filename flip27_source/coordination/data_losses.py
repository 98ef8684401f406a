"""DataLosses: data that was lost before it was read, as reported by enumerators and readers (R12).

Pure. This is the only part of the coordinator that other threads call: discovery reports from its own thread.
"""

from __future__ import annotations

from collections import deque

import msgspec

from ..errors import kept_words

LOSSES_KEPT = 20
"""How many losses are kept with their text; all are counted."""


class DataLoss(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"checkpoint_id": "checkpoint", "split_id": "split"},
):
    """One loss, as documents and reports store it, too.

    Attributes:
        checkpoint_id: the checkpoint whose batch continues after it.
        split_id: the split that has lost data; None if the loss does not belong to a single split.
        what: the lost data.
    """

    checkpoint_id: int = 0
    split_id: str | None = None
    what: str

    def __str__(self) -> str:
        return described(self.what, self.split_id)


def described(what: str, split_id: str | None) -> str:
    """The text of a loss in errors and in the log."""
    return what if split_id is None else f"split {split_id!r}: {what}"


class DataLosses:
    def __init__(self, listed: tuple[DataLoss, ...] = (), count: int = 0) -> None:
        self.listed = listed
        self.count = count
        # Other threads append to it, which a deque allows.
        self._reported: deque[tuple[str, str | None]] = deque()

    def report(self, what: str, split_id: str | None) -> None:
        """Record a loss for the next ``settle``. May be called from any thread."""
        self._reported.append((what, split_id))

    def settle(self, checkpoint_id: int) -> list[DataLoss]:
        """Count the losses reported since the last call; return those that were not known."""
        new = []
        for _ in range(len(self._reported)):
            what, split_id = self._reported.popleft()
            loss = DataLoss(checkpoint_id=checkpoint_id, split_id=split_id, what=kept_words(what))
            if self.add(loss, may_repeat=True):
                new.append(loss)
        return new

    def add(self, loss: DataLoss, *, may_repeat: bool) -> bool:
        """Count a loss; return False if it may be reported more than once, and is already listed.

        A loss is reported again when ``bound_split`` is called again for the same batch, when a round of
        discovery is repeated after a restart, and until the reader has read on.
        """
        known = ((item.split_id, item.what) for item in self.listed)
        if may_repeat and (loss.split_id, loss.what) in known:
            return False
        self.listed = (*self.listed, loss)[-LOSSES_KEPT:]
        self.count += 1
        return True
