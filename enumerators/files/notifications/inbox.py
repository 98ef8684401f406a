"""Inbox: receives the messages of several queues on threads, and keeps them hidden until they are deleted.

It decides nothing: the discovery thread takes the messages and the errors from it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flip27_source.enumerators.files.notifications.queues import delete_messages
from flip27_source.enumerators.files.notifications.state import DeleteMessages
from flip27_source.errors import said_of
from flip27_source.log import LOG
from flip27_source.notifications import Message, NotificationQueue

MOST_HELD = 20_000
"""The most messages that are held, received and not deleted: their receipts are part of a checkpoint."""

RECEIVED_AT_ONCE = 10
DELETED_AT_ONCE = 100
HELPERS = 3
"""Number of additional threads that receive while a queue gives full answers."""

_POLL_S, _SHORT_POLL_S = 20.0, 1.0
_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 15.0)
_KEEPER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message, and the URL of its queue."""

    queue: str
    message: Message


def in_parts(messages: Iterable[Received]) -> Iterator[DeleteMessages]:
    """The deletions of these messages, each of messages of one queue, and of no more than a queue allows."""
    by_queue: dict[str, list[str]] = {}
    for item in messages:
        by_queue.setdefault(item.queue, []).append(item.message.receipt)
    for queue, receipts in by_queue.items():
        for first in range(0, len(receipts), DELETED_AT_ONCE):
            yield DeleteMessages(queue=queue, receipts=tuple(receipts[first : first + DELETED_AT_ONCE]))


@dataclass(slots=True)
class _Hold:
    """A message that is hidden from others until ``until_s`` of the monotonic clock.

    ``receipt`` is the newest one: some services change it.
    """

    receipt: str
    until_s: float


