"""Batches that size themselves: measured times of batches in, limits of the next batch out. Pure.

The time of a batch is taken as an overhead and a cost per amount. The amount is in bytes if they are known,
otherwise in rows, otherwise in files. The cost is the median of the newest batches of a similar amount, so
that one slow batch changes nothing and the third one changes the limit. The overhead is the least that two
batches of different amounts show; as long as it is not known it counts as cost, which makes a limit that
grows too small, never too large.

A query with a processing-time trigger that has an interval waits after a batch until the interval has passed,
and the source sees only the end of the wait. Such a time says at most how long the batch took.

Flink sizes no batches; the rules of the first batch and of empty ones are those of Spark's rate estimator for
DStreams (SPARK-8975, SPARK-18580).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from ..enumerator import UNKNOWN_BACKLOG, Backlog
from ..options import Options
from ..source_options import TARGET_BACKLOG_DURATION, TARGET_BATCH_DURATION
from .batch_limits import UNLIMITED, BatchBudget, Limits

FIRST = Limits(files=100, rows=100_000, bytes=32 * 1024 * 1024)
"""The limits of the first batch, whose cost is not known."""

MOST_GROWTH = 10
"""How many times as much as its predecessors a batch may hold."""

SIMILAR = 2
"""Amounts that differ at most by this factor are similar."""

COMPARED = 5
"""The number of batches of which the median is taken."""

KEPT = 8
"""The number of full batches, and of small ones, that are remembered."""

DIFFERENT = 1.5
"""The overhead is seen in amounts that differ at least by this factor."""

NO_LONGER = 1.3
"""Times that differ at most by this factor are those of batches whose data does not count."""

EXPLORING = (1.5, 1.15)
"""The growth while all batches wait for their trigger: as long as no limit is known, and once one is."""

LEAST_SHARE = 0.1
"""The share of the target, or of an overhead above it, that is left for data, and the share of a batch's time
that is taken as cost."""

TRIGGER_STEP_MS = 100
"""Intervals of triggers are multiples of this."""

LATE_TRIGGER_MS = 150
"""How long after the beginning of its interval a trigger may reach the source."""

_UNITS = ("bytes", "rows", "files")


class BatchTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a batch held, and how long it took.

    Attributes:
        duration_ms: from the trigger of the batch to the next one, in milliseconds.
        waited: whether the query waited for its trigger: the batch took at most ``duration_ms``.
        files, rows, bytes: the sizes that were known when it was planned; 0 if unknown.
    """

    duration_ms: int
    waited: bool = False
    files: int = 0
    rows: int = 0
    bytes: int = 0


class SizedLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of one batch, and why they are these.

    Attributes:
        target_ms: how long the batch should take, in milliseconds.
        files, rows, bytes: the limits; None means no limit.
    """

    target_ms: int
    reason: str
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


class BatchTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The batches from which the limits of the next batch are computed.

    Attributes:
        full: the newest batches that held about as much as their limits allowed, the newest last.
        small: the newest batches that held less, because there was no more to read.
        overhead_ms: the time of a batch without data, as estimated last.
        decided: the limits of the newest batch; None if it had none.
    """

    full: tuple[BatchTime, ...] = ()
    small: tuple[BatchTime, ...] = ()
    overhead_ms: float = 0.0
    decided: SizedLimits | None = None

    def after(self, batch: BatchTime, decided: SizedLimits) -> BatchTimes:
        """These and one more batch; an empty batch changes nothing.

        Args:
            decided: the limits of that batch. If three of the newest small ones take more time for their
                data than the target leaves, the newest counts as full: less has to fit.
        """
        held = [(_amount(batch, unit), getattr(decided, unit)) for unit in _UNITS]
        if not any(amount for amount, _ in held):
            return self
        full, small = self.full, self.small
        is_full = any(limit is not None and amount * SIMILAR >= limit for amount, limit in held)
        if not is_full:
            small = (*small, batch)[-KEPT:]
            too_long_ms = self.overhead_ms + self._for_data(decided.target_ms)
            slow = [one for one in small[-COMPARED:] if one.duration_ms >= too_long_ms and not one.waited]
            is_full = len(slow) > COMPARED // 2
        if is_full:
            full = (*full, batch)[-KEPT:]
        overhead_ms = _overhead((*full[-COMPARED:], *small[-COMPARED:]), _unit_of(batch), self.overhead_ms)
        return msgspec.structs.replace(self, full=full, small=small, overhead_ms=overhead_ms)

    def in_a_new_run(self) -> BatchTimes:
        """What a new run knows, which may have another query or cluster: its first batch counts at once."""
        if not self.full:
            return self
        unit = _unit_of(self.full[-1])
        similar = _similar(self.full, unit)
        similar.sort(key=lambda batch: batch.duration_ms / _amount(batch, unit))
        return msgspec.structs.replace(self, full=(similar[len(similar) // 2],))

    def limits(self, target_ms: int) -> SizedLimits:
        """The limits with which a batch takes about the target; at least one of each unit."""
        if not self.full:
            return SizedLimits(
                target_ms=target_ms, reason="first batch",
                files=FIRST.files, rows=FIRST.rows, bytes=FIRST.bytes,
            )  # fmt: skip
        unit = _unit_of(self.full[-1])
        similar = _similar(self.full, unit)
        amount, reason = self._estimate(similar, unit, target_ms)
        most = max(_amount(batch, unit) for batch in similar) * MOST_GROWTH
        if amount > most:
            amount, reason = most, f"{MOST_GROWTH} times the last batch; {reason}"
        limits = {unit: max(1, round(amount))}
        for other in set(_UNITS) - {unit}:
            # Data of another kind, such as many more files of fewer bytes each, end the batch earlier. Where
            # all batches were alike, so do sources that look at one of the limits only.
            densities = [_amount(batch, other) / _amount(batch, unit) for batch in similar]
            sparsest, densest = min(densities), max(densities)
            if densest:
                spread = min(SIMILAR, densest / sparsest) if sparsest else SIMILAR
                limits[other] = max(1, round(spread * densest * amount))
            elif "files" in (unit, other):
                # Files without known contents do not tell how much the next ones hold, nor do the rows of a
                # log that of files which are read again.
                limits[other] = getattr(FIRST, other)
        return SizedLimits(target_ms=target_ms, reason=reason, **limits)

    def _estimate(self, similar: Sequence[BatchTime], unit: str, target_ms: int) -> tuple[float, str]:
        """The amount that takes the target, and how it was found."""
        exact = [batch for batch in similar if not batch.waited]
        if not exact:
            growth = EXPLORING[any(not batch.waited for batch in self.full)]
            return _amount(similar[-1], unit) * growth, "batches end before the next trigger"
        if self._are_in_vain(unit, target_ms):
            return SIMILAR * _amount(similar[-1], unit), "smaller batches take no less time"
        overhead = self.overhead_ms
        counted = exact if len(exact) > 2 else exact[-1:]
        cost = statistics.median_low(
            max(batch.duration_ms - overhead, LEAST_SHARE * batch.duration_ms, 1) / _amount(batch, unit)
            for batch in counted
        )
        return self._for_data(target_ms) / cost, (
            f"{1000 / cost:.3g} {unit}/s and {overhead / 1000:.1f} s overhead in {len(counted)} batches"
        )

    def _are_in_vain(self, unit: str, target_ms: int) -> bool:
        """Whether all batches take longer than the target, and smaller ones than the largest no less time."""
        batches = (*self.full, *self.small)
        if min(batch.duration_ms for batch in batches) <= target_ms:
            return False
        pairs = _pairs(batches, unit)
        longer = [end / time for _, time, most, end in pairs if most == max(pair[2] for pair in pairs)]
        return bool(longer) and statistics.median(longer) <= NO_LONGER

    def _for_data(self, target_ms: int) -> float:
        """The time that a target leaves for data."""
        return max(target_ms - self.overhead_ms, LEAST_SHARE * max(target_ms, self.overhead_ms))


@dataclass(slots=True)
class BatchSizer:
    """The limits of a source's batches, if it has a target for their duration.

    Attributes:
        times: what is stored in the checkpoint.
    """

    target_ms: int
    backlog_target_ms: int
    times: BatchTimes = field(default_factory=BatchTimes)
    _is_behind: bool = False
    _held: BatchTime | None = None

    @classmethod
    def of(cls, options: Options, times: BatchTimes | None) -> BatchSizer | None:
        """The sizer by the options; None if no target is set. ``times``: of the restored checkpoint."""
        target_s = options[TARGET_BATCH_DURATION]
        if target_s is None:
            return None
        target_ms = round(target_s * 1000)
        backlog_s = options[TARGET_BACKLOG_DURATION]
        backlog_ms = target_ms if backlog_s is None else round(backlog_s * 1000)
        return cls(target_ms, backlog_ms, BatchTimes() if times is None else times.in_a_new_run())

    def tighten(self, limits: Limits | None) -> Limits:
        """The limits of the next batch: its own, and these; none if it is to hold all data (None)."""
        if limits is None:
            self.times = msgspec.structs.replace(self.times, decided=None)
            return UNLIMITED
        own = self.times.limits(self.backlog_target_ms if self._is_behind else self.target_ms)
        tight = limits.tightened_by(Limits(files=own.files, rows=own.rows, bytes=own.bytes))
        self.times = msgspec.structs.replace(
            self.times,
            decided=msgspec.structs.replace(own, files=tight.files, rows=tight.rows, bytes=tight.bytes),
        )
        return tight

    def begins_anew(self) -> None:
        """Other data follows, in other units: what was measured tells nothing of it."""
        self.times, self._is_behind, self._held = BatchTimes(), False, None

    def planned(self, budget: BatchBudget, backlog: Backlog) -> None:
        """The next batch was planned with these contents, and ``backlog`` is left after it.

        The source is behind if that is at least another such batch, or, if unknown, if a limit was reached.
        """
        self._held = BatchTime(duration_ms=0, files=budget.files, rows=budget.rows, bytes=budget.bytes)
        if backlog == UNKNOWN_BACKLOG:
            self._is_behind = budget.exhausted
            return
        pairs = ((backlog.bytes, budget.bytes), (backlog.rows, budget.rows), (backlog.splits, budget.splits))
        waiting, held = next(((w, h) for w, h in pairs if w is not None and h), (0, 1))
        self._is_behind = waiting >= held

    def completed(self, duration_ms: int, *, waited: bool) -> None:
        """The planned batch has taken this long; without effect if none was planned in this run."""
        held, decided = self._held, self.times.decided
        if held is None or decided is None:
            return
        self._held = None
        measured = msgspec.structs.replace(held, duration_ms=max(1, duration_ms), waited=waited)
        self.times = self.times.after(measured, decided)


def waited_for_trigger(started_ms: int, ended_ms: int) -> bool:
    """Whether a query waited for its trigger, by two triggers in a row, in milliseconds since the epoch.

    Triggers with an interval come at multiples of it since the epoch, unless a batch has taken longer.
    """
    interval_ms = round((ended_ms - started_ms) / TRIGGER_STEP_MS) * TRIGGER_STEP_MS
    return interval_ms > LATE_TRIGGER_MS and all(
        moment_ms % interval_ms <= LATE_TRIGGER_MS for moment_ms in (started_ms, ended_ms)
    )


def _unit_of(batch: BatchTime) -> str:
    return next(unit for unit in _UNITS if _amount(batch, unit))


def _amount(batch: BatchTime, unit: str) -> int:
    amount: int = getattr(batch, unit)
    return amount


def _similar(batches: Sequence[BatchTime], unit: str) -> list[BatchTime]:
    """The batches whose amounts are similar to that of the newest, at most ``COMPARED``."""
    newest = _amount(batches[-1], unit)
    similar = [b for b in batches if newest <= _amount(b, unit) * SIMILAR <= newest * SIMILAR**2]
    return similar[-COMPARED:]


def _pairs(batches: Sequence[BatchTime], unit: str) -> list[tuple[int, int, int, int]]:
    """Pairs of batches of different amounts: the smaller amount and its time, the larger one and its time."""
    points = sorted((_amount(batch, unit), batch.duration_ms) for batch in batches if not batch.waited)
    return [
        (*one, *other)
        for one, other in itertools.combinations(points, 2)
        if 0 < one[0] * DIFFERENT <= other[0]
    ]


def _overhead(batches: Sequence[BatchTime], unit: str, known_ms: float) -> float:
    """The time of a batch without data, by batches of different amounts; ``known_ms`` if there are none."""
    found = [
        time - amount * (other_time - time) / (other - amount)
        for amount, time, other, other_time in _pairs(batches, unit)
    ]
    overhead_ms = statistics.median_low(found) if found else known_ms
    return max(0.0, min((overhead_ms, *(batch.duration_ms for batch in batches if not batch.waited))))
