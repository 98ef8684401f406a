"""BatchCollector: decides which splits, ranges and events are in the batch of a checkpoint. Pure.

It takes ranges that are read again first, then splits that wait in the queues, then those that the
enumerator assigns on request, then ranges of live splits, until a limit is reached (``batch_limits``). Of
splits that an enumerator with ``bound_split`` leaves whole, no more become live than one batch can read.
``packing`` decides how the batch is packed into tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Generic

from ..enumerator import BoundedRange, Budget, SplitEnumerator
from ..enumerator_context import Boundedness
from ..errors import ContractError
from ..event_time import event_time_of, place_of
from ..events import SourceEvent
from ..split import SplitSize, SplitT, size_of
from .alignment import Alignment
from .batch_limits import UNLIMITED, BatchBudget, Limits
from .context import CoordinatorContext, CoordinatorSettings
from .horizon import Reach
from .ledger import Ledger
from .packing import MIN_PARTITION_COST_BYTES, Assignment, Plan, cost_bytes, cost_of_naming, pack
from .shares import fair_ranges, used_of
from .split_rules import SplitRules
from .waiting_queues import WaitingQueues

Ranges = list[tuple[SplitT, BoundedRange[SplitT]]]
"""Live splits, each with what a batch reads of it."""

_FULL = 0.5
"""The part of its limits that a full batch uses at least: splits may not be cut at every row."""

_LEAST = Budget(files=1, rows=1, bytes=1)


class Batch(Generic[SplitT]):
    """Splits, free or pinned to a subtask, and events; ``owners`` are the ids of the splits."""

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

    def splits(self) -> list[SplitT]:
        return [*self._free, *(split for _, split in self._pinned)]

    def __bool__(self) -> bool:
        return bool(self._free or self._pinned or self._events)


@dataclass(eq=False, repr=False)
class BatchCollector(Generic[SplitT]):
    _enumerator: SplitEnumerator[SplitT]
    _context: CoordinatorContext[SplitT]
    _settings: CoordinatorSettings
    _queues: WaitingQueues[SplitT]
    _ledger: Ledger[SplitT]
    _rules: SplitRules[SplitT]
    _alignment: Alignment[SplitT] | None = None
    _divides_ranges: bool = field(init=False)
    _has_live: bool = field(init=False)
    _limits: Limits = field(default=UNLIMITED, init=False)
    # What live splits that are read whole take of a batch; None if this batch has not asked for it yet.
    _room: BatchBudget | None = field(default=None, init=False)
    # When a split whose reader had caught up is read again, by split id; None: not in this run.
    _resting: dict[str, int | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._divides_ranges = type(self._enumerator).divide_ranges is not SplitEnumerator.divide_ranges
        self._has_live = self._rules.cuts_splits or self._rules.reader_bounds_splits

    def collect(self, limits: Limits, steady_ms: int, *, is_last: bool = False) -> Batch[SplitT]:
        """The next batch; empty if there is nothing to read.

        Args:
            steady_ms: a time that never goes back: splits that rest are read again after ``pollInterval``.
            is_last: whether it is to hold all data, and no horizon ends it.
        """
        batch = Batch[SplitT](BatchBudget(limits))
        self._limits, self._room = limits, None
        self._read_again(batch)
        is_at_rest = False
        if self._alignment is not None:
            is_at_rest = not is_last and self._alignment.rests(steady_ms)
            if not is_at_rest:
                self._begin_horizon(batch, steady_ms, is_last=is_last)
        self._drain(batch)
        self._request_splits(batch)
        if not is_at_rest:
            self._read_on(batch, steady_ms, None if is_last else self._alignment)
        if self._alignment is not None:
            self._alignment.ended(steady_ms, is_empty=not batch)
        return batch

    def _begin_horizon(self, batch: Batch[SplitT], steady_ms: int, *, is_last: bool) -> None:
        """Find the horizon of whole splits; that of live splits is found when they are known."""
        assert self._alignment is not None
        reach: Reach | None = None
        fitting = 0
        if not is_last and not self._has_live:
            waiting, budget = self._waiting_whole(), copy.copy(batch.budget)
            reach, fitting = self._alignment.of_whole(waiting, budget, steady_ms)
        self._alignment.begin(reach, steady_ms, fitting)

    def reach(self, steady_ms: int) -> Reach:
        """How far the source could get in its next batch, with the limits of the newest one."""
        if self._alignment is None:
            return Reach()
        budget = BatchBudget(self._limits)
        if not self._has_live:
            return self._alignment.of_whole(self._waiting_whole(), budget, steady_ms)[0]
        live = self._ledger.live
        if self._rules.reader_bounds_splits:
            awake = dict.fromkeys(split.split_id for split in self._awake(live, steady_ms))
            return self._alignment.of_live(live, awake, (), steady_ms)
        # Not only what the enumerator calls readable: after a planning it may need time to know its times.
        cuts = fair_ranges(live, budget.left(), self._bounded)
        return self._reach_of_cuts(self._with_data(live, cuts), cuts, steady_ms)

    def _with_data(self, readable: Sequence[SplitT], cuts: Ranges[SplitT]) -> list[str]:
        """The live splits in which something waits, by their ranges; those without one are asked."""
        cut = {split.split_id for split, _ in cuts}
        others = (one for one in readable if one.split_id not in cut)
        return [*cut, *(one.split_id for one in others if self._bounded(one, Budget()) is not None)]

    def _reach_of_cuts(self, with_data: Iterable[str], cuts: Ranges[SplitT], steady_ms: int) -> Reach:
        """How far live splits get with these ranges."""
        assert self._alignment is not None
        waiting: dict[str, BoundedRange[SplitT] | None] = dict.fromkeys(with_data)
        waiting |= {split.split_id: cut for split, cut in cuts}
        return self._alignment.of_live(self._ledger.live, waiting, self._waiting_whole(), steady_ms)

    def _waiting_whole(self) -> Iterator[SplitT]:
        """The splits that wait, in order: those that were postponed, and those that were not requested."""
        yield from (item.split for item in self._queues.splits())
        yield from self._enumerator._waiting_in_order()

    def rest(self, split_ids: Iterable[str], since_ms: int) -> None:
        """In the batch that was planned at ``since_ms``, the reader found no more data in these splits."""
        bounded = self._settings.boundedness is Boundedness.BOUNDED
        until = None if bounded else since_ms + self._settings.poll_interval_ms
        self._resting.update(dict.fromkeys(split_ids, until))

    def _read_again(self, batch: Batch[SplitT]) -> None:
        """Add ranges that were not read in their batch, as they are; one of each id, in order.

        Their splits continue after them: a split of which a range still waits is not in this batch.
        """
        postponed: list[SplitT] = []
        taken: set[str] = set()
        for cut in self._ledger.ranges:
            result_id, size = self._rules.result_id(cut), size_of(cut)
            if result_id in taken or not batch.budget.fits(size):
                postponed.append(cut)
                continue
            taken.add(result_id)
            batch.add(cut, size, self._ledger.pin_of(cut.split_id), cut.split_id)
        self._ledger.ranges = postponed

    def _drain(self, batch: Batch[SplitT]) -> int:
        """Move events, and splits that fit, from the queues to the batch; return the number of splits.

        Queues take turns with one split each, and the first split in turn always fits into an empty batch, so
        no split waits for ever.
        """
        queues = self._queues
        for subtask_id in queues.turns:
            if subtask_id is not None:
                batch.add_events(subtask_id, queues.take_events(subtask_id))
        moved = 0
        waiting = list(queues.turns)
        while waiting:
            have_more: list[int | None] = []
            for subtask_id in waiting:
                if self._move_split(subtask_id, batch):
                    moved += 1
                    if subtask_id in queues.turns:
                        have_more.append(subtask_id)
            waiting = have_more
        return moved

    def _move_split(self, subtask_id: int | None, batch: Batch[SplitT]) -> bool:
        """Move the first split of a queue to the batch, if it fits."""
        queues = self._queues
        split = queues.turns[subtask_id].peek()
        if split is None:
            # The queue had only events, which are already in the batch.
            del queues.turns[subtask_id]
            return False
        if not self._planned(split, subtask_id, batch):
            return False
        queues.take_split(subtask_id)
        return True

    def _planned(self, split: SplitT, subtask_id: int | None, batch: Batch[SplitT]) -> bool:
        """Add a split to the batch, if it fits; a split that continues from batch to batch becomes live."""
        cuts_splits = self._rules.cuts_splits
        carries_data = cuts_splits and self._enumerator.carries_data(split)
        if self._has_live and not carries_data:
            if self._is_whole(split) and not self._takes_room(split):
                return False
            self._ledger.begins(split, subtask_id)
            return True
        size = size_of(split)
        if not batch.budget.fits(size) or (carries_data and not batch.budget.carries(size)):
            return False
        if self._alignment is not None and not carries_data:
            if self._alignment.keeps(split):
                return False
            self._alignment.handed_out(split)
        batch.add(split, size, subtask_id, split.split_id)
        return True

    def _is_whole(self, split: SplitT) -> bool:
        """Whether ``bound_split`` would now read a split as a whole."""
        if not self._rules.may_be_whole(split):
            return False
        cut = self._bounded(split, Budget())
        return cut is not None and cut.rest is None

    def _takes_room(self, split: SplitT) -> bool:
        """Take room for a split that is read whole, if a batch can read it besides those that are live."""
        if self._room is None:
            self._room = BatchBudget(self._limits)
            for live in filter(self._is_whole, self._ledger.live):
                self._room.take(size_of(live))
        size = size_of(split)
        fits = self._room.fits(size)
        if fits:
            self._room.take(size)
        return fits

    def _request_splits(self, batch: Batch[SplitT]) -> None:
        """Request splits for each subtask in turn, until the budget is used up or no subtask gets one.

        Unbounded splits cost nothing before they are bounded: all of them are requested, so that live
        splits cannot starve those that the enumerator still holds. Splits that are read whole are requested
        until one of them has no room.
        """
        turns = self._queues.turns
        asking = list(range(self._settings.parallelism))
        while asking:
            got_some = []
            for subtask_id in asking:
                if batch.budget.exhausted or turns or self._keeps_the_next():
                    return
                self._enumerator.handle_split_request(subtask_id)
                if turns and self._drain(batch):
                    got_some.append(subtask_id)
            asking = got_some

    def _keeps_the_next(self) -> bool:
        """Whether the next split is held: then it stays with the enumerator, which may find earlier ones."""
        alignment = self._alignment
        if alignment is None or alignment.horizon is None:
            return False
        following = next(self._enumerator._waiting_in_order(), None)
        return following is not None and alignment.keeps(following)

    def _read_on(self, batch: Batch[SplitT], steady_ms: int, alignment: Alignment[SplitT] | None) -> None:
        """Add ranges of live splits to the batch, within its limits and its horizon."""
        if self._rules.reader_bounds_splits:
            self._read_pages(batch, steady_ms, alignment)
            return
        readable, left = self._readable(batch.owners), batch.budget.left()
        cuts = fair_ranges(readable, left, self._bounded)
        # On an idle stream this is called many times a second.
        if alignment is not None and cuts:
            with_data = self._with_data(readable, cuts)
            alignment.begin(self._reach_of_cuts(with_data, cuts, steady_ms), steady_ms)
            cuts = self._within_horizon(readable, cuts, left, with_data, steady_ms, alignment)
        free: list[SplitT] = []
        for split, cut in cuts:
            pinned_to = self._ledger.pin_of(split.split_id)
            for part in self._to_its_end(cut) if self._settings.one_batch else (cut,):
                if pinned_to is None and self._divides_ranges:
                    free.append(part.read)
                else:
                    batch.add(part.read, size_of(part.read), pinned_to, split.split_id)
                self._ledger.moved(split.split_id, part.rest)
        if free:
            self._add_divided(free, batch)

    def _readable(self, planned: Iterable[str]) -> Sequence[SplitT]:
        """The live splits that may be read; not those of which a range is ``planned``, or still waits."""
        readable = self._enumerator.readable(self._ledger.live)
        if busy := {cut.split_id for cut in self._ledger.ranges}.union(planned):
            readable = [split for split in readable if split.split_id not in busy]
        return readable

    def _until(
        self, split: SplitT, cut: BoundedRange[SplitT], latest_us: int | None
    ) -> BoundedRange[SplitT] | None:
        """A range of a split, or less of it: what is not later than this time."""
        if latest_us is None:
            return cut
        size = size_of(cut.read)
        return self._bounded(
            split, Budget(rows=size.rows or None, bytes=size.bytes or None, latest_us=latest_us)
        )

    def _add_divided(self, ranges: list[SplitT], batch: Batch[SplitT]) -> None:
        """Add ranges in the parts that the enumerator cuts them into, if the parts have ids of their own."""
        division = self._enumerator.divide_ranges(ranges)
        self._context.check_division(ranges, division)
        parts = division.parts
        if not self._settings.one_batch and len(set(map(self._rules.result_id, parts))) < len(parts):
            # Reports could not tell which of them was not read.
            parts = ranges
        for part in parts:
            batch.add(part, size_of(part), None, part.split_id)
        batch.wants_subtasks(division.subtasks)

    def _read_pages(self, batch: Batch[SplitT], steady_ms: int, alignment: Alignment[SplitT] | None) -> None:
        """Add live splits that the reader bounds, unless they rest or are held back."""
        awake = self._awake(self._ledger.live, steady_ms)
        if alignment is not None:
            alignment.begin(self.reach(steady_ms), steady_ms)
            free = [split for split in awake if not alignment.holds(split)]
            awake, alignment.paused = free, len(awake) - len(free)
        for split in awake:
            if batch.budget.exhausted:
                return
            self._resting.pop(split.split_id, None)
            batch.add(split, size_of(split), self._ledger.pin_of(split.split_id), split.split_id)

    def _awake(self, live: Iterable[SplitT], steady_ms: int) -> list[SplitT]:
        """The splits that the reader bounds and in which it has not just found the end."""
        until = ((split, self._resting.get(split.split_id, 0)) for split in live)
        return [split for split, until_ms in until if until_ms is not None and until_ms <= steady_ms]

    def _within_horizon(
        self,
        readable: Sequence[SplitT],
        by_limits: Ranges[SplitT],
        left: Budget,
        with_data: Sequence[str],
        steady_ms: int,
        alignment: Alignment[SplitT],
    ) -> Ranges[SplitT]:
        """The ranges of live splits within the horizon, which follows from those by the limits alone."""
        if alignment.horizon is None:
            return by_limits
        freed: dict[str, BoundedRange[SplitT] | None] = {}
        ordered = self._latest_in_order(readable)
        # All of these are asked for at each horizon that is tried.
        held_after = {split.split_id: alignment.held_after(split) for split in readable} | ordered

        def bound(split: SplitT, budget: Budget) -> BoundedRange[SplitT] | None:
            if split.split_id in freed:
                return freed[split.split_id]
            return self._enumerator.bound_split(split, budget)

        def cut() -> Ranges[SplitT]:
            assert alignment.horizon is not None
            latest_us = alignment.horizon.latest_us
            free = [
                split
                for split in readable
                if split.split_id in freed
                or (after := held_after[split.split_id]) is None
                or after <= latest_us
            ]
            return fair_ranges(free, replace(left, latest_us=latest_us), bound)

        def stretched() -> tuple[float, Callable[[], Reach]]:
            cuts = cut()
            return used_of(left, cuts), lambda: self._reach_of_cuts(with_data, cuts, steady_ms)

        # Otherwise it is not the limits that end the slowest.
        if used_of(left, by_limits) >= _FULL:
            alignment.stretch(stretched)
        within = cut()
        cuts = {split.split_id: cut for split, cut in by_limits}
        later = set(list(ordered)[1:])
        one_of = [split for split in readable if split.split_id not in later]
        limited = [split for split, _ in by_limits if split.split_id not in later]
        unit = alignment.unit(one_of, limited, [split for split, _ in within])
        for split, step in [] if unit is None else fair_ranges([unit], _LEAST, self._enumerator.bound_split):
            freed[split.split_id] = self._until(split, step, alignment.strict_us)
            within = cut()
        for split, found in within:
            self._context.check_range(split, found)
        alignment.paused = len(cuts.keys() - {split.split_id for split, _ in within})
        return within

    def _latest_in_order(self, live: Iterable[SplitT]) -> dict[str, int]:
        """Of live splits that are read whole, in event-time order, the latest time up to each: one that is
        held holds those behind it."""
        if not self._enumerator._read_now(())[0]._by_event_time:
            return {}
        timed = [(split.split_id, times.latest_us) for split in sorted(live, key=place_of)
                 if (times := event_time_of(split))]  # fmt: skip
        return dict(zip([name for name, _ in timed], accumulate((at for _, at in timed), max), strict=True))

    def _bounded(self, split: SplitT, budget: Budget) -> BoundedRange[SplitT] | None:
        cut = self._enumerator.bound_split(split, budget)
        if cut is not None:
            self._context.check_range(split, cut)
        return cut

    def _to_its_end(self, first: BoundedRange[SplitT]) -> Iterator[BoundedRange[SplitT]]:
        """All ranges of a split, because no batch follows this one."""
        cut: BoundedRange[SplitT] | None = first
        while cut is not None:
            yield cut
            cut = None if cut.rest is None else self._bounded(cut.rest, Budget())
