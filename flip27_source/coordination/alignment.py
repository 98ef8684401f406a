"""Alignment: splits that are ahead in event time wait for the slowest. Pure.

What counts is how far a split could get in the batch if only the limits ended it (its potential), not how far
it has been read: Spark moves watermarks between batches only, so that a batch may go on by many times
``maxEventTimeDrift`` (FLINK-37399). The horizon is the smallest potential of the active splits and sources,
plus the drift; the slowest is never held by it. What the others leave of the limits is for the slowest.

A split is active while something waits in it, and for ``alignmentTimeout`` after that. In one that is held
back something waits: it is not idle (FLIP-471, FLIP-513). No mark is stored: after a restart a split in which
nothing waits holds nobody back (FLINK-40505).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

import msgspec

from ..enumerator import BoundedRange, SplitEnumerator
from ..enumerator_context import Boundedness
from ..enumerator_mixins import FollowsEventTime
from ..event_time import event_time_of, moment_of
from ..options import Options
from ..source_options import ALIGNMENT_TIMEOUT, MAX_EVENT_TIME_DRIFT
from ..split import SplitT, size_of
from .batch_limits import BatchBudget
from .horizon import Horizon, Reach, SetsHorizon

HELD_MS = 100
"""For how long splits are not looked at again once all that waits is held after the horizon."""

_NEVER_US = 2**63

_MOST_TRIES = 32
"""The most horizons that are tried for a batch."""

_FINE = 16
"""To which part of what it moves the horizon is found."""

_WHOLE = ""
"""Stands for all splits that are read whole: they wait in one queue."""


class BatchHorizon(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the newest batch was read.

    Attributes:
        latest_us: the latest event time in it, in microseconds since the epoch.
        slowest: what held others back: a split, another source, or an option.
        paused: the number of splits that would have been in the batch.
    """

    latest_us: int
    slowest: str
    paused: int = 0

    def numbers(self) -> dict[str, int | str]:
        """What offsets and progress events show, by the names that they use."""
        paused = {"pausedSplits": self.paused} if self.paused else {}
        shown = {"eventTimeHorizon": moment_of(self.latest_us).isoformat(), "alignmentSlowest": self.slowest}
        return shown | paused


