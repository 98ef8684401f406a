"""Rounds of discovery by notifications: the files that messages name, and a listing from time to time.

Everything here runs on the discovery thread, except the methods of :class:`NotificationRounds` that say
otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from flip27_source.discovery import Discovery
from flip27_source.enumerators.files.known.exact import version_key
from flip27_source.enumerators.files.known.hashes import SeenFiles, path_hash
from flip27_source.enumerators.files.known.strategy import FilesPosition
from flip27_source.enumerators.files.listing.walk import FileFound, FileInfo, Lister
from flip27_source.enumerators.files.notifications.inbox import Inbox, Received
from flip27_source.enumerators.files.notifications.state import (
    MessageSetAside,
    RemovedFile,
    text_of,
)
from flip27_source.enumerators.files.split import FileSplit
from flip27_source.file_systems.moved_paths import before_moves
from flip27_source.notifications import FileEvent

_THREADS = 16
_SETTLED_S = 60.0
"""A queue that is never empty delays the first listing of a run by no more than this."""

Found = tuple[list[FileSplit], FilesPosition]


@dataclass(frozen=True, slots=True)
class NotifiedDiscovery(Discovery[FileSplit, FilesPosition]):
    """The result of one round.

    Attributes:
        messages: the messages that were handled.
        set_aside: the handled messages that could not be understood.
        gone: paths that messages name as removed, and that do not exist.
        forgotten: removed files that are no longer known.
        found_by_listing: how many of the files no message has named.
    """

    messages: tuple[Received, ...] = ()
    set_aside: tuple[MessageSetAside, ...] = ()
    gone: frozenset[str] = frozenset()
    forgotten: tuple[RemovedFile, ...] = ()
    found_by_listing: int = 0


class NotifiedFiles(Lister):
    """The files that messages name, with what the file system says about them."""

    def __init__(self, files: Mapping[str, FileInfo | None]) -> None:
        self._files = files

    def check_root(self) -> None:
        """There is nothing to check."""

    def files(self, *, recursive: bool) -> Iterator[FileFound]:
        """All of these files."""
        return ((path, partial(self._files.get, path)) for path in self._files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searches:
    """The searches that a round needs from the enumerator.

    Attributes:
        unknown: returns the given paths that may be new since a position.
        among: returns the new files of a lister, and the position after them.
        everywhere: returns the new files of a full listing, and the position after them.
        must_list: returns whether only a full listing can continue from a position.
    """

    unknown: Callable[[Sequence[str], FilesPosition], Sequence[str]]
    among: Callable[[Lister, FilesPosition], Found]
    everywhere: Callable[[FilesPosition | None], Found]
    must_list: Callable[[FilesPosition | None], bool]


@dataclass(slots=True)
class _Named:
    """What the messages of one round name, in the spelling of a listing."""

    written: dict[str, Callable[[], FileInfo | None]] = field(default_factory=dict)
    removed: dict[str, Callable[[], FileInfo | None]] = field(default_factory=dict)
    set_aside: list[MessageSetAside] = field(default_factory=list)


class NotificationRounds:
    """The rounds of one run.

    Args:
        interval_s: time between two full listings; None: only one at the start of the run.
        is_bounded: the run has one round, which empties the queues and lists everything.
        may_wait: whether found files may wait to be read at the start of the run.
    """

    def __init__(
        self,
        inbox: Inbox,
        lister: Lister,
        *,
        recursive: bool,
        name_only: bool,
        interval_s: float | None,
        is_bounded: bool,
        may_wait: bool,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inbox = inbox
        self._lister = lister
        self._recursive = recursive
        self._name_only = name_only
        self._interval_s = interval_s
        self._is_bounded = is_bounded
        self._now_s = now_s
        self._began_s = now_s()
        self._listed_s: float | None = None
        self._lock = threading.Lock()
        self._to_forget: list[RemovedFile] = []
        self.may_wait = may_wait
        """Whether found files may wait to be read; the coordinator's thread sets it too."""

    def forget(self, files: Iterable[RemovedFile]) -> None:
        """Let the next round forget these files. Any thread may call this."""
        with self._lock:
            self._to_forget += files

    def next(self, position: FilesPosition | None, searches: Searches) -> NotifiedDiscovery:
        """Run one round.

        Raises:
            Exception: a request to a queue or to the file system failed. Nothing is lost: the next round has
                the same messages.
        """
        files: list[FileSplit] = []
        now_s = self._now_s()
        if is_first := searches.must_list(position):
            files, position = searches.everywhere(position)
        assert position is not None
        self._inbox.start()
        messages = self._inbox.take(wait=self._is_bounded)
        try:
            return self._handled(position, messages, searches, files, is_listed=is_first, now_s=now_s)
        except BaseException:
            self._inbox.give_back(messages)
            raise

    def _handled(
        self,
        position: FilesPosition,
        messages: list[Received],
        searches: Searches,
        files: list[FileSplit],
        *,
        is_listed: bool,
        now_s: float,
    ) -> NotifiedDiscovery:
        with self._lock:
            forgotten = tuple(dict.fromkeys((*_restored(position), *self._to_forget)))
        position = without_files(position, forgotten, name_only=self._name_only)
        named = self._named(messages)
        found_by_listing = 0
        if not is_listed and self._is_listing_due(now_s):
            # Before the requests for single files: a file that the listing finds needs none.
            listed, position = searches.everywhere(position)
            found_by_listing = len({split.path for split in listed} - named.written.keys())
            files = files + listed
            is_listed = True
        unknown = searches.unknown(list(named.written), position)
        notified, position = searches.among(
            NotifiedFiles(_asked({path: named.written[path] for path in unknown})), position
        )
        gone = self._gone(named.removed)
        if is_listed:
            self._listed_s = now_s
        files = files + notified
        self.may_wait = self.may_wait or bool(files)
        with self._lock:
            self._to_forget = [file for file in self._to_forget if file not in forgotten]
        return NotifiedDiscovery(
            files, position, tuple(messages), tuple(named.set_aside), gone, forgotten, found_by_listing
        )

    def _named(self, messages: Iterable[Received]) -> _Named:
        named = _Named()
        for item in messages:
            message = item.message
            not_text = _path_that_is_not_text(message.events)
            problem = message.problem or not_text
            if problem is not None:
                named.set_aside.append(
                    MessageSetAside(
                        queue=item.queue,
                        message_id=message.message_id,
                        problem=text_of(problem),
                        body=text_of(message.body),
                    )
                )
            for event in () if not_text else message.events:
                found = self._lister.entry(event.path, recursive=self._recursive)
                if found is not None:
                    (named.removed if event.removed else named.written)[found[0]] = found[1]
        return named

    def _gone(self, removed: Mapping[str, Callable[[], FileInfo | None]]) -> frozenset[str]:
        """The paths that do not exist: messages may be late and out of order, and a file written again."""
        if not (removed and self.may_wait):
            return frozenset()
        return frozenset(path for path, info in _asked(removed).items() if info is None)

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


