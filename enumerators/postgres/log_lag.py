"""How far a query is behind the log of its server. Pure; no clock."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from dataclasses import dataclass

from flip27_source.event_time import moment_of

MOST_POLLS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLag:
    """How far a position is behind the end of the log.

    Attributes:
        bytes: the log after the position, of all databases and tables of the server.
        seconds: upper bound of the time since the oldest waiting change was committed; 0 if none waits,
            None if that is not known.
        since: the time at which this is counted from; None if no change waits, or if it is not known.
    """

    bytes: int
    seconds: float | None
    since: dt.datetime | None = None


class LogClock:
    """Remembers the end of the log at each poll, with the time by the clock of the server.

    Changes after a position were committed after the last poll at which the log ended at or before the
    position. For a position before the first poll, such as after a restart, they were committed after the
    last change that was read.

    Args:
        committed_at: when the last change that was read was committed, in microseconds since 1970 UTC.
    """

    def __init__(self, committed_at: int | None = None) -> None:
        self._read_at: dt.datetime | None = None
        self._ends: list[int] = []
        self._times: list[dt.datetime] = []
        self.read(committed_at)

    def seen(self, end: int, at: dt.datetime) -> None:
        """Record that the log ended here at this time."""
        if self._ends and end <= self._ends[-1]:
            if end == self._ends[-1]:
                self._times[-1] = at
            return
        self._ends.append(end)
        self._times.append(at)
        if len(self._ends) > MOST_POLLS:
            # If a query is far behind, a coarser bound is sufficient.
            del self._ends[1:-1:2], self._times[1:-1:2]

    def read(self, committed_at: int | None) -> None:
        """Record that the changes were read up to one that was committed at this time."""
        if committed_at is not None:
            self._read_at = moment_of(committed_at)

    def lag(self, position: int, end: int, *, has_changes: bool = True) -> LogLag:
        """The lag of ``position`` at the latest poll, when the log ended at ``end``.

        Args:
            has_changes: False if the log after the position is known to have no change of the tables.
        """
        behind = max(0, end - position)
        if not behind or not has_changes:
            return LogLag(bytes=behind, seconds=0.0)
        since = self._since(position)
        if since is None or not self._times:
            return LogLag(bytes=behind, seconds=None, since=since)
        return LogLag(bytes=behind, seconds=max(0.0, (self._times[-1] - since).total_seconds()), since=since)

    def _since(self, position: int) -> dt.datetime | None:
        number = bisect_right(self._ends, position)
        return self._times[number - 1] if number else self._read_at