@dataclass(eq=False, repr=False)
class Alignment(Generic[SplitT]):
    """Finds the horizon of each batch, and tells which splits it holds back.

    Attributes:
        drift_us: ``maxEventTimeDrift``; None: only ``horizons`` count.
        horizons: what bounds the batches besides.
        timeout_ms: for how long a split in which nothing waits is active.
        horizon: of the batch that is being planned; None: it has none.
        strict_us: the time that not even one unit passes; None: there is none.
        paused: the number of splits that the newest planning has held back.
    """

    enumerator: SplitEnumerator[SplitT]
    drift_us: int | None
    horizons: Sequence[SetsHorizon]
    timeout_ms: int
    horizon: Horizon | None = field(default=None, init=False)
    paused: int = field(default=0, init=False)
    strict_us: int | None = field(default=None, init=False)
    _others: Horizon | None = field(default=None, init=False)
    # Whether the source itself is the slowest: then one unit may be later.
    _is_slowest: bool = field(default=False, init=False)
    # When something waited last, by split; and the largest time of whole splits that were handed out.
    _waited_ms: dict[str, int] = field(default_factory=dict, init=False)
    _handed_us: int | None = field(default=None, init=False)
    # By which the horizon was found, and when it was found that all that waits is held.
    _reach: Reach | None = field(default=None, init=False)
    _held_ms: int | None = field(default=None, init=False)

    @classmethod
    def of(
        cls,
        options: Options,
        enumerator: SplitEnumerator[SplitT],
        horizons: Sequence[SetsHorizon],
        boundedness: Boundedness,
    ) -> Alignment[SplitT] | None:
        """The alignment of a run; None if nothing bounds its batches in event time."""
        drift_s = options[MAX_EVENT_TIME_DRIFT]
        if drift_s is None and not horizons:
            return None
        # In a run that ends, nothing comes once nothing waits.
        timeout_s = 0 if boundedness is Boundedness.BOUNDED else options[ALIGNMENT_TIMEOUT]
        return cls(
            enumerator=enumerator,
            drift_us=None if drift_s is None else round(drift_s * 1_000_000),
            horizons=horizons,
            timeout_ms=round(timeout_s * 1000),
        )

    def rests(self, steady_ms: int) -> bool:
        """Whether all that waits is held, as it was a moment ago: Spark asks many times a second."""
        reach, paused = self._reach, self.paused
        if self._held_ms is None or reach is None or not 0 < steady_ms - self._held_ms < HELD_MS:
            return False
        self.begin(reach, steady_ms)
        self.paused = paused
        first_us = reach.waits_us if reach.unit_us is None else reach.unit_us
        return self.horizon is not None and first_us is not None and self.horizon.latest_us < first_us

    def ended(self, steady_ms: int, *, is_empty: bool) -> None:
        """The batch was planned; ``is_empty``: it has nothing."""
        if not is_empty or not self.paused:
            self._held_ms = None
        elif self._held_ms is None or steady_ms - self._held_ms >= HELD_MS:
            self._held_ms = steady_ms

    def begin(self, reach: Reach | None, steady_ms: int, fitting: int = 0) -> None:
        """Find the horizon of a batch by how far the source could get in it; None: it has no horizon.

        ``fitting``: the number of whole splits that would be in it by the limits alone.
        """
        self.horizon, self.paused, self.strict_us, self._is_slowest = None, 0, None, False
        self._others = None
        self._reach = reach
        if reach is None:
            return
        found = [one for bound in self.horizons if (one := bound.horizon(reach, steady_ms)) is not None]
        self._others = min(found, key=lambda one: one.latest_us, default=None)
        self.strict_us = min((one.latest_us for one in found if one.is_strict), default=None)
        if self.drift_us is not None and reach.potential_us is not None:
            own = Horizon(latest_us=reach.potential_us + self.drift_us, by=reach.slowest or "")
            is_least = all(one.is_strict or own.latest_us <= one.latest_us for one in found)
            self._is_slowest = is_least and reach.slowest_waits
            found.append(own)
        self.horizon = min(found, key=lambda one: one.latest_us, default=None)
        self.paused = 0 if self.horizon is None else fitting

    def stretch(self, within: Callable[[], tuple[float, Callable[[], Reach]]]) -> None:
        """Move the horizon as far as the slowest split can follow, by what others leave of the limits.

        Later ones are tried until the batch is full, and then those between; how much of the limits one uses
        tells where the next is tried. If the slowest can follow, one is kept. Otherwise the slowest gets at
        least as far if the others keep to an earlier one: how far it gets, plus the drift. That it gets no
        further does not end the search: the enumerator may cut at few times only.

        Args:
            within: tells how much of the limits a batch with the present horizon uses, 1 or more if it is
                full; and, when called, how far the source gets in it.
        """
        found, drift_us, others = self.horizon, self.drift_us, self._others
        if found is None or drift_us is None or found is others:
            return
        most_us = _NEVER_US if others is None else others.latest_us
        first_us = room_us = found.latest_us
        waits_us = self._reach.waits_us if self._reach is not None else None
        from_us = first_us - drift_us if waits_us is None else min(waits_us, first_us - drift_us)
        # As far as the batch goes already.
        further_us, full_us, steps = 2 * first_us - from_us, _NEVER_US, 1
        in_room: Callable[[], Reach] | None = None
        for _ in range(_MOST_TRIES):
            if room_us >= most_us or full_us - room_us <= max(drift_us, (full_us - first_us) // (2 * _FINE)):
                break
            if not room_us < further_us < full_us:
                further_us = (room_us + full_us) // 2
            tried_us = min(further_us, most_us)
            self.horizon = Horizon(latest_us=tried_us, by=found.by)
            used, reach = within()
            if used >= 1 - 1 / _FINE:
                found, has_followed = _further(found, tried_us, reach(), drift_us)
                if has_followed or used < 1:
                    break
            step_us = steps * max(drift_us, (tried_us - first_us) // _FINE)
            if used >= 1:
                full_us, further_us = tried_us, tried_us - step_us
            else:
                # Where it is almost full if the data goes on as densely.
                in_all_us = (tried_us - from_us) / max(used, 1 / _FINE**2)
                room_us, almost, in_room = tried_us, 1 - 1 / (2 * _FINE), reach
                further_us = max(from_us + round(almost * in_all_us), tried_us + step_us)
            steps *= 2
        if in_room is not None and room_us > found.latest_us:
            found, _ = _further(found, room_us, in_room(), drift_us)
        self.horizon = found if others is None or found.latest_us <= most_us else others

    @property
    def of_batch(self) -> BatchHorizon | None:
        """The horizon of the newest planning, for people."""
        if self.horizon is None:
            return None
        return BatchHorizon(latest_us=self.horizon.latest_us, slowest=self.horizon.by, paused=self.paused)

    def time_at(self, split: SplitT) -> int | None:
        """The event time that a split has reached; None if it is not known."""
        follows = self.enumerator
        at = follows.event_time_at(split) if isinstance(follows, FollowsEventTime) else None
        if at is None and (times := event_time_of(split)) is not None:
            at = times.earliest_us
        return at

    def holds(self, split: SplitT) -> bool:
        """Whether nothing of a split may be in the batch; a whole one is held by its latest time."""
        return self.horizon is not None and self._is_after(split, self.horizon.latest_us)

    def keeps(self, split: SplitT) -> bool:
        """Whether a whole split stays where it waits: it is held, and not the one unit of the slowest."""
        if not self.holds(split):
            return False
        is_strict = self.strict_us is not None and self._is_after(split, self.strict_us)
        return is_strict or not self._is_slowest

    def handed_out(self, split: SplitT) -> None:
        """A whole split is in the batch."""
        times = event_time_of(split)
        if times is not None:
            self._is_slowest = False
            self.paused = max(0, self.paused - 1)
            before_us = times.latest_us if self._handed_us is None else self._handed_us
            self._handed_us = max(times.latest_us, before_us)

    def unit(
        self, readable: Iterable[SplitT], by_limits: Iterable[SplitT], within: Iterable[SplitT]
    ) -> SplitT | None:
        """The live split that is read although it is held, because nothing else with times is.

        That is the slowest one, or if it waits to become live, the first of those in its way.

        Args:
            by_limits: the splits that would be read by the limits alone. within: those within the horizon.
        """
        if not self._is_slowest or any(self.time_at(split) is not None for split in within):
            return None
        slowest = None if self._reach is None else self._reach.slowest
        free = [split for split in readable if split.split_id == slowest] or by_limits
        strict_us = self.strict_us
        timed = [
            (at, one)
            for one in free
            if (at := self.time_at(one)) is not None
            and (strict_us is None or not self._is_after(one, strict_us))
        ]
        return min(timed, key=lambda one: one[0])[1] if timed else None

    def _is_after(self, split: SplitT, latest_us: int) -> bool:
        at = self.held_after(split)
        return at is not None and at > latest_us

    def held_after(self, split: SplitT) -> int | None:
        """The earliest horizon that does not hold a split; None: each holds it not."""
        times = event_time_of(split)
        return self.time_at(split) if times is None else times.latest_us

    def of_whole(self, waiting: Iterable[SplitT], budget: BatchBudget, steady_ms: int) -> tuple[Reach, int]:
        """How far splits that are read whole, in this order, could get: to the first that does not fit.

        Returns:
            That, and the number of splits with times that fit.
        """
        waits: list[int] = []
        handed: list[tuple[int, str]] = []
        first_left: tuple[int, str] | None = None
        has_room = True
        for split in waiting:
            times, size = event_time_of(split), size_of(split)
            has_room = has_room and budget.fits(size)
            if times is not None:
                waits.append(times.earliest_us)
                if not has_room:
                    first_left = times.earliest_us, split.split_id
                    break
                handed.append((times.latest_us, split.split_id))
            budget.take(size)
        idle: tuple[str, ...] = ()
        if waits:
            self._waited_ms[_WHOLE] = steady_ms
        elif self._handed_us is not None and self._is_active(_WHOLE, steady_ms):
            idle = (_WHOLE,)
            handed.append((self._handed_us, _WHOLE))
        found = self._reach_of(waits, first_left or max(handed, default=None), idle)
        # The first split fits into any batch.
        return replace(found, unit_us=handed[0][0] if waits and handed else None), len(handed)

    def of_live(
        self,
        live: Iterable[SplitT],
        waiting: Mapping[str, BoundedRange[SplitT] | None],
        whole: Iterable[SplitT],
        steady_ms: int,
    ) -> Reach:
        """How far live splits could get.

        Args:
            waiting: those in which something waits, by id, with what the limits alone would read of them.
            whole: the splits that wait to become live.
        """
        waits: list[int] = []
        reached: list[tuple[int, str]] = []
        before, self._waited_ms = self._waited_ms, {}
        for split in live:
            split_id = split.split_id
            if split_id in waiting:
                self._waited_ms[split_id] = steady_ms
            elif split_id in before:
                self._waited_ms[split_id] = before[split_id]
            at = self.time_at(split)
            if at is None or not (split_id in waiting or self._is_active(split_id, steady_ms)):
                continue
            if split_id in waiting:
                waits.append(at)
            cut = waiting.get(split_id)
            # A split that ends in the batch holds nobody back.
            then = at if cut is None else None if cut.rest is None else self.time_at(cut.rest)
            if then is not None:
                reached.append((then, split_id))
        idle = [split_id for _, split_id in reached if split_id not in waiting]
        following = ((at, split.split_id) for split in whole if (at := self.time_at(split)) is not None)
        for at, split_id in itertools.islice(following, 1):
            waits.append(at)
            reached.append((at, split_id))
        found = self._reach_of(waits, min(reached, default=None), idle)
        still = min((at for at, split_id in reached if split_id not in idle), default=None)
        return replace(found, waiting_us=still)

    def _is_active(self, split_id: str, steady_ms: int) -> bool:
        since_ms = self._waited_ms.get(split_id)
        return since_ms is not None and steady_ms - since_ms < self.timeout_ms

    def _reach_of(self, waits: list[int], slowest: tuple[int, str] | None, idle: Collection[str]) -> Reach:
        """``idle``: the active splits in which nothing waits."""
        potential_us, split_id = (None, None) if slowest is None else slowest
        since_ms = max((self._waited_ms[one] for one in idle), default=None)
        return Reach(
            waits_us=min(waits, default=None),
            potential_us=potential_us,
            waiting_us=None if split_id in idle else potential_us,
            idle_ms=None if since_ms is None else since_ms + self.timeout_ms,
            slowest=split_id,
            slowest_waits=split_id not in idle,
        )


def _further(found: Horizon, tried_us: int, reach: Reach, drift_us: int) -> tuple[Horizon, bool]:
    """The later one of two horizons: that was found before, and as far as the slowest follows one that was
    tried. Also whether it follows that to its end."""
    reached_us = -_NEVER_US if reach.potential_us is None else reach.potential_us + drift_us
    latest_us = min(reached_us, tried_us)
    further = Horizon(latest_us=latest_us, by=reach.slowest or "")
    return (further if latest_us > found.latest_us else found), reached_us >= tried_us
