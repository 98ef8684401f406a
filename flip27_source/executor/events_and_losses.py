"""What an attempt of a subtask collects for its report besides the results of splits (R4, R12)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..coordination.data_losses import DataLoss, described
from ..coordination.split_rules import SplitErrorPolicy
from ..coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from ..errors import AttemptError, DataLossError, QuarantineError, kept_words
from ..events import SourceEvent
from ..file_systems.secrets_in_texts import hidden_of_store
from ..log import LOG
from ..options import Options
from ..split import size_of

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the parts of one task: its report contains them, and the driver reads it as a whole."""


class QuarantinedParts:
    """Collects the parts that the reader cannot read.

    Args:
        first: the report of an earlier attempt, if there is one.
        check: raises if a part cannot be stored.
        options: of the source; no text has a secret of its store.
    """

    def __init__(
        self,
        policy: SplitErrorPolicy,
        first: SubtaskReport[Any] | None,
        check: Callable[[Any], None],
        options: Options,
    ) -> None:
        self._hide = hidden_of_store(options).in_text
        self._limit = policy.max_quarantined
        self._has_first = first is not None
        self.before = frozenset(
            item.split_id
            for item in (() if first is None else first.results)
            if item.status is SplitStatus.FAILED and item.position is not None
        )
        """The parts that the earlier attempt quarantined."""
        self._check = check
        self.taken: dict[str, tuple[str, int, SplitResult[Any]]] = {}
        """The split and bytes of each part, and its result; by its id: a split may be read more than once."""

    def take(self, part: Any, error: str, split_id: str) -> None:
        """Quarantine a part of a split.

        Raises:
            QuarantineError, AttemptError: as ``SourceReaderContext.quarantine``.
        """
        part_id = part.split_id
        if self._has_first and part_id not in self.before:
            raise AttemptError(
                f"the attempt that reported first has delivered {part_id!r}, and this attempt cannot read "
                f"it: {error}",
                remedy="restore the settings that it was read with, such as the schema: its rows may already "
                "be in the sink, so the batch can only be repeated with them",
            )
        self._check(part)
        error = kept_words(self._hide(error))
        if part_id not in self.taken:
            LOG.warning("%s cannot be read and is quarantined: %s", part_id, error)
        self.taken[part_id] = (
            split_id,
            size_of(part).bytes or 0,
            SplitResult(split_id=part_id, status=SplitStatus.FAILED, position=part, error=error, attempts=1),
        )
        size = sum(of_part for _, of_part, _ in self.taken.values())
        if len(self.taken) > self._limit or size > MOST_BYTES:
            raise QuarantineError(
                f"one task has quarantined {len(self.taken)} parts of splits, more than "
                f"maxQuarantinedSplits={self._limit}, or more than {MOST_BYTES} bytes ({size}); the last one "
                f"is {part_id!r}: {error}",
                remedy="fix the cause and restart the query, or raise maxQuarantinedSplits; no row of "
                "the batch was delivered",
            )

    def results(self, not_read: Collection[str]) -> tuple[SplitResult[Any], ...]:
        """The results of the parts, without those of splits and ranges that were ``not_read``."""
        return tuple(result for owner, _, result in self.taken.values() if owner not in not_read)


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

    Args:
        options: of the source; no text has a secret of its store.

    Attributes:
        losses: each loss once, even if its split was read more than once.
        lost_splits: the results of splits that were lost after the report that counts.
    """

    def __init__(self, policy: SplitErrorPolicy, checkpoint_id: int, options: Options) -> None:
        self._hide = hidden_of_store(options).in_text
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
        text = kept_words(self._hide(what))
        loss = DataLoss(checkpoint_id=self._checkpoint_id, split_id=split_id, what=text)
        if loss not in self.losses:
            LOG.warning("data was lost before it was read: %s", loss)
            self.losses.append(loss)
