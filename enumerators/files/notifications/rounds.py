"""Rounds of discovery by notifications: the files that messages name, and a listing from time to time.

Everything here runs on the discovery thread, except the methods of :class:`NotificationRounds` that say
otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flip27_source.discovery import Discovery
from flip27_source.enumerators.files.forgotten_files import without_removed
from flip27_source.enumerators.files.listing.lister import FileInfo
from flip27_source.enumerators.files.notifications.inbox import Inbox, Received
from flip27_source.enumerators.files.notifications.state import IgnoredMessage, RemovedFile, text_of
from flip27_source.enumerators.files.options import BACKFILL_INTERVAL, FILE_NAME_ONLY
from flip27_source.enumerators.files.position import FilesPosition
from flip27_source.enumerators.files.search import FileSearch, requested
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.notifications import FileEvent
from flip27_source.options import Options

_SETTLED_S = 60.0
"""A queue that is never empty delays the first listing of a run by no more than this."""


@dataclass(frozen=True, slots=True)
class NotifiedDiscovery(Discovery[FileSplit, FilesPosition]):
    """The result of one round.

    Attributes:
        messages: the messages that were handled.
        ignored: the handled messages that could not be understood.
        gone: paths that messages name as removed, and that do not exist.
        forgotten: removed files that are no longer known.
        found_by_listing: how many of the files no message has named.
    """

    messages: tuple[Received, ...] = ()
    ignored: tuple[IgnoredMessage, ...] = ()
    gone: frozenset[str] = frozenset()
    forgotten: tuple[RemovedFile, ...] = ()
    found_by_listing: int = 0


@dataclass(slots=True)
class _Named:
    """What the messages of one round name: paths in the spelling of a listing, with requests for them."""

    written: dict[str, Callable[[], FileInfo | None]] = field(default_factory=dict)
    removed: dict[str, Callable[[], FileInfo | None]] = field(default_factory=dict)
    ignored: list[IgnoredMessage] = field(default_factory=list)


class NotificationRounds:
    """The rounds of one run.

    Args:
        is_bounded: the run has one round, which empties the queues and lists everything.
        to_forget: files that were removed before this run and are still known.
        may_wait: whether found files may wait to be read at the start of the run.
    """

    def __init__(
        self,
        inbox: Inbox,
        search: FileSearch,
        options: Options,
        *,
        is_bounded: bool,
        to_forget: Iterable[RemovedFile],
        may_wait: bool,
    ) -> None:
        self._inbox = inbox
        self._search = search
        self._name_only = options[FILE_NAME_ONLY]
        self._interval_s = options[BACKFILL_INTERVAL]
        self._is_bounded = is_bounded
        self._began_s = time.monotonic()
        self._listed_s: float | None = None
        self._lock = threading.Lock()
        self._to_forget = dict.fromkeys(to_forget)
        self._undelivered = 0
        """The number of rounds that have found files and are not delivered."""
        self.may_wait = may_wait
        """Whether files of delivered rounds may wait to be read; the coordinator's thread sets it."""

    def delivered(self, round: NotifiedDiscovery, dropped: Iterable[RemovedFile]) -> None:
        """Let the next round forget the files that were dropped. Any thread may call this."""
        with self._lock:
            self._undelivered -= bool(round.splits)
            self._to_forget |= dict.fromkeys(dropped)

    def next(self, position: FilesPosition | None) -> NotifiedDiscovery:
        """Run one round.

        Raises:
            Exception: a request to a queue or to the file system failed. Nothing is lost: the next round has
                the same messages.
        """
        now_s = time.monotonic()
        listed: list[FileSplit] | None = None
        if position is None or self._search.must_list(position):
            listed, position = self._search.everywhere(position)
        self._inbox.start()
        messages = self._inbox.take(wait=self._is_bounded)
        try:
            return self._handled(messages, listed, position, now_s)
        except BaseException:
            self._inbox.give_back(messages)
            raise

    def _handled(
        self, messages: list[Received], listed: list[FileSplit] | None, position: FilesPosition, now_s: float
    ) -> NotifiedDiscovery:
        """Find the files that the messages name, after the files that a listing has found in this round."""
        with self._lock:
            forgotten = tuple(self._to_forget)
        position = without_removed(position, forgotten, name_only=self._name_only)
        named = self._named(messages)
        for file in forgotten:
            # A message about a file that exists again may have come while the file was still known.
            self._name(file.path, named.written)
        found_by_listing = 0
        if listed is None and self._is_listing_due(now_s):
            # Before the requests for single files: a file that the listing finds needs none.
            listed, position = self._search.everywhere(position)
            found_by_listing = len({split.path for split in listed} - named.written.keys())
        notified, position = self._search.among(named.written, position)
        gone = self._gone(named)
        if listed is not None:
            self._listed_s = now_s
        files = [*(listed or ()), *notified]
        with self._lock:
            self._undelivered += bool(files)
            for file in forgotten:
                self._to_forget.pop(file, None)
        return NotifiedDiscovery(
            files, position, tuple(messages), tuple(named.ignored), gone, forgotten, found_by_listing
        )

    def _named(self, messages: Iterable[Received]) -> _Named:
        named = _Named()
        for item in messages:
            message = item.message
            not_text = _path_that_is_not_text(message.events)
            problem = message.problem or not_text
            if problem is not None:
                named.ignored.append(
                    IgnoredMessage(
                        queue=item.queue,
                        message_id=message.message_id,
                        problem=text_of(problem),
                        body=text_of(message.body),
                    )
                )
            for event in () if not_text else message.events:
                self._name(event.path, named.removed if event.removed else named.written)
        return named

    def _name(self, path: str, among: dict[str, Callable[[], FileInfo | None]]) -> None:
        entry = self._search.listing.lister.entry(path, recursive=self._search.listing.recursive)
        if entry is not None:
            among[entry[0]] = entry[1]

    def _gone(self, named: _Named) -> frozenset[str]:
        """The paths that do not exist: messages may be late and out of order, and a file written again."""
        if not (self.may_wait or self._undelivered):
            return frozenset()
        return frozenset(path for path, info in requested(named.removed).items() if info is None)

    def _is_listing_due(self, now_s: float) -> bool:
        if self._listed_s is None:
            # Files whose messages wait in the queues must not count as found by the listing.
            is_settled = self._inbox.was_emptied or now_s - self._began_s >= _SETTLED_S
            return self._is_bounded or is_settled
        return self._interval_s is not None and now_s - self._listed_s >= self._interval_s


def _path_that_is_not_text(events: Iterable[FileEvent]) -> str | None:
    """A problem for a path that cannot be stored; None if all paths can be."""
    try:
        for event in events:
            event.path.encode()
    except UnicodeEncodeError as error:
        return f"the path {error.object!r:.300} is not text: {error.reason}"
    return None
