"""Groups: sources of one Spark application that follow each other in event time. Pure.

Each source is coordinated in a process of its own. After each planning a member publishes a record: how far
it could get in its next batch, and the pace of its replay. Before each planning it reads those of the others.

No two members wait for each other: the one that can get least far is held by no other, because its own
potential is the smallest, and then one unit is always allowed (``horizon``). This holds as long as a member
publishes the potential that it plans with, so a planning without a batch publishes just that.

Spark asks the sources of a query one after the other, and each finds its first data at another time. So a
member goes on by only one drift in a batch until it has met an active one, or for ``alignmentTimeout``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from ..source_options import ALIGNMENT_GROUP
from .horizon import Horizon, Reach
from .replay import Pace


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a member. It has no ids of splits and no options, which could hold secrets.

    Attributes:
        run: a random name of one run of the source.
        source: the uid of the source, for people.
        began_ms, beat_ms: when the run began, and when it was alive last, by the host's steady clock.
        timeout_ms: its ``alignmentTimeout``, in which it shows several times that it is alive.
        lineage: the lineage of its checkpoints; None before the first one, and without a state location.
        potential_us: the event time that its slowest active split can reach in the next batch; None: no split
            is active, so it holds nobody back. waiting_us: that of the splits in which something waits, which
            counts from ``idle_ms`` on: a query may not be asked for hours.
        pace: the pace of its replay; None: it has none, or is live.
    """

    run: str
    source: str
    began_ms: int
    beat_ms: int
    timeout_ms: int = 0
    lineage: str | None = None
    potential_us: int | None = None
    waiting_us: int | None = None
    idle_ms: int | None = None
    pace: Pace | None = None

    def potential_at(self, steady_ms: int) -> int | None:
        """The potential at a time of the steady clock."""
        is_idle = self.idle_ms is not None and steady_ms >= self.idle_ms
        return self.waiting_us if is_idle else self.potential_us


@dataclass(eq=False, repr=False)
class Group:
    """The group as one member sees it in one run.

    Attributes:
        lineage: the lineage of this member's checkpoints.
        others: the members that count, as of :meth:`seen`.

    Args:
        drift_us: ``maxEventTimeDrift`` in microseconds; None: members only share the pace of a replay.
        timeout_ms: the age at which a record does not count any more, unless its member has a longer one.
    """

    _run: str
    _source: str
    _began_ms: int
    _drift_us: int | None
    _timeout_ms: int
    lineage: str | None = None
    others: tuple[Member, ...] = ()
    # What the present planning has used; None if it has asked for no horizon.
    _has_met: bool = field(default=False, init=False)
    _planned_with: Reach | None = field(default=None, init=False)
    # What the newest planning has published.
    _published: Reach = field(default=Reach(), init=False)

    def seen(self, records: Iterable[Member], steady_ms: int) -> None:
        """These are all records of the group, those of earlier runs and of dead members among them."""
        fresh = [one for one in records if steady_ms - one.beat_ms <= max(self._timeout_ms, one.timeout_ms)]
        newest: dict[str, Member] = {}
        for one in sorted(fresh, key=lambda one: (one.began_ms, one.run)):
            # A run may live on for a while after the next one of its query has begun.
            newest[one.run if one.lineage is None else one.lineage] = one
        self.others = tuple(
            one
            for one in newest.values()
            if one.run != self._run and (one.lineage is None or one.lineage != self.lineage)
        )

    def paces(self) -> list[Pace]:
        return [one.pace for one in self.others if one.pace is not None]

    def horizon(self, reach: Reach, steady_ms: int) -> Horizon | None:
        """How far the slowest of the others can get, and the drift; a little, if none is known yet."""
        self._planned_with = reach
        if self._drift_us is None:
            return None
        others = ((one.potential_at(steady_ms), one.source) for one in self.others)
        active = [(potential_us, source) for potential_us, source in others if potential_us is not None]
        self._has_met = self._has_met or bool(active) or steady_ms - self._began_ms >= self._timeout_ms
        if active:
            slowest_us, source = min(active)
            return Horizon(latest_us=slowest_us + self._drift_us, by=source)
        if self._has_met or reach.waits_us is None:
            return None
        first_us = reach.waits_us + self._drift_us
        latest_us = first_us if reach.unit_us is None else max(first_us, reach.unit_us)
        return Horizon(latest_us=latest_us, by=ALIGNMENT_GROUP.name)

    def planned(self, reach: Reach, steady_ms: int, *, is_empty: bool, is_held: bool) -> None:
        """A batch was planned: what this member publishes of it is known."""
        planned_with, self._planned_with = self._planned_with, None
        self._published = reach if planned_with is None or not is_empty else planned_with

    def numbers(self) -> dict[str, int]:
        return {}

    def record(self, steady_ms: int, pace: Pace | None) -> Member:
        """The record to publish after a planning; ``pace``: of this member's replay."""
        return Member(
            run=self._run,
            source=self._source,
            began_ms=self._began_ms,
            beat_ms=steady_ms,
            timeout_ms=self._timeout_ms,
            lineage=self.lineage,
            potential_us=self._published.potential_us,
            waiting_us=self._published.waiting_us,
            idle_ms=self._published.idle_ms,
            pace=pace,
        )
