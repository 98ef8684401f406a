"""LossReports: the losses of data that one attempt of a subtask finds, for its report (R12)."""

from __future__ import annotations

import logging

from ..coordination.data_losses import LONGEST_TEXT, DataLoss, described
from ..coordination.split_errors import SplitErrorPolicy
from ..errors import DataLossError

_log = logging.getLogger("flip27_source")


class LossReports:
    """Collects losses if the options say that they are reported, and raises them if they are fatal.

    Attributes:
        losses: each loss once, even if its split was read more than once.
    """

    def __init__(self, policy: SplitErrorPolicy, checkpoint_id: int) -> None:
        self._is_fatal = not policy.reports_loss
        self._checkpoint_id = checkpoint_id
        self.losses: list[DataLoss] = []

    def report(self, what: str, split_id: str | None, remedy: str | None = None) -> None:
        """Record that data is lost.

        Raises:
            DataLossError: ``onDataLoss`` is ``fail``.
        """
        if self._is_fatal:
            raise DataLossError(described(what, split_id), remedy=remedy)
        loss = DataLoss(checkpoint_id=self._checkpoint_id, split_id=split_id, what=what[:LONGEST_TEXT])
        if loss not in self.losses:
            _log.warning("data was lost before it was read: %s", loss)
            self.losses.append(loss)
