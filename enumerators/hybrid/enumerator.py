"""The hybrid enumerator: a chain of sources, each read to its end before the next one starts (FLIP-150).

All parts but the last are read as in a bounded run. When a part has nothing left, and a second look finds
nothing, the next one is made, with the place where the former has ended in its options; that place and the
first splits of the next part are in one checkpoint, so no crash separates them. A part that has ended is
kept: its actions may still be due, and a split of it may be retried.
"""

from __future__ import annotations

import datetime as dt
import functools
import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from flip27_source.discovery import DiscoveringEnumerator
from flip27_source.enumerator import Backlog, BoundedRange, Budget, Division, SourceEnd, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerators.hybrid.checks import ChainChecks
from flip27_source.enumerators.hybrid.context import PartContext
from flip27_source.enumerators.hybrid.hooks import ChainHooks
from flip27_source.enumerators.hybrid.options import HYBRID_OPTIONS, SWITCH_OVERLAP
from flip27_source.enumerators.hybrid.parts import (
    ChainState,
    Part,
    PartAction,
    PartSplit,
    joint_version,
    parts_of,
    state_type_of,
)
from flip27_source.enumerators.hybrid.switch import BEGINNING, Switch
from flip27_source.errors import OptionError
from flip27_source.event_time import EventTimeRange, event_time_of, microseconds_of
from flip27_source.log import LOG
from flip27_source.options import Option, Options
from flip27_source.source_options import DISCOVERY_RETRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class _MadePart:
    part: Part
    context: PartContext
    options: Options
    enumerator: SplitEnumerator[Any]


