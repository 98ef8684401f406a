"""Deliveries: what the messages of a run change, and when they are deleted. On the coordinator's thread.

A message may be deleted once the state that has resulted from it is stored and its batch is complete. If the
state has not changed since a complete checkpoint, the message may be deleted at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flip27_source.enumerator_context import Boundedness, SplitEnumeratorContext
from flip27_source.enumerators.files.notifications.inbox import Inbox, Received, in_parts
from flip27_source.enumerators.files.notifications.queues import checked_queues
from flip27_source.enumerators.files.notifications.rounds import NotificationRounds, NotifiedDiscovery
from flip27_source.enumerators.files.notifications.state import (
    DeleteMessages,
    NotificationsState,
    RemovedFile,
)
from flip27_source.enumerators.files.options import NOTIFICATION_VISIBILITY_TIMEOUT
from flip27_source.enumerators.files.search import FileSearch
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.log import LOG
from flip27_source.options import Options


class Acknowledgements:
    """Decides when the messages of one run may be deleted; keeps those that wait for a stored checkpoint.

    Attributes:
        is_unsaved: whether the state has changed since the last checkpoint.
    """

    def __init__(self) -> None:
        self.is_unsaved = False
        self._incomplete: int | None = None
        self._waiting: list[Received] = []

    def handled(
        self, messages: Iterable[Received], *, has_changed: bool
    ) -> tuple[list[Received], list[Received]]:
        """Record that messages were handled; ``has_changed`` says whether they changed the state.

        Returns:
            The messages to delete now, and those whose deletion is an action of the next checkpoint.
        """
        self.is_unsaved = self.is_unsaved or has_changed
        if self.is_unsaved:
            return [], list(messages)
        if self._incomplete is None:
            return list(messages), []
        self._waiting += messages
        return [], []

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


class Deliveries:
    """The messages of one run: what they change, and when they are deleted.

    Attributes:
        rounds: the rounds of discovery, for the discovery thread.
        state: what the next checkpoint stores.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSplit],
        options: Options,
        search: FileSearch,
        *,
        state: NotificationsState | None,
        may_wait: bool,
    ) -> None:
        self.state = NotificationsState() if state is None else state
        self._context = context
        self._acknowledgements = Acknowledgements()
        is_bounded = context.boundedness is Boundedness.BOUNDED
        self._inbox = Inbox(
            checked_queues(options), hidden_s=options[NOTIFICATION_VISIBILITY_TIMEOUT], until_empty=is_bounded
        )
        self._inbox.close_with(self)
        self.rounds = NotificationRounds(
            self._inbox,
            search,
            options,
            is_bounded=is_bounded,
            to_forget=self.state.to_forget,
            may_wait=may_wait,
        )

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the state has changed, so that messages cannot be deleted before it is stored."""
        return self._acknowledgements.is_unsaved

    def delivered(self, round: NotifiedDiscovery, dropped: Sequence[RemovedFile]) -> None:
        """Make the result of a round part of the state.

        Args:
            dropped: files that waited, were removed, and are no longer read.
        """
        state = self.state.with_ignored(round.ignored).without(round.forgotten).with_removed(dropped)
        self.state = replace(state, found_by_listing=state.found_by_listing + round.found_by_listing)
        self.rounds.delivered(round, dropped)
        for message in round.ignored:
            LOG.warning(
                "message %s of %s was ignored, because %s: %s",
                message.message_id, message.queue, message.problem, message.body,
            )  # fmt: skip
        for path in sorted({file.path for file in dropped}):
            LOG.info("%s was removed before it was read", path)
        if round.found_by_listing:
            LOG.info("%d files were found by the listing, without a message", round.found_by_listing)
        has_changed = bool(round.splits or round.ignored or round.forgotten or dropped)
        at_once, after_next = self._acknowledgements.handled(round.messages, has_changed=has_changed)
        self._inbox.delete_soon(at_once)
        for action in in_parts(after_next):
            self._context.perform_after_completion(action)

    def saved(self, checkpoint_id: int) -> NotificationsState:
        """The state to store with this checkpoint."""
        self._acknowledgements.saved(checkpoint_id)
        return self.state

    def completed(self, checkpoint_id: int) -> None:
        """Delete the messages that waited until the batch of this checkpoint was complete."""
        self._inbox.delete_soon(self._acknowledgements.completed(checkpoint_id))

    def delete(self, action: DeleteMessages) -> bool:
        """Delete messages; False if the query does not read their queue. Called on other threads."""
        return self._inbox.delete(action)

    def close(self) -> None:
        self._inbox.close()
