"""Batch: the splits and events for the plan of one checkpoint. Pure."""

from __future__ import annotations

from typing import Generic

from ..errors import ContractError
from ..events import SourceEvent
from ..split import SplitSize, SplitT
from .batch_limits import BatchBudget
from .context import CoordinatorSettings
from .packing import MIN_PARTITION_COST_BYTES, Assignment, Plan, cost_bytes, cost_of_naming, pack


class Batch(Generic[SplitT]):
    """Splits, free or pinned to a subtask, and events; ``owners`` are the ids of the splits."""

    __slots__ = ("_events", "_free", "_pinned", "_subtasks", "budget", "owners")

    def __init__(self, budget: BatchBudget) -> None:
        self.budget = budget
        self.owners: list[str] = []
        self._free: list[SplitT] = []
        self._pinned: list[tuple[int, SplitT]] = []
        self._events: dict[int, list[SourceEvent]] = {}
        self._subtasks = 1

    def add(self, split: SplitT, size: SplitSize, subtask_id: int | None, owner: str) -> None:
        """Add a split; ``subtask_id`` is None if any subtask may read it.

        Raises:
            ContractError: a number in its size is not a whole number of at least 0.
        """
        if not size.has_counts:
            raise ContractError(
                f"the size of split {split.split_id!r:.300} is invalid: {size}",
                remedy="give files, rows and bytes as whole numbers, 0 or more; rows and bytes may be None "
                "if they are not known",
            )
        self.budget.take(size)
        self.owners.append(owner)
        if subtask_id is None:
            self._free.append(split)
        else:
            self._pinned.append((subtask_id, split))

    def add_events(self, subtask_id: int, events: list[SourceEvent]) -> None:
        if events:
            self._events.setdefault(subtask_id, []).extend(events)

    def wants_subtasks(self, least: int) -> None:
        """Plan at least this number of subtasks, if there are as many splits."""
        self._subtasks = max(self._subtasks, least)

    def plan(self, settings: CoordinatorSettings, *, each_apart: bool) -> Plan[SplitT]:
        """The plan of the batch; ``each_apart``: one subtask per split, while there are subtasks left."""
        packed = pack(
            self._free,
            self._pinned,
            parallelism=max(settings.parallelism, min(self._subtasks, len(self._free))),
            max_partition_bytes=settings.max_partition_bytes,
            min_partition_cost=1 if each_apart else MIN_PARTITION_COST_BYTES,
            # The number of bytes in a split does not count if the reader only names data.
            cost_of=cost_of_naming if settings.reader_type.reads_later else cost_bytes,
        )
        return Plan(
            assignments=tuple(
                Assignment(
                    subtask_id=subtask_id,
                    splits=tuple(packed.get(subtask_id, ())),
                    events=tuple(self._events.get(subtask_id, ())),
                )
                for subtask_id in sorted(packed.keys() | self._events.keys())
            ),
            reports=settings.reports,
        )

    def __bool__(self) -> bool:
        return bool(self._free or self._pinned or self._events)
