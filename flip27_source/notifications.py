"""NotificationQueue: the contract of queues that say which files were written or removed.

What must not live here: a queue of any service. Pure: no I/O.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEvent:
    """What a message says about one file.

    Attributes:
        path: the path as a listing gives it: ``s3://bucket/key``, not encoded.
        removed: whether the file was removed; otherwise it was written.
    """

    path: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a queue.

    Attributes:
        message_id: the same each time the message is received; for people.
        receipt: identifies this delivery in ``extend`` and ``delete``.
        events: what it says; empty if it says nothing about files.
        problem: why it cannot be understood; such a message is ignored. None if it was understood.
        body: its text; stored and logged, in part, if there is a problem.
    """

    message_id: str
    receipt: str
    events: tuple[FileEvent, ...] = ()
    problem: str | None = None
    body: str = ""


class NotificationQueue(ABC):
    """A queue of messages about files.

    One instance is used by several threads at once. Its methods may raise any error: a failed ``receive`` is
    retried like any discovery; after a failed ``extend`` or ``delete`` the message is delivered again, and is
    recognised by its files. No error may contain a secret.
    """

    def __init__(self, url: str, options: Options) -> None:
        """Do no I/O here.

        Args:
            url: the queue's part of ``notificationQueues``.
            options: the options of the source; ``options.with_prefix("storage.")`` returns those of the file
                system.
        """
        self.url = url
        self.options = options

    @abstractmethod
    def receive(self, *, count: int, wait_s: float, hidden_s: float) -> Sequence[Message]:
        """Receive messages that no other receiver has; return none if none arrives within ``wait_s`` seconds.

        Args:
            count: the maximum number of messages.
            hidden_s: for this number of seconds no other call receives these messages.
        """

    @abstractmethod
    def extend(self, receipts: Sequence[str], hidden_s: float) -> Mapping[str, str]:
        """Hide received messages for ``hidden_s`` seconds from now; with 0 others may receive them at once.

        A message that no longer exists, or that another receiver has, is left out without an error.

        Returns:
            The new receipts of messages whose receipts have changed, by the old receipt; usually empty.
        """

    @abstractmethod
    def delete(self, receipts: Sequence[str]) -> None:
        """Delete at most 100 messages. A message that no longer exists is not an error."""