def _asked(infos: Mapping[str, Callable[[], FileInfo | None]]) -> dict[str, FileInfo | None]:
    """What the file system says about these files, several at once."""
    if not infos:
        return {}
    with ThreadPoolExecutor(min(_THREADS, len(infos)), thread_name_prefix="flip27-notified") as threads:
        return dict(zip(infos, threads.map(lambda info: info(), infos.values()), strict=True))


def _restored(position: FilesPosition) -> tuple[RemovedFile, ...]:
    state = position.notified
    return () if not state else state.to_forget


def without_files(
    position: FilesPosition, files: Collection[RemovedFile], *, name_only: bool
) -> FilesPosition:
    """The position that does not know these files, so that they are found again if they are written again."""
    state = position.notified
    if state:
        position = replace(position, notified=state.without(files))
    if not files:
        return position
    paths = {path_hash(_identity(file.path, position, name_only=name_only)) for file in files}
    seen = SeenFiles(position.seen).without(paths)
    position = replace(position, seen=seen.runs, files=len(seen))
    if position.versions is None:
        return position
    versions = {
        version_key(before_moves(file.path, position.moves), file.version or "", file.length)
        for file in files
    }
    return replace(position, versions=SeenFiles(position.versions).without(versions).runs)


def _identity(path: str, position: FilesPosition, *, name_only: bool) -> str:
    return path.rpartition("/")[2] if name_only else before_moves(path, position.moves)
