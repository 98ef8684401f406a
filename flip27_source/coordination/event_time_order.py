"""Backlogs in event-time order: splits in, the smallest watermark delay that loses nothing out. Pure.

Spark moves a watermark between two batches, to the largest event time so far less the delay, and drops rows
at or before it. So a batch must end where (largest time handed out) - delay < (smallest time still waiting).
Splits are handed out in the order of their middles (``event_time``); what is found here is the smallest delay
with which that holds at the end of every batch, as the limits will cut them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec

from ..discovery import DiscoveringEnumerator
from ..enumerator import SplitEnumerator
from ..enumerator_mixins import ReadsInStep
from ..event_time import EventTimeRange, event_time_of, place_of
from ..log import LOG
from ..options import Options
from ..source_options import (
    EVENT_TIME_ORDER,
    MAX_EVENT_TIME_DRIFT,
    REPLAY_SPEED,
    TARGET_BATCH_DURATION,
    WATERMARK_DELAY,
)
from ..split import SourceSplit, size_of
from .batch_limits import BatchBudget, Limits

_NEVER_US = 2**63
_NARROWER_BATCHES = "use smaller files, larger batches or eventTimeBucket"
_LESS_DRIFT = "set a smaller maxEventTimeDrift"
_LESS_OVERLAP = "set a smaller switchOverlap: the next source of the chain starts that much earlier"


class EventTimeProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far in event time the batches of a query are.

    Attributes:
        latest_us: the largest event time in any batch so far, in microseconds since the epoch; None: none.
        middle_2us: the largest middle of a split in any batch so far, times two.
        smallest_delay_ms: the smallest watermark delay that loses nothing of the newest batch and of the
            splits that wait after it.
        late: the number of splits that were found too late, with times that were more than ``watermarkDelay``
            past: after splits behind them in the order were in a batch, or too wide for the delay that was
            told before.
    """

    latest_us: int | None = None
    middle_2us: int | None = None
    smallest_delay_ms: int = 0
    late: int = 0

    def numbers(self) -> dict[str, int]:
        """What offsets and progress events show, by the names that they use."""
        late = {"lateSplits": self.late} if self.late else {}
        return {"smallestWatermarkDelayMs": self.smallest_delay_ms} | late

    def after(self, batch: Iterable[SourceSplit], delay_ms: int) -> EventTimeProgress:
        """The progress after a batch of these splits, with a watermark delayed by ``delay_ms``."""
        latest_us, middle_2us, late = self.latest_us, self.middle_2us, self.late
        for split in batch:
            times = event_time_of(split)
            if times is None:
                continue
            needed_ms = needed_delay_ms(self.latest_us, times.earliest_us)
            is_behind = self.middle_2us is not None and times.middle_2us < self.middle_2us
            # A split that waited after the last batch needs no more than the delay that was told then.
            late += needed_ms > delay_ms and (is_behind or needed_ms > self.smallest_delay_ms)
            latest_us = times.latest_us if latest_us is None else max(latest_us, times.latest_us)
            middle_2us = times.middle_2us if middle_2us is None else max(middle_2us, times.middle_2us)
        return msgspec.structs.replace(self, latest_us=latest_us, middle_2us=middle_2us, late=late)


