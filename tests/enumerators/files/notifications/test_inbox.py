"""The inbox: it holds a bounded number of messages of several queues, hidden until they are deleted."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from flip27_source.enumerators.files.notifications.deliveries import Acknowledgements
from flip27_source.enumerators.files.notifications.inbox import DELETED_AT_ONCE, Inbox, Received
from flip27_source.notifications import Message, NotificationQueue
from flip27_source.options import Options
from tests.deadline import until


class MemoryQueue(NotificationQueue):
    """A queue in memory. Receipts change each time they are extended, as in Azure."""

    def __init__(self, *names: str) -> None:
        super().__init__("memory", Options.parse({}, ()))
        self.visible = list(names)
        self.hidden: dict[str, str] = {}
        self.extended: list[str] = []
        self.error: Exception | None = None
        self._changed = threading.Condition()
        self._number = 0

    def put(self, *names: str) -> None:
        with self._changed:
            self.visible += names
            self._changed.notify_all()

    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        with self._changed:
            self._changed.wait_for(lambda: self.visible or self.error, timeout=min(wait_s, 0.05))
            if self.error is not None:
                raise self.error
            found, self.visible = self.visible[:count], self.visible[count:]
            self.hidden |= {f"receipt-{name}": name for name in found}
        return [Message(message_id=name, receipt=f"receipt-{name}") for name in found]

    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        changed = {}
        with self._changed:
            for receipt in receipts:
                self._number += 1
                name = self.hidden.pop(receipt)
                self.extended.append(name)
                if hidden_s == 0:
                    self.visible.append(name)
                    continue
                changed[receipt] = f"receipt-{name}-{self._number}"
                self.hidden[changed[receipt]] = name
        return changed

    def delete(self, receipts: Sequence[str]) -> None:
        if self.error is not None:
            raise self.error
        with self._changed:
            for receipt in receipts:
                self.hidden.pop(receipt)


@pytest.fixture
def inboxes() -> Iterator[list[Inbox]]:
    made: list[Inbox] = []
    yield made
    for inbox in made:
        inbox.close()


def inbox_of(made: list[Inbox], queues: Mapping[str, NotificationQueue], **given: Any) -> Inbox:
    inbox = Inbox(queues, **{"hidden_s": 300.0, "until_empty": True, **given})
    made.append(inbox)
    inbox.start()
    return inbox


def names(inbox: Inbox) -> set[str]:
    return {item.message.message_id for item in inbox.take(wait=True)}


def test_a_run_that_ends_waits_for_all_messages_of_all_queues(inboxes: list[Inbox]) -> None:
    many = {f"m{number}" for number in range(25)}
    inbox = inbox_of(inboxes, {"q": MemoryQueue(*many), "r": MemoryQueue("x")})
    assert names(inbox) == many | {"x"}
    assert inbox.was_emptied
    assert inbox.held == 26


def test_no_more_messages_are_received_than_may_be_held_until_some_are_deleted(inboxes: list[Inbox]) -> None:
    queue = MemoryQueue(*(f"m{number}" for number in range(200)))
    inbox = inbox_of(inboxes, {"q": queue}, most_held=50)
    first = inbox.take(wait=True)
    # Threads that receive at the same time may each add ten more.
    assert 50 <= len(first) <= 90
    inbox.delete_soon(first)
    until(lambda: len(inbox.take(wait=True)) > 0)


def test_messages_that_are_returned_are_received_again(inboxes: list[Inbox]) -> None:
    inbox = inbox_of(inboxes, {"q": MemoryQueue("a", "b")})
    taken = inbox.take(wait=True)
    inbox.give_back(taken)
    assert inbox.take(wait=True) == taken


def test_a_queue_that_fails_is_an_error_for_as_long_as_it_fails_and_loses_nothing(
    inboxes: list[Inbox],
) -> None:
    broken = MemoryQueue("a")
    broken.error = OSError("the queue is gone")
    inbox = inbox_of(inboxes, {"q": broken, "r": MemoryQueue("b")})
    for _ in range(2):
        with pytest.raises(OSError, match="the queue is gone"):
            inbox.take(wait=True)
    broken.error = None
    found: set[str] = set()

    def all_came() -> bool:
        try:
            found.update(names(inbox))
        except OSError:
            return False
        return found == {"a", "b"}

    until(all_came)


def test_messages_stay_hidden_while_they_are_held_and_are_deleted_with_their_newest_receipts(
    inboxes: list[Inbox],
) -> None:
    queue = MemoryQueue("a", "b")
    inbox = inbox_of(inboxes, {"q": queue}, hidden_s=0.001)
    taken = inbox.take(wait=True)
    until(lambda: {"a", "b"} <= set(queue.extended))
    inbox.delete_soon(taken)
    until(lambda: not queue.hidden)
    assert inbox.held == 0


def test_a_failed_deletion_is_logged_and_the_message_is_no_longer_held(
    inboxes: list[Inbox], caplog: pytest.LogCaptureFixture
) -> None:
    queue = MemoryQueue("a")
    inbox = inbox_of(inboxes, {"q": queue})
    taken = inbox.take(wait=True)
    queue.error = OSError("the queue is gone")
    inbox.delete_soon(taken)
    until(lambda: inbox.held == 0)
    assert "1 messages could not be deleted and will be delivered again" in caplog.text


class DeletedInPairs(MemoryQueue):
    """A queue whose ``delete`` returns only when two calls run at the same time."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self._pair = threading.Barrier(2, timeout=30)

    def delete(self, receipts: Sequence[str]) -> None:
        self._pair.wait()
        super().delete(receipts)