class HybridEnumerator(ChainHooks, ChainChecks, SplitEnumerator[PartSplit]):
    """Reads one part after another; ``composed`` makes its class for given parts."""

    options: ClassVar[tuple[Option[Any], ...]] = HYBRID_OPTIONS
    default_reader: ClassVar[str | None] = "hybrid"

    @staticmethod
    def now_us() -> int:
        """The time of the driver, in microseconds since the epoch; the simulator replaces it."""
        return time.time_ns() // 1000

    @classmethod
    def composed(cls, raw_options: Mapping[str, str]) -> type[HybridEnumerator]:
        return _class_for(parts_of(raw_options))

    def __init__(
        self, context: SplitEnumeratorContext[PartSplit], options: Options, state: ChainState | None = None
    ) -> None:
        super().__init__(context, options, state)
        if context.reads_once:
            raise OptionError(
                "a chain of sources (enumerator hybrid) cannot be read in one batch, because a source starts "
                "where the one before it has ended",
                remedy="use spark.readStream, with trigger(availableNow=True) if the run should end",
            )
        state = self.state_type() if state is None else state
        self._switches = list(state.switches)
        self._last = state.last
        self._began_us = state.began_us or self.now_us()
        self._is_unsaved = self._has_looked_again = self._is_asking = False
        self._until_us: int | None = None
        self._made: list[_MadePart] = []
        for part, stored in zip(self.parts[1:], state.started, strict=False):
            part.check_started(options, stored)
        for part in self.parts[: state.part]:
            self._make(part, state.of_part(part))

    @property
    def _current(self) -> _MadePart:
        return self._made[-1]

    def start(self) -> None:
        with self._current.part.naming_itself():
            self._current.enumerator.start()
        self._ask_where_the_next_begins()

    def add_reader(self, subtask_id: int) -> None:
        self._current.enumerator.add_reader(subtask_id)

    def handle_split_request(self, subtask_id: int) -> None:
        current = self._current.enumerator
        if self._is_asking:
            return
        # What begins later is in the next part, and stays where it waits.
        if not self._leaves_the_rest(current):
            current.handle_split_request(subtask_id)

    def _leaves_the_rest(self, current: SplitEnumerator[Any]) -> bool:
        """Whether all that waits begins where the data of the next part does, or later."""
        if self._until_us is None or not isinstance(current, DiscoveringEnumerator):
            return False
        return current.waits_only_from(self._until_us)

    def add_splits_back(self, splits: Sequence[PartSplit], subtask_id: int) -> None:
        for made, own in self._by_part(splits):
            made.enumerator.add_splits_back(own, subtask_id)

    def end_of_data(self, live: Sequence[PartSplit]) -> bool:
        """Start the next part, if the present one has been read and is not the last."""
        ended = self._current
        if ended.part.number == len(self.parts) or ended.context.rounds_left or self._is_asking:
            return False
        if not self._has_looked_again and isinstance(ended.enumerator, DiscoveringEnumerator):
            self._has_looked_again = True
            ended.enumerator.look_again()
            self._ask_where_the_next_begins()
            return False
        end: SourceEnd[Any] = SourceEnd(
            began=EventTimeRange(self._began_us, self._began_us).latest,
            last=self._last,
            live=ended.context.own(live),
        )
        position = ended.enumerator.switch_position(end)
        if self._leaves_the_rest(ended.enumerator) and self._until_us is not None:
            position = EventTimeRange(self._until_us, self._until_us).latest
        following = self.parts[ended.part.number]
        overlap_s = self.options_given[SWITCH_OVERLAP]
        self._switches.append(BEGINNING if position is None else Switch.at(position, overlap_s))
        self._last, self._began_us = None, self.now_us()
        ended.context.is_over = True
        LOG.info("%s has been read; %s starts at %s", ended.part.title, following.title, self._switches[-1])
        self._make(following, None)
        self._has_looked_again, self._is_unsaved, self._until_us = False, True, None
        self.start()
        for subtask_id in self.context.registered_readers:
            self.add_reader(subtask_id)
        return True

    def wants_checkpoint(self) -> bool:
        """Whether the next part has started, or the enumerator of the present one wants a checkpoint."""
        return self._is_unsaved or self._current.enumerator.wants_checkpoint()

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The states of all parts that have started."""
        states = {made.part.state_field: made.enumerator.snapshot_state(checkpoint_id) for made in self._made}
        self._is_unsaved = False
        self.context.metrics.gauge("chainPart", len(self._made))
        return self.state_type(
            part=len(self._made),
            switches=tuple(self._switches),
            last=self._last,
            started=tuple(made.part.start_options(self.options_given) for made in self._made[1:]),
            began_us=self._began_us,
            **states,
        )

    def handle_source_event(self, subtask_id: int, event: Any) -> None:
        for made in self._made:
            if type(event) in made.part.enumerator_type.resolve_event_types():
                made.enumerator.handle_source_event(subtask_id, event)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for made in self._made:
            made.enumerator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for made in self._made:
            made.enumerator.notify_checkpoint_aborted(checkpoint_id)

    def notify_splits_finished(self, checkpoint_id: int, splits: Sequence[PartSplit]) -> None:
        for made, own in self._by_part(splits):
            if made.part.enumerator_type.wants_finished_splits(made.options):
                made.enumerator.notify_splits_finished(checkpoint_id, own)

    def notify_splits_quarantined(self, checkpoint_id: int, splits: Sequence[PartSplit]) -> None:
        for made, own in self._by_part(splits):
            made.enumerator.notify_splits_quarantined(checkpoint_id, own)

    def notify_splits_given_up(self, checkpoint_id: int, splits: Sequence[PartSplit]) -> None:
        for made, own in self._by_part(splits):
            made.enumerator.notify_splits_given_up(checkpoint_id, own)

    def subtask_reset(self, subtask_id: int, checkpoint_id: int) -> None:
        self._current.enumerator.subtask_reset(subtask_id, checkpoint_id)

    def backlog(self, live: Sequence[PartSplit]) -> Backlog:
        """The backlog of the present part; what the next ones will have is not known."""
        return self._current.enumerator.backlog(self._current.context.own(live))

    def perform(self, action: PartAction) -> None:
        performing: Any = self._made[action.number - 1].enumerator
        performing.perform(action.action)

    def close(self) -> None:
        for made in self._made:
            made.enumerator.close()

    def _ask_where_the_next_begins(self) -> None:
        part = self._current.part
        if part.number == len(self.parts) or not part.reads_until_next(self.options_given):
            return
        following = self.parts[part.number]
        options = following.source(self.options_given).options
        self._is_asking = True
        self.context.call_async(
            lambda: following.enumerator_type.beginning(options),
            self._told_where_the_next_begins,
            retry=RetryPolicy(retries=self.options_given.get(part.option_name(DISCOVERY_RETRIES.name), 3)),
        )

    def _told_where_the_next_begins(self, begins: dt.datetime | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self._is_asking = False
        overlap_us = round(self.options_given[SWITCH_OVERLAP] * 1_000_000)
        self._until_us = None if begins is None else microseconds_of(begins) + overlap_us

    def _make(self, part: Part, state: Any) -> None:
        switch = None if part.number == 1 else self._switches[part.number - 2]
        is_last = part.number == len(self.parts)
        boundedness = self.context.boundedness if is_last else Boundedness.BOUNDED
        inner = PartContext(self.context, part, boundedness, self._assigned)
        with part.naming_itself():
            options = part.source(self.options_given, switch).options
            enumerator = part.enumerator_type(inner, options, state)
        self._made.append(_MadePart(part=part, context=inner, options=options, enumerator=enumerator))

    def _assigned(self, split: Any) -> None:
        self._has_looked_again = False
        times = event_time_of(split)
        if times is not None and (self._last is None or times.latest_us > self._last.latest_us):
            self._last = times

    def _by_part(self, splits: Iterable[PartSplit]) -> Iterator[tuple[_MadePart, list[Any]]]:
        """The parts that some of these splits belong to, each with its own."""
        for made in self._made:
            own = made.context.own(list(splits))
            if own:
                yield made, own


class BoundingHybridEnumerator(HybridEnumerator):
    """A chain of which some part has an enumerator that bounds splits."""

    def readable(self, live: Sequence[PartSplit]) -> Sequence[PartSplit]:
        """What the present part reads, and splits of earlier parts that are retried."""
        found = []
        for made, own in self._by_part(live):
            by_id = {split.split_id: split for split in live if split.number == made.part.number}
            names = (made.part.split_id(split.split_id) for split in made.enumerator.readable(own))
            found += [by_id[name] for name in names]
        return found

    def bound_split(self, split: PartSplit, budget: Budget) -> BoundedRange[PartSplit] | None:
        made = self._made[split.number - 1]
        cut = made.enumerator.bound_split(split.split, budget)
        if cut is None:
            return None
        rest = None if cut.rest is None else made.part.wrapped(cut.rest)
        read = split if cut.read is split.split else made.part.wrapped(cut.read)
        return BoundedRange(read=read, rest=rest)

    def carries_data(self, split: PartSplit) -> bool:
        return self._made[split.number - 1].enumerator.carries_data(split.split)

    def divide_ranges(self, ranges: Sequence[PartSplit]) -> Division[PartSplit]:
        parts: list[PartSplit] = []
        subtasks = 1
        for made, own in self._by_part(ranges):
            division = made.enumerator.divide_ranges(own)
            subtasks = max(subtasks, division.subtasks)
            if division.parts is own:
                parts += [split for split in ranges if split.number == made.part.number]
            else:
                parts += map(made.part.wrapped, division.parts)
        is_same = len(parts) == len(ranges) and all(map(operator.is_, parts, ranges))
        return Division(parts=ranges if is_same else parts, subtasks=subtasks)


@functools.lru_cache(maxsize=64)
def _class_for(parts: tuple[Part, ...]) -> type[HybridEnumerator]:
    """The class of a chain of these parts; one, so that what is known of its types is kept."""
    kinds = [part.enumerator_type for part in parts]
    bounds = any(kind.bound_split is not SplitEnumerator.bound_split for kind in kinds)
    split_types: Any = [part.split_type for part in parts]
    body = {
        "__module__": __name__,
        "options": (SWITCH_OVERLAP, *(option for part in parts for option in part.own_options())),
        "parts": parts,
        "repeatable": all(kind.repeatable for kind in kinds),
        "split_type": functools.reduce(operator.or_, split_types),
        "state_type": state_type_of(parts),
        "split_version": joint_version([kind.split_version for kind in kinds]),
        "state_version": joint_version([kind.state_version for kind in kinds]),
        "event_types": tuple(dict.fromkeys(event for kind in kinds for event in kind.resolve_event_types())),
        "leaves": tuple(dict.fromkeys(one for kind in kinds for one in getattr(kind, "leaves", ()))),
        "position_names": {path: name for part in parts for path, name in part.position_names()},
    }
    base = BoundingHybridEnumerator if bounds else HybridEnumerator
    return type("HybridEnumerator", (base,), body)