def needed_delay_ms(latest_us: int | None, earliest_us: int) -> int:
    """The smallest delay with which a row of ``earliest_us`` is kept once ``latest_us`` was in a batch.

    Spark keeps watermarks in whole milliseconds, and drops rows at the watermark.
    """
    return 0 if latest_us is None else max(0, latest_us // 1000 + 1 + -earliest_us // 1000)


def delays_ms(
    latest_us: int | None, waiting: Sequence[SourceSplit], limits: Limits | None
) -> list[tuple[int, int]]:
    """For each coming end of a batch, the last one first: how many splits wait then, and the smallest delay
    that loses nothing of them from then on.

    Args:
        latest_us: the largest event time in any batch so far.
        waiting: the waiting splits, in order.
        limits: of all coming batches; None: any split may be the last one of its batch.
    """
    times = [event_time_of(split) for split in waiting]
    from_end = (_NEVER_US if one is None else one.earliest_us for one in reversed(times))
    earliest_us = list(accumulate(from_end, min))[::-1]
    ends: list[tuple[int, int]] = []
    starts = range(len(waiting)) if limits is None else _starts(waiting, limits)
    for place, one in enumerate(times):
        if place in starts:
            ends.append((len(waiting) - place, needed_delay_ms(latest_us, earliest_us[place])))
        if one is not None:
            latest_us = one.latest_us if latest_us is None else max(latest_us, one.latest_us)
    ends.reverse()
    return list(accumulate(ends, lambda after, end: (end[0], max(after[1], end[1]))))


def smallest_delay_ms(splits: Sequence[SourceSplit], options: Options, next_us: int | None = None) -> int:
    """The smallest watermark delay that loses nothing of these splits, if they are read first, in order.

    Args:
        next_us: the smallest time in the next source of a chain; None: there is none, or it is not known.
    """
    limits = Limits.of(options) if _limits_are_known(options) else None
    ends = delays_ms(None, sorted(splits, key=place_of), limits)
    latest_us = max((one.latest_us for one in map(event_time_of, splits) if one), default=None)
    return max(ends[-1][1] if ends else 0, 0 if next_us is None else needed_delay_ms(latest_us, next_us))


def _limits_are_known(options: Options) -> bool:
    """Whether only fixed limits end the batches."""
    others = (TARGET_BATCH_DURATION, MAX_EVENT_TIME_DRIFT, REPLAY_SPEED)
    return all(options[option] is None for option in others)


def _starts(waiting: Sequence[SourceSplit], limits: Limits) -> set[int]:
    """The places of the splits with which the next batches start."""
    starts: set[int] = set()
    budget: BatchBudget | None = None
    for place, size in enumerate(map(size_of, waiting)):
        if budget is None or not budget.fits(size):
            starts.add(place)
            budget = BatchBudget(limits)
        budget.take(size)
    return starts


@dataclass(eq=False, repr=False)
class EventTimeOrder:
    """Follows the batches of a query whose splits are handed out in event-time order.

    Attributes:
        progress: how far they are; stored in the document.
        watermark_delay_ms: the delay that the user says the query's watermark has; None: not said.
        drift_ms: ``maxEventTimeDrift``, for splits that advance in step.
    """

    progress: EventTimeProgress
    watermark_delay_ms: int | None
    limits_are_known: bool
    drift_ms: int = 0
    _ends: list[tuple[int, int]] = field(default_factory=list, init=False)
    # What the next source of a chain needs.
    _following_ms: int = field(default=0, init=False)
    # The changes, the limits and the number of waiting splits for which the ends are known.
    _known_for: tuple[Hashable, Limits | None, int] | None = field(default=None, init=False)
    _is_followed: bool = field(default=True, init=False)
    _has_warned: bool = field(default=False, init=False)

    @classmethod
    def of(cls, options: Options, progress: EventTimeProgress | None) -> EventTimeOrder | None:
        """The follower of a run; None if its splits are handed out in another order.

        Args:
            progress: of earlier runs of the same query, whose watermark Spark keeps.
        """
        if not options[EVENT_TIME_ORDER]:
            return None
        delay_s, drift_s = options[WATERMARK_DELAY], options[MAX_EVENT_TIME_DRIFT]
        order = cls(
            progress=progress or EventTimeProgress(),
            watermark_delay_ms=None if delay_s is None else round(delay_s * 1000),
            # Spark drops rows at the watermark, so that a drift below a millisecond needs one.
            drift_ms=0 if drift_s is None else max(1, round(drift_s * 1000)),
            limits_are_known=_limits_are_known(options),
        )
        order._is_followed = progress is not None
        return order

    @property
    def told(self) -> EventTimeProgress | None:
        """The progress; None if there is no batch yet, or if the newest one is of a source in a chain that is
        read in another order."""
        return self.progress if self._is_followed else None

    def follow(
        self,
        enumerator: SplitEnumerator[Any],
        batch: Sequence[SourceSplit],
        live: Sequence[SourceSplit],
        waiting: Sequence[SourceSplit],
        limits: Limits,
    ) -> None:
        """A batch was planned; of a chain, the source that is read now decides how it is followed.

        Args:
            live, waiting: the splits that the coordinator keeps for later batches.
            limits: of this batch, and of the next ones unless batches size themselves.
        """
        now, own = enumerator._read_now(batch)
        if isinstance(now, ReadsInStep) and self.drift_ms:
            read = [*map(now.event_times_in, own), *map(event_time_of, batch)]
            self.advanced(filter(None, read), now.event_times_after(enumerator._read_now(live)[1]))
        elif isinstance(now, DiscoveringEnumerator) and now._by_event_time:
            postponed = [*live, *waiting]
            self.planned(
                batch,
                waiting=lambda: enumerator._to_be_read([*postponed, *now._waiting_splits()]),
                left=len(postponed) + now._waiting_count,
                changes=(now, now._waiting_changes),
                limits=limits,
            )
        else:
            self.unfollowed()

    def unfollowed(self) -> None:
        """A batch of such a source was planned: nobody knows where the watermark is from now on."""
        self.progress, self._is_followed = EventTimeProgress(), False

    def planned(
        self,
        batch: Iterable[SourceSplit],
        *,
        waiting: Callable[[], tuple[Sequence[SourceSplit], int | None]],
        left: int,
        changes: Hashable,
        limits: Limits,
    ) -> None:
        """A batch was planned; warns, once, if the user's delay is too small.

        Args:
            waiting: returns the splits that wait after it and will be read, in order, and the smallest time
                in the next source of a chain, if it is known; called only if it is not known how the next
                batches end.
            left: the number of all that wait. changes: another value whenever splits were added or removed.
            limits: of this batch, and of the next ones unless batches size themselves.
        """
        batch = list(batch)
        self._is_followed = True
        before = self.progress
        earliest_us = min((one.earliest_us for one in map(event_time_of, batch) if one), default=_NEVER_US)
        after = before.after(batch, self.watermark_delay_ms or 0)
        known_limits = limits if self.limits_are_known else None
        is_as_expected = self._known_for == (changes, known_limits, left + len(batch))
        while self._ends and self._ends[-1][0] > left:
            self._ends.pop()
        if not is_as_expected or (left and (not self._ends or self._ends[-1][0] != left)):
            rest, next_us = waiting()
            ends, unread = delays_ms(after.latest_us, rest, known_limits), left - len(rest)
            self._ends = [(number + unread, delay_ms) for number, delay_ms in ends]
            last_us = after.after(rest, 0).latest_us
            self._following_ms = 0 if next_us is None else needed_delay_ms(last_us, next_us)
        self._known_for = (changes, known_limits, left)
        to_come_ms = self._ends[-1][1] if self._ends else 0
        smallest_ms = max(needed_delay_ms(before.latest_us, earliest_us), to_come_ms, self._following_ms)
        self.progress = msgspec.structs.replace(after, smallest_delay_ms=smallest_ms)
        is_of_switch = self._following_ms == smallest_ms > to_come_ms
        self._warn(_LESS_OVERLAP if is_of_switch else _NARROWER_BATCHES)

    def advanced(self, read: Iterable[EventTimeRange], waiting: EventTimeRange | None) -> None:
        """A batch of ranges was planned whose splits advance in step; warns as :meth:`planned`.

        While they do, no batch is more than ``drift_ms`` ahead of what waits after it. A range is late if it
        is further behind than that, than the user's delay, and than the delay that was told before.

        Args:
            read: the times of the ranges. waiting: the times of all that waits after the batch.
        """
        before, self._is_followed = self.progress, True
        latest_us, needed_ms, late = before.latest_us, 0, before.late
        kept_ms = max(before.smallest_delay_ms, self.watermark_delay_ms or 0, self.drift_ms)
        for times in read:
            behind_ms = needed_delay_ms(before.latest_us, times.earliest_us)
            needed_ms, late = max(needed_ms, behind_ms), late + (behind_ms > kept_ms)
            latest_us = times.latest_us if latest_us is None else max(latest_us, times.latest_us)
        if waiting is not None:
            now_ms = needed_delay_ms(latest_us, waiting.earliest_us)
            later_ms = needed_delay_ms(max(waiting.latest_us, latest_us or 0), waiting.earliest_us)
            needed_ms = max(needed_ms, now_ms, min(later_ms, self.drift_ms))
        self.progress = msgspec.structs.replace(
            before, latest_us=latest_us, smallest_delay_ms=needed_ms, late=late
        )
        self._warn(_LESS_DRIFT)

    def _warn(self, remedy: str) -> None:
        smallest_ms, delay_ms = self.progress.smallest_delay_ms, self.watermark_delay_ms
        if self._has_warned or delay_ms is None or smallest_ms <= delay_ms:
            return
        self._has_warned = True
        LOG.warning(
            "watermarkDelay is %g s, and the smallest watermark delay that loses nothing of the backlog is "
            "%.3f s: Spark drops rows as late. Set withWatermark and watermarkDelay to at least that, or %s",
            delay_ms / 1000,
            smallest_ms / 1000,
            remedy,
        )