def test_many_messages_are_deleted_by_concurrent_requests(inboxes: list[Inbox]) -> None:
    queue = DeletedInPairs(*(str(number) for number in range(2 * DELETED_AT_ONCE)))
    inbox = inbox_of(inboxes, {"q": queue})
    inbox.delete_soon(inbox.take(wait=True))
    until(lambda: inbox.held == 0)
    assert queue.hidden == {}


def test_unused_messages_are_returned_when_a_run_ends(inboxes: list[Inbox]) -> None:
    queue = MemoryQueue("a")
    inbox = inbox_of(inboxes, {"q": queue}, until_empty=False)
    until(lambda: inbox.held == 1)
    inbox.close()
    until(lambda: queue.visible == ["a"])


class Run:
    """The owner of an inbox."""


def test_the_threads_of_a_run_end_when_the_run_is_garbage_collected() -> None:
    """A driver that a test kills leaves threads behind, which must not continue to receive messages."""
    before = set(threading.enumerate())
    run = Run()
    inbox = Inbox({"q": MemoryQueue()}, hidden_s=300.0, until_empty=False)
    inbox.close_with(run)
    inbox.start()
    inbox.take(wait=True)
    threads = set(threading.enumerate()) - before
    assert all(thread.is_alive() for thread in threads)
    del run
    gc.collect()
    until(lambda: not any(thread.is_alive() for thread in threads))


def received(name: str) -> Received:
    return Received(queue="https://queue", message=Message(message_id=name, receipt=name))


A, B = received("a"), received("b")


def test_a_message_that_does_not_change_the_state_is_deleted_at_once() -> None:
    assert Acknowledgements().handled([A], has_changed=False) == ([A], [])


def test_a_duplicate_message_waits_with_the_first_one_until_their_file_is_in_a_checkpoint() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    assert acknowledgements.handled([B], has_changed=False) == ([], [B])


def test_a_duplicate_message_waits_while_the_batch_of_the_checkpoint_runs() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    acknowledgements.saved(3)
    assert not acknowledgements.is_unsaved
    assert acknowledgements.handled([B], has_changed=False) == ([], [])
    assert acknowledgements.completed(2) == []
    assert acknowledgements.completed(3) == [B]
    assert acknowledgements.handled([A], has_changed=False) == ([A], [])


def test_a_change_while_a_batch_runs_waits_for_the_checkpoint_after_it() -> None:
    acknowledgements = Acknowledgements()
    acknowledgements.handled([A], has_changed=True)
    acknowledgements.saved(3)
    assert acknowledgements.handled([B], has_changed=True) == ([], [B])
    assert acknowledgements.completed(3) == []
    assert acknowledgements.is_unsaved
