"""The ledger: where every split is, from its assignment on.

A split is in exactly one place: unknown to us, with the enumerator, waiting in a gateway, in the
plan of the pending checkpoint, live (unbounded, position known), or finished. Before assignment
the enumerator owns it, afterwards the ledger (Flink SplitAssignmentTracker). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from ..errors import ContractError, ProtocolError
from ..split import SplitT


class Ledger(Generic[SplitT]):
    """Accounts of the splits that are in flight; finished ones are only counted."""

    __slots__ = ("_in_flight", "_live", "_planned", "_planned_id", "finished")

    def __init__(self, *, live: Iterable[SplitT] = (), finished: int = 0) -> None:
        self._live: dict[str, SplitT] = {split.split_id: split for split in live}
        self._in_flight: set[str] = set(self._live)
        self._planned: tuple[str, ...] = ()
        self._planned_id: int | None = None
        self.finished = finished

    @property
    def live(self) -> tuple[SplitT, ...]:
        """Unbounded splits, at the position from which they go on."""
        return tuple(self._live.values())

    def assigned(self, split: SplitT) -> None:
        """The enumerator handed ``split`` out.

        Raises:
            ContractError: a split with this id is already in flight.
        """
        split_id = split.split_id
        if split_id in self._in_flight:
            raise ContractError(
                f"split {split_id!r} was assigned while a split with this id is still in flight",
                remedy="give every split its own split_id and assign each once",
            )
        self._in_flight.add(split_id)

    def lives_on(self, split: SplitT) -> None:
        """An unbounded split goes on from this position after the batch."""
        self._live[split.split_id] = split

    def ends(self, split_id: str) -> None:
        """An unbounded split has no rest: its last range is in the plan."""
        self._live.pop(split_id, None)

    def planned(self, checkpoint_id: int, splits: Iterable[SplitT]) -> None:
        """These splits are the plan of ``checkpoint_id``."""
        if self._planned_id is not None:
            raise ProtocolError(f"checkpoint {checkpoint_id} was planned while {self._planned_id} is pending")
        self._planned_id = checkpoint_id
        self._planned = tuple(split.split_id for split in splits)
        self.finished += sum(split_id not in self._live for split_id in self._planned)

    def completed(self, checkpoint_id: int) -> None:
        """The batch of ``checkpoint_id`` is done: its splits are finished, live ones go on."""
        if self._planned_id is not None and self._planned_id <= checkpoint_id:
            self._in_flight.difference_update(s for s in self._planned if s not in self._live)
            self._planned = ()
            self._planned_id = None
