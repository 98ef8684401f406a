"""Sources: what the pages show of each lineage at the given locations, read again at most once a second."""

from __future__ import annotations

import datetime as dt
import shlex
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass

from flip27_source.errors import Flip27Error, StateLocationError
from flip27_source.file_systems.paths import redacted
from flip27_source.file_systems.secrets_in_texts import Hidden
from flip27_source.log import LOG
from flip27_source.snapshots.driver_epochs import WrittenCheckpoint
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.state_tables.history import History
from flip27_source.values.times import datetime_or_none

from ..state.rows import Place
from ..watch.view import Batch, Frame, Watcher, read_batch

_NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WORST_FIRST = ("failed", "lost", "stopped", "unknown", None, "running")
SAME_LOOK_S = 1.0
"""Requests within this time see one look, so that several windows do not read more."""
LATE_S = 3.0
"""How long the page of all sources waits for a place."""
ASKED_EVERY_S = 10.0
"""Within this time a source itself is asked once."""
ANSWER_S = 10.0
"""How long a page of a source waits for its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One lineage at one moment. Attributes: key: its place in URLs. place: where it was found."""

    key: str
    place: Place
    history: History
    frame: Frame

    @property
    def location(self) -> str:
        return redacted(self.place.location)

    @property
    def since(self) -> dt.datetime | None:
        """Since when its driver is in its condition."""
        return datetime_or_none(self.history.driver and self.history.driver.since_ms)

    @property
    def failed(self) -> Sequence[tuple[dt.datetime | None, str]]:
        """The checkpoints that failed and are kept, newest first: when, and why."""
        failed = self.history.record.failed if self.history.record else ()
        return [(datetime_or_none(item.at_ms), item.error) for item in reversed(failed)]

    @property
    def written(self) -> Sequence[WrittenCheckpoint]:
        """The checkpoints of its driver of which it is known how long they took."""
        return self.history.record.written if self.history.record else ()

    @property
    def state(self) -> str:
        """The options that name this source in commands, for a shell."""
        at = redacted(self.place.key(self.history)[0])
        return shlex.join(["--state", at, "--lineage", self.frame.lineage])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A location or lineage that cannot be read; ``key``: that of its source, or how those of it begin."""

    key: str
    location: str
    error: Flip27Error


class Watched:
    """One place, and what the newest look at it has found.

    Looks run on threads of their own, so that a store that does not answer holds nobody who looks elsewhere,
    nor the end of the program.

    Attributes:
        busy: held by a look, and by who reads more of what it has found.
        at: when ``found`` and ``unread`` were found.
    """

    def __init__(self, number: int, place: Place) -> None:
        self.number = number
        self.busy = threading.Lock()
        self.found: Sequence[Source] = ()
        self.unread: Sequence[Unread] = ()
        self.at = _NEVER
        self._watcher = Watcher(place)
        self._beginning = threading.Lock()
        self._look: Future[None] = Future()
        self._look.set_result(None)
        self._began_s = 0.0
        self._is_reading = False
        self._asked: dict[str, tuple[float, threading.Thread]] = {}
        self._batches: dict[tuple[str, CheckpointName], Batch] = {}

    @property
    def location(self) -> str:
        return redacted(self._watcher.place.location)

    def look(self, now: dt.datetime, *, again: bool = False) -> Future[None]:
        """Begin a look, unless one is under way or has just been made; ``again``: even then."""
        with self._beginning:
            is_recent = not again and 0 <= (now - self.at).total_seconds() < SAME_LOOK_S
            if self._look.done() and not is_recent:
                self._look, self._began_s, self._is_reading = Future(), time.monotonic(), False
                threading.Thread(target=self._run, args=(now, self._look), daemon=True).start()
            elif self._look.done():
                self._look = Future()
                self._look.set_result(None)
            return self._look

    def _run(self, now: dt.datetime, look: Future[None]) -> None:
        try:
            with self.busy:
                self._is_reading, self._began_s = True, time.monotonic()
                self._read(now)
            look.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised for who waits
            look.set_exception(error)

    def _read(self, now: dt.datetime) -> None:
        errors: dict[str, Flip27Error] = {}
        found: list[Source] = []
        try:
            for history, frame in self._watcher.look(now, errors):
                key, place = f"{self.number}/{frame.lineage}", self._watcher.place
                found.append(Source(key=key, place=place, history=history, frame=frame))
        except Flip27Error as error:
            errors[""] = error
        at = self.location
        # Only now: after an unexpected error nobody may take the sources of before for those of this time.
        self.at, self.found = now, found
        self.unread = [
            Unread(
                key=f"{self.number}/{name}", location=f"{at.rstrip('/')}/{name}" if name else at, error=met
            )
            for name, met in errors.items()
        ]
        keys = {source.key for source in found}
        self._batches = {key: batch for key, batch in self._batches.items() if key[0] in keys}

    def look_into(
        self, given: Mapping[str, str], now: dt.datetime, only: str | None, limit_s: float | None
    ) -> None:
        """Begin to look into the sources themselves on a thread, unless that was just done, or is under way.

        Args:
            given: the options that the states do not have. only: a lineage; None: all of them.
            limit_s: for how long to wait for the end; None: until it has come.
        """
        key = only or ""
        with self._beginning:
            if any(asking.is_alive() for at, (_, asking) in self._asked.items() if at in ("", key)):
                return
            if key in self._asked and time.monotonic() - self._asked[key][0] < ASKED_EVERY_S:
                return
            asking = threading.Thread(target=self._ask, args=(given, now, only), daemon=True)
            self._asked[key] = time.monotonic(), asking
            asking.start()
        asking.join(limit_s)

    def _ask(self, given: Mapping[str, str], now: dt.datetime, only: str | None) -> None:
        # With a watcher of its own: the source may be slow, and the pages go on meanwhile.
        asking = Watcher(self._watcher.place)
        try:
            asking.look_into_sources(given, now, only)
        except Flip27Error as error:  # the pages show that the state cannot be read
            said = Hidden(given).in_text(str(error))
            LOG.warning("%s: no look into its sources: %s", self.location, said)
        self._watcher.looked.update(asking.looked)

    @property
    def silence(self) -> Unread | None:
        """That a look takes long; None if it does not. A page that searches may hold it up for seconds."""
        # It begins to read a moment after it was begun.
        long_s = 0.9 * LATE_S if self._is_reading else ANSWER_S
        if self._look.done() or time.monotonic() - self._began_s < long_s:
            return None
        old = f": what is shown of it is as of {self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at > _NEVER else ""
        return Unread(key="", location=self.location, error=self.no_answer(old))

    def no_answer(self, more: str = "") -> StateLocationError:
        return StateLocationError(
            f"{self.location} has not answered for {time.monotonic() - self._began_s:.0f} s{more}",
            remedy="check the network and the store; the other pages do not wait for it",
        )

    def batches(
        self, source: Source, names: Sequence[CheckpointName]
    ) -> Iterator[tuple[CheckpointName, Batch]]:
        """These checkpoints, with their batches; those before the newest are read once."""
        line = source.history.line()
        # Others are not over: tasks may report, and Spark may log the batch.
        known = {(source.key, name) for name in line.names[:-1]}
        self._batches = {k: batch for k, batch in self._batches.items() if k[0] != source.key or k in known}
        for name in names:
            batch = self._batches.get((source.key, name)) or read_batch(source.history, name)
            if batch is None:
                continue  # clean-up has removed it
            if (source.key, name) in known:
                self._batches[source.key, name] = batch
            yield name, batch


class Sources:
    """What is at all places; if a lineage is at several, the first one shows it."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = [Watched(number, place) for number, place in enumerate(places)]

    @property
    def at(self) -> dt.datetime:
        """When the newest look was."""
        return max(place.at for place in self.places)

    @property
    def found(self) -> list[Source]:
        """The sources, worst first."""
        found: dict[tuple[str, str], Source] = {}
        for place in self.places:
            for source in place.found:
                found.setdefault(source.place.key(source.history), source)
        return sorted(found.values(), key=lambda source: _WORST_FIRST.index(source.frame.condition))

    @property
    def unread(self) -> list[Unread]:
        """What could not be read, or has not answered yet."""
        silent = [said for place in self.places if (said := place.silence)]
        return [*silent, *(item for place in self.places for item in place.unread)]

    def look(self, now: dt.datetime, *, again: bool = False, limit_s: float | None = None) -> None:
        """Bring ``found`` and ``unread`` up to date; ``again``: even if they just were.

        Args:
            limit_s: for how long to wait for places that do not answer; None: until they do.
        """
        looks = [place.look(now, again=again) for place in self.places]
        for look in wait(looks, limit_s).done:
            look.result()

    def look_into(
        self,
        given: Mapping[str, str],
        now: dt.datetime,
        key: str | None = None,
        *,
        limit_s: float | None = 0.0,
    ) -> None:
        """Begin to look into the sources themselves, or into that of a key; ``limit_s``: as there."""
        for place in self.places:
            if key is None or place is self._place(key):
                place.look_into(given, now, None if key is None else key.partition("/")[2], limit_s)

    @contextmanager
    def held(self, key: str, now: dt.datetime, *, again: bool = False) -> Iterator[None]:
        """Bring the place of a source up to date, and let no look change it meanwhile.

        Args:
            key: of the source; one that does not exist holds nothing.

        Raises:
            StateLocationError: the place does not answer in time.
        """
        place = self._place(key)
        if place is None:
            yield
            return
        look = place.look(now, again=again)
        if not wait([look], ANSWER_S).done:
            raise place.no_answer()
        look.result()
        if not place.busy.acquire(timeout=ANSWER_S):
            raise place.no_answer()
        try:
            yield
        finally:
            place.busy.release()

    def _place(self, key: str) -> Watched | None:
        return next((one for one in self.places if str(one.number) == key.partition("/")[0]), None)

    def source(self, key: str) -> Source | None:
        """The source of a URL; None if it does not exist; raises Flip27Error if it cannot be read."""
        place = self._place(key)
        if place is None:
            return None
        for item in place.unread:
            if item.key in (key, f"{place.number}/"):
                raise item.error
        return next((source for source in place.found if source.key == key), None)

    def batches(
        self, source: Source, names: Sequence[CheckpointName]
    ) -> Iterator[tuple[CheckpointName, Batch]]:
        """As :meth:`Watched.batches` of its place."""
        place = self._place(source.key)
        assert place is not None
        return place.batches(source, names)
