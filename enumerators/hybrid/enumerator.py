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
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flip27_source.discovery import DiscoveringEnumerator
from flip27_source.enumerator import Backlog, BoundedRange, Budget, Division, SourceEnd, SplitEnumerator
from flip27_source.enumerator_context import Boundedness, RetryPolicy, SplitEnumeratorContext
from flip27_source.enumerator_mixins import FollowsEventTime
from flip27_source.enumerators.hybrid.checks import ChainChecks
from flip27_source.enumerators.hybrid.context import PartContext
from flip27_source.enumerators.hybrid.hooks import ChainHooks
from flip27_source.enumerators.hybrid.options import HYBRID_OPTIONS, SWITCH_OVERLAP
from flip27_source.enumerators.hybrid.parts import (
    ChainState,
    Part,
    PartAction,
    PartEvent,
    PartSplit,
    joint_version,
    parts_of,
    state_type_of,
)
from flip27_source.enumerators.hybrid.switch import BEGINNING, Switch, read_before, until
from flip27_source.errors import DiscoveryError, OptionError
from flip27_source.event_time import event_time_of, microseconds_of, moment_of
from flip27_source.leftovers import LeavesThings
from flip27_source.log import LOG
from flip27_source.options import Option, Options
from flip27_source.source_options import DISCOVERY_RETRIES, WATERMARK_DELAY
from flip27_source.source_progress import LooksIntoSource, ProgressTable

_MOST_AHEAD_US = 3_600_000_000
"""How far the largest event time of a part may be ahead of the clock."""


class _StartedPart:
    """A part that has started; the enumerator of one that ended in an earlier run is made when it is needed.

    Args:
        state: the state that it goes on from; None: it starts now.
    """

    def __init__(self, part: Part, context: PartContext, options: Options, state: Any) -> None:
        self.part = part
        self.context = context
        self.options = options
        self.is_started = self.has_told = False
        self._state = state
        self._enumerator: SplitEnumerator[Any] | None = None
        # Actions are performed by several threads.
        self._one_at_a_time = threading.Lock()

    @property
    def enumerator(self) -> SplitEnumerator[Any]:
        with self._one_at_a_time:
            if self._enumerator is None:
                with self.part.naming_itself():
                    self._enumerator = self.part.enumerator_type(self.context, self.options, self._state)
            return self._enumerator

    def start(self) -> None:
        self.is_started = True
        with self.part.naming_itself():
            self.enumerator.start()

    def snapshot(self, checkpoint_id: int) -> Any:
        return self.enumerator.snapshot_state(checkpoint_id) if self.is_started else self._state


