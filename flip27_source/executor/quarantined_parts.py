"""QuarantinedParts: parts of splits that one attempt of a subtask cannot read, for its report (R5, R12)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..coordination.split_errors import SplitErrorPolicy
from ..coordination.subtask_reports import SplitResult, SplitStatus, SubtaskReport
from ..errors import AttemptError, QuarantineError, kept_words
from ..log import LOG
from ..split import size_of

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the parts of one task: its report contains them, and the driver reads it as a whole."""


class QuarantinedParts:
    """Collects the parts that the reader cannot read.

    Args:
        first: the report of an earlier attempt, if there is one.
        check: raises if a part cannot be stored.
    """

    def __init__(
        self, policy: SplitErrorPolicy, first: SubtaskReport[Any] | None, check: Callable[[Any], None]
    ) -> None:
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
        if part_id not in self.taken:
            LOG.warning("%s cannot be read and is quarantined: %s", part_id, error)
        self.taken[part_id] = (
            split_id,
            size_of(part).bytes or 0,
            SplitResult(
                split_id=part_id,
                status=SplitStatus.FAILED,
                position=part,
                error=kept_words(error),
                attempts=1,
            ),
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
