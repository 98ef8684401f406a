"""Acknowledgements: when messages may be deleted.

A message may be deleted once the state that has resulted from it is stored and its batch is complete. If the
state has not changed since a complete checkpoint, the message may be deleted at once. Pure, and used only on
the coordinator's thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flip27_source.enumerators.files.notifications.inbox import Received


@dataclass(frozen=True, slots=True)
class Due:
    """The deletions that are due for messages that were handled.

    Attributes:
        at_once: they can be deleted now.
        after_next: their deletion is an action of the next checkpoint.
    """

    at_once: list[Received]
    after_next: list[Received]


class Acknowledgements:
    """Decides when the messages of one run may be deleted; keeps those that wait for a stored checkpoint.

    Attributes:
        is_unsaved: whether the state has changed since the last checkpoint.
    """

    def __init__(self) -> None:
        self.is_unsaved = False
        self._incomplete: int | None = None
        self._waiting: list[Received] = []

    def handled(self, messages: Iterable[Received], *, has_changed: bool) -> Due:
        """Record that messages were handled; ``has_changed`` says whether they changed the state."""
        self.is_unsaved = self.is_unsaved or has_changed
        if self.is_unsaved:
            return Due([], list(messages))
        if self._incomplete is None:
            return Due(list(messages), [])
        self._waiting += messages
        return Due([], [])

    def saved(self, checkpoint_id: int) -> None:
        """Record that the state is part of this checkpoint."""
        if self.is_unsaved:
            self.is_unsaved, self._incomplete = False, checkpoint_id

    def completed(self, checkpoint_id: int) -> list[Received]:
        """The messages that can be deleted now, because the batch of this checkpoint is complete."""
        if self._incomplete is None or checkpoint_id < self._incomplete:
            return []
        self._incomplete = None
        due, self._waiting = self._waiting, []
        return due
