"""Headway: whether the batches of a query still bring something new, or the query runs for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..enumerator import SplitEnumerator
from ..errors import ContractError
from ..snapshots.planned_subtask import PlannedSubtask
from ..source import Source
from ..values.differences import shown

MOST_IDLE_BATCHES = 20
"""A query has come to no end if so many batches in a row bring nothing new."""
MOST_SMALL_BATCHES = 1000
"""The same for batches that a limit keeps small, if positions move: a part of a log may be without rows."""
_LIMITS = (
    "maxFilesPerTrigger", "maxRowsPerTrigger", "maxBytesPerTrigger",
    "maxRowsPerSplit", "maxBytesPerSplit", "maxSplitDuration",
)  # fmt: skip


@dataclass(slots=True)
class Headway:
    """What the batches of a query have read so far.

    A batch brings something new if it has rows and reads what no batch before it has read, or if it reads a
    split that no batch before it has read. An empty file is new; a position that moves without rows is not.
    """

    source: Source
    _plans: set[Hashable] = field(default_factory=set, init=False)
    _split_ids: set[str] = field(default_factory=set, init=False)
    _idle: int = field(default=0, init=False)

    def made(
        self,
        tasks: Sequence[PlannedSubtask],
        splits_of: Callable[[Sequence[PlannedSubtask]], list[Any]],
        *,
        has_rows: bool,
    ) -> None:
        """A batch has ended.

        Args:
            tasks: its tasks. splits_of: decodes their splits.

        Raises:
            ContractError: too many batches in a row have brought nothing new.
        """
        key = hash(tuple(task.splits for task in tasks))
        moves = key not in self._plans
        is_new = has_rows and moves
        self._plans.add(key)
        if not has_rows:
            ids = {split.split_id for split in splits_of(tasks)}
            is_new = not ids <= self._split_ids
            self._split_ids |= ids
        self._idle = 0 if is_new else self._idle + 1
        is_small = moves and any(self.source.options.get(name) is not None for name in _LIMITS)
        if self._idle >= (MOST_SMALL_BATCHES if is_small else MOST_IDLE_BATCHES):
            raise self._endless(splits_of(tasks), has_rows=has_rows)

    def _endless(self, splits: list[Any], *, has_rows: bool) -> ContractError:
        enumerator, reader = self.source.enumerator_type, self.source.reader_type
        many = f"{self._idle} batches in a row have brought nothing new"
        if not splits:
            own = enumerator.wants_checkpoint is not SplitEnumerator.wants_checkpoint
            method = f"wants_checkpoint of {enumerator.__qualname__} returns True each time"
            return ContractError(
                f"{many}, and had no split: {method if own else 'something asks for a checkpoint each time'}",
                remedy="return True only while the state has something that is not stored yet",
            )
        last = splits[-1]
        where = f"the last one has read split {last.split_id!r:.300} again ({shown(last)})"
        if not has_rows:
            return ContractError(
                f"{many}: they had no rows, and {where}",
                remedy="let a position move only when there is something to read: bound_split then returns "
                "None, and a reader that has caught up yields no Progress",
            )
        if enumerator.bound_split is not SplitEnumerator.bound_split:
            remedy = (
                f"let the rest that bound_split of {enumerator.__qualname__} returns begin where read ends"
            )
        else:
            remedy = (
                f"let each Progress of {reader.__qualname__} be behind the rows before it, and let "
                f"{enumerator.__qualname__} assign each split once, also after a restart"
            )
        return ContractError(f"{many}: {where}", remedy=remedy)
