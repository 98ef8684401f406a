"""Deliveries: takes in the results of rounds, on the coordinator's thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from flip27_source.enumerator_context import Boundedness, SplitEnumeratorContext
from flip27_source.enumerators.files.listing.walk import Lister
from flip27_source.enumerators.files.notifications.acknowledgements import Acknowledgements
from flip27_source.enumerators.files.notifications.inbox import Inbox, Received
from flip27_source.enumerators.files.notifications.queues import checked_queues, open_queue
from flip27_source.enumerators.files.notifications.rounds import NotificationRounds, NotifiedDiscovery
from flip27_source.enumerators.files.notifications.state import DeleteMessages, NotificationsState
from flip27_source.enumerators.files.options import (
    BACKFILL_INTERVAL,
    FILE_NAME_ONLY,
    NOTIFICATION_VISIBILITY_TIMEOUT,
    RECURSIVE_FILE_LOOKUP,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import said_of
from flip27_source.notifications import NotificationQueue
from flip27_source.options import Options

_log = logging.getLogger("flip27_source")

RECEIPTS_OF_AN_ACTION = 100


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
        lister: Lister,
        *,
        state: NotificationsState | None,
        may_wait: bool,
    ) -> None:
        self.state = NotificationsState() if state is None else state
        self._context = context
        self._queues: Mapping[str, NotificationQueue] = checked_queues(options)
        self._acknowledgements = Acknowledgements()
        is_bounded = context.boundedness is Boundedness.BOUNDED
        self._inbox = Inbox(
            self._queues, hidden_s=options[NOTIFICATION_VISIBILITY_TIMEOUT], until_empty=is_bounded
        )
        self.rounds = NotificationRounds(
            self._inbox,
            lister,
            recursive=options[RECURSIVE_FILE_LOOKUP],
            name_only=options[FILE_NAME_ONLY],
            interval_s=options[BACKFILL_INTERVAL],
            is_bounded=is_bounded,
            may_wait=may_wait,
        )

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the state has changed, so that messages cannot be deleted before it is stored."""
        return self._acknowledgements.is_unsaved

    def delivered(self, found: NotifiedDiscovery, dropped: Sequence[FileSplit]) -> None:
        """Make the result of a round part of the state.

        Args:
            dropped: waiting files that were removed, and are no longer read.
        """
        before = self.state
        state = before.with_set_aside(found.set_aside).without(found.forgotten).with_removed(dropped)
        self.state = replace(state, found_by_listing=state.found_by_listing + found.found_by_listing)
        if dropped:
            self.rounds.forget(self.state.to_forget)
        for message in found.set_aside:
            _log.warning(
                "message %s of %s was set aside, because %s: %s",
                message.message_id, message.queue, message.problem, message.body,
            )  # fmt: skip
        for path in sorted({split.path for split in dropped}):
            _log.info("%s was removed before it was read", path)
        if found.found_by_listing:
            _log.info("%d files were found by the listing, without a message", found.found_by_listing)
        has_changed = bool(found.splits or found.set_aside or found.forgotten or dropped)
        due = self._acknowledgements.handled(found.messages, has_changed=has_changed)
        self._inbox.delete_soon(due.at_once)
        for action in _actions(due.after_next):
            self._context.perform_after_completion(action)

    def saved(self, checkpoint_id: int) -> NotificationsState:
        """The state to store with this checkpoint."""
        self._acknowledgements.saved(checkpoint_id)
        return self.state

    def completed(self, checkpoint_id: int) -> None:
        """Delete the messages that waited until the batch of this checkpoint was complete."""
        self._inbox.delete_soon(self._acknowledgements.completed(checkpoint_id))

    def delete(self, action: DeleteMessages) -> None:
        """Delete messages. Called on other threads."""
        queue = self._queues.get(action.queue)
        if queue is not None:
            delete(queue, action, self._inbox.newest_receipts(action.queue, action.receipts))
            self._inbox.deleted(action.queue, action.receipts)

    def has_queue(self, url: str) -> bool:
        """Whether the query reads this queue."""
        return url in self._queues

    def close(self) -> None:
        """End the threads."""
        self._inbox.close()


def delete_messages(action: DeleteMessages, options: Options) -> None:
    """Delete messages of a queue that the query no longer reads."""
    delete(open_queue(action.queue, options), action, action.receipts)


def delete(queue: NotificationQueue, action: DeleteMessages, receipts: Sequence[str]) -> None:
    """Delete messages. Messages that cannot be deleted are delivered again, and are recognised."""
    try:
        queue.delete(receipts)
    except Exception as error:  # noqa: BLE001 - of any service
        _log.warning("%s could not be deleted and will be delivered again: %s", action, said_of(error))


def _actions(messages: Sequence[Received]) -> Iterator[DeleteMessages]:
    by_queue: dict[str, list[str]] = {}
    for item in messages:
        by_queue.setdefault(item.queue, []).append(item.message.receipt)
    for queue, receipts in by_queue.items():
        for first in range(0, len(receipts), RECEIPTS_OF_AN_ACTION):
            part = receipts[first : first + RECEIPTS_OF_AN_ACTION]
            yield DeleteMessages(queue=queue, receipts=tuple(part))
