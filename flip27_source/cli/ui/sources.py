"""Sources: what the pages show of each lineage at the given locations, read again at most once a second."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flip27_source.errors import Flip27Error
from flip27_source.file_systems.paths import redacted
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.state_tables.history import History
from flip27_source.values.times import datetime_or_none

from ..state.rows import Place
from ..watch.view import Batch, Frame, Watcher, read_batch

_WORST_FIRST = ("failed", "lost", "stopped", "unknown", None, "running")
SAME_LOOK_S = 1.0
"""Requests within this time see one look, so that several windows do not read more."""


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
        driver = self.history.driver
        return None if driver is None or driver.since_ms is None else datetime_or_none(driver.since_ms)

    @property
    def failed(self) -> Sequence[tuple[dt.datetime | None, str]]:
        """The checkpoints that failed and are kept, newest first: when, and why."""
        record = self.history.driver and self.history.driver.driver.record
        return [(datetime_or_none(item.at_ms), item.error) for item in (record.failed if record else ())][
            ::-1
        ]

    @property
    def state(self) -> str:
        """The options that name this source in commands, for a shell."""
        at = redacted(self.history.lineage.parent or self.place.location)
        return shlex.join(["--state", at, "--lineage", self.frame.lineage])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A location or lineage that cannot be read; ``key``: that of its source, or how those of it begin."""

    key: str
    location: str
    error: Flip27Error


@dataclass(slots=True)
class Sources:
    """Reads all locations; not for several threads at once.

    Args:
        places: if a lineage is at several, the first one shows it.
    """

    places: Sequence[Place]
    found: list[Source] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    at: dt.datetime = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    _watchers: list[Watcher] = field(init=False)
    _batches: dict[tuple[str, CheckpointName], Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watchers = [Watcher(place) for place in self.places]

    def look(self, now: dt.datetime, *, again: bool = False) -> None:
        """Bring ``found``, worst first, and ``unread`` up to date; ``again``: even if they just were."""
        if not again and 0 <= (now - self.at).total_seconds() < SAME_LOOK_S:
            return
        unread: list[Unread] = []
        found: dict[tuple[str, str], Source] = {}
        for number, watcher in enumerate(self._watchers):
            errors: dict[str, Flip27Error] = {}
            try:
                for history, frame in watcher.look(now, errors):
                    key, place = f"{number}/{frame.lineage}", watcher.place
                    source = Source(key=key, place=place, history=history, frame=frame)
                    found.setdefault((history.lineage.parent or place.location, frame.lineage), source)
            except Flip27Error as error:
                errors[""] = error
            at = redacted(watcher.place.location)
            for name, met in errors.items():
                location = f"{at.rstrip('/')}/{name}" if name else at
                unread.append(Unread(key=f"{number}/{name}", location=location, error=met))
        # Only now: after an unexpected error nobody may take the sources of before for those of this time.
        self.at, self.unread = now, unread
        self.found = sorted(found.values(), key=lambda source: _WORST_FIRST.index(source.frame.condition))
        keys = {source.key for source in self.found}
        self._batches = {key: batch for key, batch in self._batches.items() if key[0] in keys}

    def source(self, key: str) -> Source | None:
        """The source of a URL; None if it does not exist; raises Flip27Error if it cannot be read."""
        for item in self.unread:
            if item.key in (key, key.partition("/")[0] + "/"):
                raise item.error
        return next((source for source in self.found if source.key == key), None)

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