class HybridEnumerator(
    ChainHooks, ChainChecks, LooksIntoSource, FollowsEventTime[PartSplit], SplitEnumerator[PartSplit]
):
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
        self._has_read = state.has_read
        self._is_unsaved = self._has_looked_again = self._is_asking = False
        self._until_us: int | None = None
        self._made: list[_StartedPart] = []
        for part, stored in zip(self.parts[1:], state.started, strict=False):
            part.check_started(options, stored)
        for part in self.parts[: state.part]:
            self._make(part, state.of_part(part))
        self._current.enumerator  # noqa: B018 - made here, where it may refuse its options

    @property
    def _current(self) -> _StartedPart:
        return self._made[-1]

    def start(self) -> None:
        self._current.start()
        self._ask_where_the_next_begins()

    def look(self, live: Sequence[PartSplit]) -> Iterator[ProgressTable]:
        """What waits in the source that is read now."""
        current = self._current
        if isinstance(looking := current.enumerator, LooksIntoSource):
            yield from looking.look(current.context.own(live))
        else:
            yield ProgressTable(title="in the source", said=f"{current.part.title} cannot be looked into")

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
            if made is self._current:
                made.enumerator.add_splits_back(own, subtask_id)
            else:
                # Its source assigns nothing any more.
                for split in splits:
                    if split.number == made.part.number:
                        self.context.assign_split(split)

    def end_of_data(self, live: Sequence[PartSplit]) -> bool:
        """Start the next part, if the present one has been read and is not the last."""
        ended = self._current
        if ended.part.number == len(self.parts) or self._is_asking:
            return False
        if not self._has_looked_again and isinstance(ended.enumerator, DiscoveringEnumerator):
            self._has_looked_again = True
            ended.enumerator.look_again()
            self._ask_where_the_next_begins()
            return False
        rest: Sequence[Any] = ()
        if isinstance(ended.enumerator, DiscoveringEnumerator) and self._leaves_the_rest(ended.enumerator):
            rest = ended.enumerator._waiting_splits()
        position = self._end_position((), rest, live)
        following = self.parts[ended.part.number]
        if following.uses_switch(self.options_given):
            self._check_position(ended, position)
        overlap_s = self.options_given[SWITCH_OVERLAP]
        if position is None:
            # It was empty: the next part starts where this one did.
            self._switches.append(self._switches[-1] if self._switches else BEGINNING)
        else:
            self._switches.append(Switch.at(position, overlap_s))
        self._last, self._has_read, self._began_us = None, False, self.now_us()
        ended.context.is_over = True
        LOG.info("%s has been read; %s starts at %s", ended.part.title, following.title, self._switches[-1])
        self._make(following, None)
        self._has_looked_again, self._is_unsaved, self._until_us = False, True, None
        self.start()
        for subtask_id in self.context.registered_readers:
            self.add_reader(subtask_id)
        return True

    def _end_position(
        self, to_read: Sequence[Any], rest: Sequence[Any], live: Sequence[PartSplit]
    ) -> dt.datetime | str | None:
        """Where the present part ends once these splits have been read too, and the ``rest`` is left.

        The rest may have times that are those of a whole day, and no rows: the part then ends before it.
        """
        times = (self._last, *map(event_time_of, to_read), *map(event_time_of, rest))
        position = self._current.enumerator.switch_position(
            SourceEnd(
                began=moment_of(self._began_us),
                last=max(filter(None, times), key=lambda one: one.latest_us, default=None),
                live=self._current.context.own(live),
            )
        )
        if not rest or self._until_us is None:
            return position
        until = moment_of(self._until_us)
        return min(position, until, key=microseconds_of) if isinstance(position, dt.datetime) else until

    def _read_now(self, splits: Iterable[PartSplit]) -> tuple[SplitEnumerator[Any], list[Any]]:
        return self._current.enumerator, self._current.context.own(list(splits))

    def _to_be_read(self, waiting: Sequence[Any]) -> tuple[Sequence[Any], int | None]:
        read = read_before(waiting, self._until_us)
        return read, self._next_begins_us(read, waiting[len(read) :])

    def _next_begins_us(self, to_read: Sequence[Any], rest: Sequence[Any]) -> int | None:
        """The event time at which the next part starts, once these splits have been read too."""
        part, options = self._current.part, self._current.options
        following = self.parts[part.number] if part.number < len(self.parts) else None
        if following is None or not following.uses_switch(self.options_given):
            return None
        has_times = self._last is not None or any(map(event_time_of, to_read))
        if not has_times or part.enumerator_type.switch_kind(options) != "time":
            return None
        position = self._end_position(to_read, rest, ())
        return None if position is None else Switch.at(position, self.options_given[SWITCH_OVERLAP]).time_us

    def _check_position(self, made: _StartedPart, position: dt.datetime | str | None) -> None:
        """Refuse a place at which the next part would leave out data, or read all of its data again.

        Raises:
            DiscoveryError: the place is not known although it is needed, or lies in the future.
        """
        ended = made.part
        remedy = f"set the start of hybrid.{ended.number + 1} to a fixed value instead of {{switch}}"
        if position is None and ended.enumerator_type.switch_kind(made.options) == "text":
            raise DiscoveryError(f"{ended.title} has been read, and tells no place", remedy=remedy)
        if position is None and self._has_read:
            raise DiscoveryError(
                f"{ended.title} has been read, and none of its data has an event time", remedy=remedy
            )
        if isinstance(position, dt.datetime) and microseconds_of(position) > self.now_us() + _MOST_AHEAD_US:
            raise DiscoveryError(
                f"{ended.title} has been read, and its largest event time, {position}, is in the future",
                remedy=remedy,
            )

    def wants_checkpoint(self) -> bool:
        """Whether the next part has started, or the enumerator of the present one wants a checkpoint."""
        return self._is_unsaved or self._current.enumerator.wants_checkpoint()

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """The states of all parts that have started."""
        states = {made.part.state_field: made.snapshot(checkpoint_id) for made in self._made}
        self._tell_what_is_kept(states)
        self._is_unsaved = False
        self.context.metrics.gauge("chainPart", len(self._made))
        return self.state_type(
            part=len(self._made),
            switches=tuple(self._switches),
            last=self._last,
            has_read=self._has_read,
            started=tuple(made.part.start_options(self.options_given) for made in self._made[1:]),
            began_us=self._began_us,
            **states,
        )

    def _tell_what_is_kept(self, states: Mapping[str, Any]) -> None:
        """Say, once in each run, what parts that have ended have left on other systems at a cost."""
        for made in self._made[:-1]:
            kind: Any = made.part.enumerator_type
            if made.has_told or not issubclass(kind, LeavesThings):
                continue
            made.has_told = True
            kept = kind.kept_at_end(states[made.part.state_field])
            if kept is not None:
                LOG.warning("%s has been read, and %s", made.part.title, kept)

    def handle_source_event(self, subtask_id: int, event: PartEvent) -> None:
        self._made[event.number - 1].enumerator.handle_source_event(subtask_id, event.event)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for made in self._running:
            made.enumerator.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for made in self._running:
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

    def event_time_at(self, split: PartSplit) -> int | None:
        follows = self._made[split.number - 1].enumerator
        return follows.event_time_at(split.split) if isinstance(follows, FollowsEventTime) else None

    def _waiting_in_order(self) -> Iterator[PartSplit]:
        current = self._current
        if not self._is_asking and not self._leaves_the_rest(current.enumerator):
            for split in current.enumerator._waiting_in_order():
                yield current.part.wrapped(split, None)

    def perform(self, action: PartAction) -> None:
        performing: Any = self._made[action.number - 1].enumerator
        performing.perform(action.action)

    def close(self) -> None:
        for made in self._running:
            made.enumerator.close()

    @property
    def _running(self) -> list[_StartedPart]:
        """The parts that were read in this run."""
        return [made for made in self._made if made.is_started]

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
        if isinstance(current := self._current.enumerator, DiscoveringEnumerator):
            current._waiting_changes += 1  # others of the splits that wait are read
        self._until_us = until(begins, self.options_given[SWITCH_OVERLAP])

    def _make(self, part: Part, state: Any) -> None:
        switch = None if part.number == 1 else self._switches[part.number - 2]
        is_last = part.number == len(self.parts)
        boundedness = self.context.boundedness if is_last else Boundedness.BOUNDED
        told = switch if part.uses_switch(self.options_given) else None
        inner = PartContext(self.context, part, boundedness, told, self._assigned)
        with part.naming_itself():
            options = part.source(self.options_given, switch).options
        self._made.append(_StartedPart(part, inner, options, state))

    def _assigned(self, split: Any) -> None:
        self._has_looked_again, self._has_read = False, True
        times = event_time_of(split)
        if times is not None and (self._last is None or times.latest_us > self._last.latest_us):
            self._last = times

    def _by_part(self, splits: Iterable[PartSplit]) -> Iterator[tuple[_StartedPart, list[Any]]]:
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
        rest = None if cut.rest is None else made.part.changed(split, cut.rest)
        read = split if cut.read is split.split else made.part.changed(split, cut.read)
        return BoundedRange(read=read, rest=rest)

    def carries_data(self, split: PartSplit) -> bool:
        return self._made[split.number - 1].enumerator.carries_data(split.split)

    def divide_ranges(self, ranges: Sequence[PartSplit]) -> Division[PartSplit]:
        parts: list[PartSplit] = []
        subtasks = 1
        for made, own in self._by_part(ranges):
            division = made.enumerator.divide_ranges(own)
            subtasks = max(subtasks, division.subtasks)
            before = {split.split_id: split for split in ranges if split.number == made.part.number}
            if division.parts is own:
                parts += before.values()
            else:
                wholes = (before[made.part.split_id(part.split_id)] for part in division.parts)
                parts += map(made.part.changed, wholes, division.parts)
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
        "options": (
            SWITCH_OVERLAP,
            WATERMARK_DELAY,
            *(option for part in parts for option in part.own_options()),
        ),
        "parts": parts,
        "repeatable": all(kind.repeatable for kind in kinds),
        "split_type": functools.reduce(operator.or_, split_types),
        "state_type": state_type_of(parts),
        "split_version": joint_version([kind.split_version for kind in kinds]),
        "state_version": joint_version([kind.state_version for kind in kinds]),
        "event_types": tuple(
            part.events[event] for part in parts for event in part.enumerator_type.resolve_event_types()
        ),
        "leaves": tuple(dict.fromkeys(one for kind in kinds for one in getattr(kind, "leaves", ()))),
        "position_names": {path: name for part in parts for path, name in part.position_names()},
    }
    base = BoundingHybridEnumerator if bounds else HybridEnumerator
    return type("HybridEnumerator", (base,), body)
