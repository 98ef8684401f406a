"""The ledger: tracks every split from its assignment on.

A split is in exactly one place: not discovered, with the enumerator, waiting in a gateway, in the plan of
the pending checkpoint, live (unbounded, position known), quarantined, or finished. Before assignment the
enumerator owns the split, afterwards the ledger does (Flink SplitAssignmentTracker). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from ..errors import ContractError, ProtocolError, QuarantineError
from ..split import SplitT
from .checkpoints import LedgerState, QuarantinedSplit, WaitingEvent, WaitingSplit
from .data_losses import DataLosses

IGNORED_LISTED = 20
"""Number of skipped splits that are kept by name; all are counted."""


class Ledger(Generic[SplitT]):
    """Tracks the splits in flight; finished splits are only counted."""

    def __init__(self, restored: LedgerState[SplitT] | None = None) -> None:
        state: LedgerState[SplitT] = restored or LedgerState()
        self._live: dict[str, SplitT] = {split.split_id: split for split in state.live}
        self._pins: dict[str, int] = dict(state.pins)
        self._in_flight: set[str] = {*self._live, *(cut.split_id for cut in state.ranges)}
        self._planned: tuple[str, ...] = ()
        self._planned_id: int | None = None
        self.quarantined: list[QuarantinedSplit[SplitT]] = list(state.quarantined)
        self._quarantined_ids = {item.split.split_id for item in self.quarantined}
        self.ignored: tuple[QuarantinedSplit[SplitT], ...] = state.ignored
        self.ignored_count = state.ignored_count
        self.losses = DataLosses(state.losses, state.loss_count)
        self.finished = state.finished
        self.ranges: list[SplitT] = list(state.ranges)
        """Ranges that are read again as they are, before their splits continue."""

    @property
    def live(self) -> tuple[SplitT, ...]:
        """Unbounded splits, at the position where reading continues."""
        return tuple(self._live.values())

    def is_live(self, split_id: str) -> bool:
        return split_id in self._live

    def state(
        self, *, waiting: tuple[WaitingSplit[SplitT], ...], events: tuple[WaitingEvent, ...]
    ) -> LedgerState[SplitT]:
        """The ledger as a value, with the splits and events that wait in the gateways."""
        return LedgerState(
            live=self.live,
            pins=dict(self._pins),
            waiting=waiting,
            ranges=tuple(self.ranges),
            events=events,
            quarantined=tuple(self.quarantined),
            ignored=self.ignored,
            ignored_count=self.ignored_count,
            losses=self.losses.listed,
            loss_count=self.losses.count,
            finished=self.finished,
        )

    def pin_of(self, split_id: str) -> int | None:
        """The subtask that a live split stays with; None if it may move."""
        return self._pins.get(split_id)

    def assigned(self, split: SplitT) -> None:
        """The enumerator assigned ``split``.

        Raises:
            ContractError: a split with this id is already in flight.
        """
        split_id = split.split_id
        if split_id in self._in_flight:
            raise ContractError(
                f"split {split_id!r} was assigned while a split with this id is still in flight",
                remedy="give every split its own split_id and assign each split once",
            )
        self._in_flight.add(split_id)

    def begins(self, split: SplitT, subtask_id: int | None) -> None:
        """An unbounded split becomes live; ``subtask_id``: the subtask that it stays with, if any."""
        self._live[split.split_id] = split
        if subtask_id is not None:
            self._pins[split.split_id] = subtask_id

    def moved(self, split_id: str, rest: SplitT | None) -> None:
        """A range of an unbounded split is in the plan; ``rest`` is None if it was the last range.

        The rest goes to the end of the queue: if limits end a batch early, the next batch starts with
        other splits.
        """
        self._live.pop(split_id, None)
        if rest is None:
            self._pins.pop(split_id, None)
        else:
            self._live[split_id] = rest

    def planned(self, checkpoint_id: int, split_ids: Iterable[str]) -> None:
        """The plan of ``checkpoint_id`` consists of these splits, or ranges of them."""
        if self._planned_id is not None:
            raise ProtocolError(f"checkpoint {checkpoint_id} was planned while {self._planned_id} is pending")
        self.restores_plan(checkpoint_id, split_ids)
        self.finished += len(set(self._planned).difference(self._live, (cut.split_id for cut in self.ranges)))

    def restores_plan(self, checkpoint_id: int, split_ids: Iterable[str]) -> None:
        """Restore the plan of the checkpoint that this ledger was restored from; it is already counted."""
        self._planned_id = checkpoint_id
        self._planned = tuple(split_ids)
        self._in_flight.update(self._planned)

    def ended(self, split_id: str) -> None:
        self.moved(split_id, None)
        self.finished += 1

    def taken_back(self, split_id: str) -> None:
        """A split of the plan was not read: it is neither in flight nor finished."""
        if split_id in self._live:
            self.moved(split_id, None)
        else:
            self.finished -= 1
        self._in_flight.discard(split_id)

    def range_unread(self, cut: SplitT) -> None:
        """A range of the plan was not read: it is read again as it is, before the split continues."""
        if cut.split_id not in self._live and all(cut.split_id != other.split_id for other in self.ranges):
            self.finished -= 1
        self.ranges.append(cut)

    def quarantine(self, item: QuarantinedSplit[SplitT], *, is_range: bool) -> None:
        """Quarantine a split of the plan, or a part: a range that the enumerator has cut, or a record.

        The split that a part belongs to continues after it. A part that is quarantined again, because the
        position of its split was moved back, is listed once.
        """
        split_id = item.split.split_id
        if not is_range:
            self.taken_back(split_id)
        elif split_id in self._quarantined_ids:
            self.quarantined = [known for known in self.quarantined if known.split != item.split]
        self._quarantined_ids.add(split_id)
        self.quarantined.append(item)

    def check_quarantine(self, most: int) -> None:
        """Raise QuarantineError if more splits are quarantined than ``maxQuarantinedSplits``."""
        count = len(self.quarantined)
        if count > most:
            last = self.quarantined[-1]
            raise QuarantineError(
                f"{count} splits cannot be read and are quarantined, more than "
                f"maxQuarantinedSplits={most}; the last one is {last.split.split_id!r}: {last.error}",
                remedy="fix the cause, or raise maxQuarantinedSplits and restart the query; or retry or drop "
                "quarantined splits (flip27 edit quarantine), which takes effect at the restart. The "
                "quarantined splits are in the state, and none of their rows were delivered",
            )

    def ignore(self, item: QuarantinedSplit[SplitT], *, is_range: bool) -> None:
        """Skip a split or range because of an option: it is counted, and the last ones are kept by name."""
        if not is_range:
            self.taken_back(item.split.split_id)
        self.ignored = (*self.ignored, item)[-IGNORED_LISTED:]
        self.ignored_count += 1

    def completed(self, checkpoint_id: int) -> None:
        """The batch of ``checkpoint_id`` is complete: its splits are finished, except for live splits."""
        if self._planned_id is not None and self._planned_id <= checkpoint_id:
            unread = {cut.split_id for cut in self.ranges}
            self._in_flight.difference_update(
                split_id
                for split_id in self._planned
                if split_id not in self._live and split_id not in unread
            )
            self._planned = ()
            self._planned_id = None
