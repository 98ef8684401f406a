"""What notifications keep in the state, and the action that deletes messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

KEPT_MESSAGES = 20
"""The most ignored messages that are kept; the log has all of them."""

KEPT_BODY = 2000
"""The most characters of a message that are kept and logged."""


class DeleteMessages(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Delete messages whose files are in the state.

    It is stored as an array, which distinguishes it from :class:`CleanFile`, an object.

    Attributes:
        queue: the URL of their queue.
        receipts: the receipts of their last delivery.
    """

    queue: str
    receipts: tuple[str, ...]

    def __repr__(self) -> str:
        return f"DeleteMessages(queue={self.queue!r}, {len(self.receipts)} messages)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredMessage:
    """A message that was deleted because it could not be understood.

    Attributes:
        body: its first characters.
    """

    queue: str
    message_id: str
    problem: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFile:
    """A version of a file that was removed before it was read; the next round forgets it."""

    path: str
    length: int
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationsState:
    """The state of notifications.

    Attributes:
        found_by_listing: the number of files that a listing found before any message named them.
        removed: the number of files that were removed before they were read.
        set_aside: the number of ignored messages; messages: the last of them.
        to_forget: files that were removed and are still known.
    """

    found_by_listing: int = 0
    removed: int = 0
    set_aside: int = 0
    messages: tuple[IgnoredMessage, ...] = ()
    to_forget: tuple[RemovedFile, ...] = ()

    @property
    def gauges(self) -> dict[str, int]:
        return {
            "filesFoundByListing": self.found_by_listing,
            "filesRemoved": self.removed,
            "messagesSetAside": self.set_aside,
        }

    def with_ignored(self, messages: Iterable[IgnoredMessage]) -> NotificationsState:
        more = tuple(messages)
        last = (*self.messages, *more)[-KEPT_MESSAGES:]
        return replace(self, set_aside=self.set_aside + len(more), messages=last)

    def with_removed(self, files: Sequence[RemovedFile]) -> NotificationsState:
        """The state in which these files, of which nothing was read, are to be forgotten."""
        return replace(self, removed=self.removed + len(files), to_forget=(*self.to_forget, *files))

    def without(self, forgotten: Iterable[RemovedFile]) -> NotificationsState:
        done = set(forgotten)
        return replace(self, to_forget=tuple(file for file in self.to_forget if file not in done))

    def moved(self, now: Callable[[str], str]) -> NotificationsState:
        """The state after a move of the files; ``now`` gives the new path of a file."""
        return replace(self, to_forget=tuple(replace(file, path=now(file.path)) for file in self.to_forget))


def text_of(body: str) -> str:
    """The beginning of a message's body, in a form that can be stored."""
    return body[:KEPT_BODY].encode("utf-8", "backslashreplace").decode()
