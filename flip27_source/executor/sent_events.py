"""SentEvents: the events that the reader sends in one attempt of a subtask, for its report (R4)."""

from __future__ import annotations

from collections.abc import Callable

from ..events import SourceEvent


class SentEvents:
    """Collects events; those of a try to read a split whose rows are not delivered are taken back.

    Args:
        check: raises if an event cannot be stored.
    """

    def __init__(self, check: Callable[[SourceEvent], None] | None = None) -> None:
        self._check = check
        self._events: list[SourceEvent] = []

    def send(self, event: SourceEvent) -> None:
        """Add an event."""
        if self._check is not None:
            self._check(event)  # refused here, so that the traceback shows the sender
        self._events.append(event)

    def mark(self) -> int:
        """The current place, for ``take_back``."""
        return len(self._events)

    def take_back(self, mark: int) -> None:
        """Remove the events that were sent after ``mark``."""
        del self._events[mark:]

    @property
    def events(self) -> tuple[SourceEvent, ...]:
        """The events, in the order in which they were sent."""
        return tuple(self._events)