class Inbox:
    """The messages of all queues that were received and are not deleted.

    Args:
        hidden_s: for how long a message stays hidden after this process has died.
        until_empty: receive until each queue was empty once; otherwise until ``close``.
    """

    def __init__(
        self,
        queues: Mapping[str, NotificationQueue],
        *,
        hidden_s: float,
        until_empty: bool,
        most_held: int = MOST_HELD,
    ) -> None:
        self._queues = dict(queues)
        self._hidden_s = hidden_s
        self._until_empty = until_empty
        self._most_held = most_held
        self._changed = threading.Condition()
        self._arrived: list[Received] = []
        self._held: dict[tuple[str, str], _Hold] = {}
        # The queues that a poll has found empty, and the errors of those whose last poll has failed.
        self._emptied: set[str] = set()
        self._errors: dict[str, Exception] = {}
        self._to_delete: list[DeleteMessages] = []
        self._closed = False
        self._started = False

    @property
    def held(self) -> int:
        """How many messages were received and are not deleted."""
        with self._changed:
            return len(self._held)

    @property
    def was_emptied(self) -> bool:
        """Whether each queue was empty at least once, so that older messages have arrived."""
        with self._changed:
            return self._emptied >= self._queues.keys()

    def start(self) -> None:
        """Start to receive; only the first call has an effect."""
        if self._started:
            return
        self._started = True
        for url in self._queues:
            _thread(self._receive, url)
        _thread(self._keep)

    def close_with(self, owner: object) -> None:
        """Close the inbox when its owner is garbage collected, because a run may be abandoned."""
        weakref.finalize(owner, self.close).atexit = False

    def take(self, *, wait: bool) -> list[Received]:
        """The messages that have arrived since the last call, in order of arrival.

        Args:
            wait: wait until each queue was empty once, or no more messages may be held.

        Raises:
            Exception: a queue cannot be read at the moment. No message is lost.
        """
        with self._changed:
            if wait:
                self._changed.wait_for(self._is_settled)
            for error in self._errors.values():
                raise error
            arrived, self._arrived = self._arrived, []
            return arrived

    def give_back(self, messages: Iterable[Received]) -> None:
        """Put back messages that could not be handled: the next call of ``take`` returns them again."""
        with self._changed:
            self._arrived[:0] = messages

    def delete_soon(self, messages: Iterable[Received]) -> None:
        """Delete messages on another thread."""
        with self._changed:
            self._to_delete += in_parts(messages)
            self._changed.notify_all()

    def delete(self, action: DeleteMessages) -> bool:
        """Delete messages now, so that more may be received; False if this is not a queue of the inbox."""
        queue = self._queues.get(action.queue)
        if queue is None:
            return False
        delete_messages(queue, self._newest_receipts(action.queue, action.receipts))
        with self._changed:
            for receipt in action.receipts:
                self._held.pop((action.queue, receipt), None)
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """Stop receiving. Messages that were not deleted are delivered again later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_settled(self) -> bool:
        is_over = self._closed or not self._has_room()
        return is_over or self._emptied | self._errors.keys() >= self._queues.keys()

    def _has_room(self) -> bool:
        return len(self._held) < self._most_held

    def _is_done(self, url: str) -> bool:
        return self._closed or (self._until_empty and url in self._emptied)

    def _wait_for_room(self, url: str) -> bool:
        """Wait until more messages may be held; False if no more are to be received from this queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_done(url) or self._has_room())
            return not self._is_done(url)

    def _receive(self, url: str) -> None:
        """Receive the messages of one queue, until it is empty or the inbox is closed."""
        failures = 0
        while self._wait_for_room(url):
            answer = self._poll(url, waits=True)
            if isinstance(answer, Exception):
                pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
                failures += 1
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, timeout=pause_s)
                continue
            failures = 0
            if len(answer) == RECEIVED_AT_ONCE:
                _together(lambda: self._receive_the_rest(url), HELPERS)
        if self._closed:
            self._release()

    def _receive_the_rest(self, url: str) -> None:
        """Receive as long as answers are full."""
        while not self._closed and self._has_room():
            answer = self._poll(url, waits=False)
            if isinstance(answer, Exception) or len(answer) < RECEIVED_AT_ONCE:
                return

    def _poll(self, url: str, *, waits: bool) -> Sequence[Message] | Exception:
        """The messages of one poll, which are taken in, or why it failed."""
        answer: Sequence[Message] | Exception
        wait_s = 0.0
        if waits:
            # The wait is short until the queue was empty once, because others may wait for that.
            wait_s = _POLL_S if url in self._emptied else _SHORT_POLL_S
        try:
            answer = self._queues[url].receive(count=RECEIVED_AT_ONCE, wait_s=wait_s, hidden_s=self._hidden_s)
        except Exception as error:  # noqa: BLE001 - raised on the discovery thread
            answer = error
        until_s = time.monotonic() + self._hidden_s
        with self._changed:
            if isinstance(answer, Exception):
                self._errors[url] = answer
            else:
                self._errors.pop(url, None)
                # Only a poll that waits asks all servers of a service; otherwise an empty answer is no proof.
                if waits and not answer:
                    self._emptied.add(url)
                for message in answer:
                    self._held[url, message.receipt] = _Hold(message.receipt, until_s)
                    self._arrived.append(Received(queue=url, message=message))
            self._changed.notify_all()
        return answer

    def _newest_receipts(self, queue: str, receipts: Sequence[str]) -> list[str]:
        """The newest receipts of these messages, with which they can be deleted."""
        with self._changed:
            holds = [self._held.get((queue, receipt)) for receipt in receipts]
        return [old if hold is None else hold.receipt for old, hold in zip(receipts, holds, strict=True)]

    def _release(self) -> None:
        """Let others receive the messages that were not taken."""
        with self._changed:
            left, self._arrived = self._arrived, []
        for url, queue in self._queues.items():
            receipts = [item.message.receipt for item in left if item.queue == url]
            if receipts:
                with contextlib.suppress(Exception):
                    queue.extend(self._newest_receipts(url, receipts), 0)

    def _keep(self) -> None:
        """Delete messages that may be deleted at once, and keep the others hidden."""
        extended_s = time.monotonic()
        is_closed = False
        while not is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._to_delete, timeout=_KEEPER_S)
                is_closed = self._closed
                actions, self._to_delete = self._to_delete, []
            self._delete_all(actions)
            if time.monotonic() - extended_s >= _KEEPER_S and not is_closed:
                self._extend()
                extended_s = time.monotonic()

    def _delete_all(self, actions: Sequence[DeleteMessages]) -> None:
        left = iter(actions)

        def delete() -> None:
            for action in left:
                self.delete(action)

        # As many threads as receive, because a single one would not keep up with them.
        _together(delete, min(HELPERS, len(actions) - 1))

    def _extend(self) -> None:
        """Extend the hiding of messages that others could receive soon."""
        now_s = time.monotonic()
        due: dict[str, list[str]] = {}
        with self._changed:
            for (queue, receipt), hold in self._held.items():
                if hold.until_s - now_s < self._hidden_s / 2:
                    due.setdefault(queue, []).append(receipt)
        for queue, receipts in due.items():
            self._extend_in(queue, receipts, now_s + self._hidden_s)

    def _extend_in(self, queue: str, receipts: list[str], until_s: float) -> None:
        newest = self._newest_receipts(queue, receipts)
        changed: Mapping[str, str] = {}
        try:
            changed = self._queues[queue].extend(newest, self._hidden_s)
        except Exception as error:  # noqa: BLE001 - the messages are delivered again and are recognised
            LOG.warning("%d messages could not be kept hidden: %s", len(receipts), said_of(error))
        with self._changed:
            for receipt, before in zip(receipts, newest, strict=True):
                hold = self._held.get((queue, receipt))
                if hold is not None:
                    hold.receipt, hold.until_s = changed.get(before, before), until_s


def _thread(work: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, name="flip27-notifications", daemon=True)
    thread.start()
    return thread


def _together(work: Callable[[], None], helpers: int) -> None:
    """Call a function on this thread and, at the same time, on some others."""
    threads = [_thread(work) for _ in range(helpers)]
    work()
    for thread in threads:
        thread.join()
