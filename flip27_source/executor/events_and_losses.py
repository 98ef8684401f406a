"""What an attempt of a subtask collects for its report besides the results of splits (R4, R12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..coordination.data_losses import LONGEST_TEXT, DataLoss, described
from ..coordination.split_errors import SplitErrorPolicy
from ..coordination.subtask_reports import SplitResult
from ..errors import DataLossError
from ..events import SourceEvent
from ..log import LOG
from .quarantined_parts import QuarantinedParts


class SentEvents:
    """Collects events; those of a try to read a split whose rows are not delivered are taken back.

    Args:
        check: raises if an event cannot be stored.
        parts: the parts that the reader quarantines; they are taken back together with the events.
    """

    def __init__(
        self, check: Callable[[SourceEvent], None] | None = None, parts: QuarantinedParts | None = None
    ) -> None:
        self._check = check
        self._parts = parts
        self._events: list[SourceEvent] = []

    def send(self, event: SourceEvent) -> None:
        if self._check is not None:
            self._check(event)  # refused here, so that the traceback shows the sender
        self._events.append(event)

    def mark(self) -> tuple[int, int]:
        """The current place, for ``take_back``."""
        return len(self._events), 0 if self._parts is None else len(self._parts.taken)

    def take_back(self, mark: tuple[int, int]) -> None:
        del self._events[mark[0] :]
        if self._parts is not None:
            for part_id in list(self._parts.taken)[mark[1] :]:
                del self._parts.taken[part_id]

    @property
    def events(self) -> tuple[SourceEvent, ...]:
        return tuple(self._events)


class LossReports:
    """Collects losses if the options say that they are reported, and raises them if they are fatal.

    Attributes:
        losses: each loss once, even if its split was read more than once.
        lost_splits: the results of splits that were lost after the report that counts.
    """

    def __init__(self, policy: SplitErrorPolicy, checkpoint_id: int) -> None:
        self._is_fatal = not policy.reports_loss
        self._checkpoint_id = checkpoint_id
        self.losses: list[DataLoss] = []
        self.lost_splits: list[SplitResult[Any]] = []

    def report(self, what: str, split_id: str | None, remedy: str | None = None) -> None:
        """Record that data is lost.

        Raises:
            DataLossError: ``onDataLoss`` is ``fail``.
        """
        if self._is_fatal:
            raise DataLossError(described(what, split_id), remedy=remedy)
        loss = DataLoss(checkpoint_id=self._checkpoint_id, split_id=split_id, what=what[:LONGEST_TEXT])
        if loss not in self.losses:
            LOG.warning("data was lost before it was read: %s", loss)
            self.losses.append(loss)
