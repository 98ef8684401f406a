"""Paced replay: data comes as it came, ``replaySpeed`` times as fast, until it reaches the present. Pure.

The pace is a line: at a moment of the steady clock, one event time is due. It is set in each run, at the
first planning in which a time is known that waits: that time is due now. So a restart goes on where the run
before has ended. Members of a group follow the pace that is furthest behind: that of a member that has left
for some time yet, so that its restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from ..event_time import moment_of
from ..log import LOG
from ..source_options import REPLAY_SPEED
from .horizon import Horizon, Reach

_NEVER_US = 2**63
_MOST_MS = 2**53


class Pace(msgspec.Struct, frozen=True, array_like=True):
    """Which event time is due when.

    Attributes:
        event_us: the event time that is due at ``steady_ms``, in microseconds since the epoch (UTC).
        steady_ms: a time of the host's steady clock, in milliseconds.
        speed: how many seconds of event time pass in a second.
    """

    event_us: int
    steady_ms: int
    speed: float

    def due_us(self, steady_ms: int) -> int:
        """The event time that is due at another time of the steady clock."""
        passed_us = min((steady_ms - self.steady_ms) * 1000 * self.speed, _NEVER_US)
        return self.event_us + int(passed_us)

    def behind_ms(self, event_us: int, steady_ms: int) -> int:
        """For how long an event time has been due, in milliseconds of the clock; 0 if it is not due yet."""
        return int(max(0, min((self.due_us(steady_ms) - event_us) / self.speed / 1000, _MOST_MS)))


@dataclass(eq=False, repr=False)
class Replay:
    """The replay of one source in one run of a query.

    Attributes:
        pace: the pace that it keeps; None before the first time is known, and once it is live.
        own: the pace of its own data, which other members are told: what it follows holds nobody else.
        is_live: whether the pace has reached the present: from then on nothing is held, for the whole run.
        behind_ms: for how long the data that still waits after the newest planning has been due.
        others: returns the paces of the other members of the group.

    Args:
        began: when the run began: by the steady clock in milliseconds, and by the wall clock in microseconds
            since the epoch. The present is counted from there, so a clock that is set changes nothing.
        timeout_ms: for how long the pace of a member counts that has left.
    """

    _speed: float
    _began: tuple[int, int]
    others: Callable[[], Iterable[Pace]] = tuple
    timeout_ms: int = 60_000
    pace: Pace | None = field(default=None, init=False)
    own: Pace | None = field(default=None, init=False)
    # The pace of another member, and until when it counts without that member.
    _followed: tuple[Pace, int] | None = field(default=None, init=False)
    is_live: bool = field(default=False, init=False)
    behind_ms: int = field(default=0, init=False)

    def horizon(self, reach: Reach, steady_ms: int) -> Horizon | None:
        """What is due now; None if no time is known yet, and once the replay is live."""
        if self.is_live:
            return None
        if self.own is None and reach.waits_us is not None:
            self.own = Pace(reach.waits_us, steady_ms, self._speed)
            LOG.info("replay at %gx from %s", self._speed, moment_of(reach.waits_us).isoformat())
        self.pace = self._slowest(reach, steady_ms)
        if self.pace is None:
            return None
        due_us = self.pace.due_us(steady_ms)
        began_ms, began_us = self._began
        if due_us >= began_us + (steady_ms - began_ms) * 1000:
            self.is_live, self.pace, self.own, self.behind_ms = True, None, None, 0
            LOG.info("the replay has reached the present: the source is live, and nothing is held any more")
            return None
        return Horizon(latest_us=due_us, by=REPLAY_SPEED.name, is_strict=True)

    def _slowest(self, reach: Reach, steady_ms: int) -> Pace | None:
        """The pace that is furthest behind; if its member has left for good, the own one begins anew."""
        others = dict.fromkeys(self.others(), steady_ms + self.timeout_ms)
        if self._followed is not None and self._followed[0] not in others:
            pace, until_ms = self._followed
            if steady_ms < until_ms:
                others[pace] = until_ms
            elif reach.waits_us is not None:
                self.own = Pace(reach.waits_us, steady_ms, self._speed)
        paces = [*([] if self.own is None else [self.own]), *others]
        slowest = min(paces, key=lambda pace: pace.due_us(steady_ms), default=None)
        self._followed = None if slowest is None or slowest is self.own else (slowest, others[slowest])
        return slowest

    def planned(self, reach: Reach, steady_ms: int, *, is_empty: bool, is_held: bool) -> None:
        """A batch was planned; if the horizon has ended it, all that is due is in it."""
        self.behind_ms = 0
        if self.pace is not None and reach.waits_us is not None and not is_held:
            self.behind_ms = self.pace.behind_ms(reach.waits_us, steady_ms)

    def numbers(self) -> dict[str, int]:
        return {"replayIsLive": 1} if self.is_live else {"replayBehindMs": self.behind_ms}
