"""States: the metrics of queries from their states alone, so that they outlive the queries' processes.

Each location has a thread that looks at it: a store that is slow or gone does not delay the others, and a
scrape reads what the last looks have found. Unlike the page, which looks when somebody opens it and says what
cannot be read, a scrape must not wait, and numbers outlast a store's short outage.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flip27_source.errors import Flip27Error, said_of
from flip27_source.metrics import catalog
from flip27_source.metrics.progress import SourceProgress, error_class, progress_of
from flip27_source.metrics.query_metrics import Sample, in_order, seconds_since, source_samples
from flip27_source.snapshots.driver_condition import Condition, DriverCondition
from flip27_source.snapshots.file_names import uid_in
from flip27_source.state_tables.history import PENDING, History
from flip27_source.values.times import datetime_or_none

from ..state.rows import Place
from ..watch.standing import numbers_of
from ..watch.view import Frame, Watcher

LOOKS_KEPT = 4
"""For how many intervals the numbers of a state that cannot be read are exported."""

FIRST_LOOKS_S = 10.0
"""How long the start waits for stores: what answers by then is in the first scrape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """One lineage as one look has seen it.

    Attributes:
        key: of its place. uid: of its source.
        batch_id: of the query's newest complete batch, which may be one without data of the source; None
            unless Spark's checkpoint was given.
    """

    key: tuple[str, str]
    uid: str
    driver: DriverCondition | None
    frame: Frame
    progress: SourceProgress | None
    batch_id: int | None
    max_event_time: dt.datetime | None

    @classmethod
    def of(cls, place: Place, history: History, frame: Frame) -> StoredSource:
        lineage, driver = history.lineage, history.driver
        uid = uid_in(lineage.name)
        if lineage.held:  # the state is in Spark's offsets, which name the source
            source = history.source()
            uid = "unknown" if source is None else source.uid
        progress = None if frame.checkpoint_id is None else _progress(history, frame, uid)
        reported = None if progress is None else progress.max_event_time
        if reported is None and frame.event_time_lag_s is not None:
            reported = frame.at - dt.timedelta(seconds=frame.event_time_lag_s)
        return cls(
            key=place.key(history),
            uid=uid,
            driver=driver,
            frame=frame,
            progress=progress,
            batch_id=max(
                (batch.batch_id for batch in lineage.batches or () if batch.committed), default=None
            ),
            max_event_time=reported,
        )

    def samples(self, labels: tuple[str, str], now: dt.datetime) -> Iterator[Sample]:
        if self.driver is not None:
            yield from _of_driver(self.driver, labels, now)
        frame = self.frame
        if frame.batch_id is not None:
            yield Sample(catalog.BATCH_PENDING, labels, int(frame.status == PENDING))
        if self.progress is not None:
            at, complete_at = frame.created_at, frame.complete_at
            yield from source_samples(labels, self.progress, at, complete_at, self.max_event_time, now)


def _was_driven(history: History) -> bool:
    """Whether a query has come as far as to drive the lineage, as far as that is known.

    A query that could not write its first checkpoint begins another lineage.
    """
    lineage = history.lineage
    return history.driver is not None or lineage.batches is not None or lineage.is_savepoint


def _progress(history: History, frame: Frame, uid: str) -> SourceProgress:
    """The numbers of a lineage: those that the driver told last, and what its state says."""
    assert frame.checkpoint_id is not None
    told = numbers_of(history, history.line().names[-1])
    known = {
        "waitingSplits": frame.waiting,
        "liveSplits": frame.live,
        "finishedSplits": frame.finished,
        "quarantinedSplits": frame.quarantined,
        "ignoredSplits": frame.ignored,
        "dataLosses": frame.data_losses,
        "checkpointBytes": frame.checkpoint_bytes,
    }
    if told.get("checkpoint", 0) < frame.checkpoint_id:  # the driver has not told of this one yet
        known["backlogSplits"] = frame.backlog
        if "pendingSplits" in told:
            known["pendingSplits"] = max(0, frame.backlog - frame.waiting)
    numbers = {**told, **known}
    return progress_of(
        uid, frame.checkpoint_id, numbers, numbers, is_new=True, rows=0, splits=0, files=0, bytes=0
    )


def _of_driver(driver: DriverCondition, labels: tuple[str, str], now: dt.datetime) -> Iterator[Sample]:
    for condition in Condition:
        is_in_it = int(condition is driver.condition)
        yield Sample(catalog.DRIVER_CONDITION, (*labels, condition.value), is_in_it)
    yield Sample(catalog.DRIVER_EPOCH, labels, driver.driver.epoch)
    heard_at = datetime_or_none(driver.said_ms)
    if heard_at is not None:
        yield Sample(catalog.DRIVER_HEARD, labels, seconds_since(heard_at, now))
    record = driver.driver.record
    if record is not None and record.error is not None:
        yield Sample(catalog.DRIVER_ERROR, (*labels, error_class(record.error) or "unknown"), 1)
    if record is not None and heard_at is not None and driver.condition is Condition.RUNNING:
        # By the driver's clock, when it was last heard of.
        since = datetime_or_none(record.asks_since_ms) or heard_at
        yield Sample(catalog.DISCOVERY, labels, max(0.0, seconds_since(since, heard_at)))


@dataclass(slots=True)
class _Seen:
    """What the looks at one location have found."""

    sources: dict[tuple[str, str], tuple[StoredSource, float]] = field(default_factory=dict)
    is_readable: bool = False
    read_s: float | None = None
    said: frozenset[str] = frozenset()


class StateMetrics:
    """The metrics of the queries whose states are at some locations. Safe for use by several threads.

    Args:
        places: by the name of the query; a lineage at several of them belongs to the first one.
        interval_s: pause between two looks.
        hide: removes secrets from a text. say: takes what cannot be read when it is new.
        now, steady_s: clocks, for ages and for waiting.
    """

    def __init__(
        self,
        places: Mapping[str, Place],
        interval_s: float,
        hide: Callable[[str], str],
        say: Callable[[str], None],
        *,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watchers = {name: Watcher(place, is_brief=True) for name, place in places.items()}
        self._seen = {name: _Seen() for name in places}
        self._interval_s = interval_s
        self._hide = hide
        self._say = say
        self._now = now
        self._steady_s = steady_s
        self._lock = threading.Lock()

    def start(self, ends: threading.Event) -> None:
        """Look at every location on a thread of its own until ``ends`` is set.

        Returns once each was looked at, or after ``FIRST_LOOKS_S``.
        """
        left = threading.Semaphore(0)

        def looking(query: str) -> None:
            self.look(query)
            left.release()
            while not ends.wait(self._interval_s):
                self.look(query)

        for query in self._watchers:
            # A request that hangs must not keep the process from ending.
            threading.Thread(target=looking, args=(query,), name=f"look-{query}", daemon=True).start()
        until_s = self._steady_s() + FIRST_LOOKS_S
        for _ in self._watchers:
            left.acquire(timeout=max(0.0, until_s - self._steady_s()))

    def look(self, query: str) -> None:
        """Look at the location of a query once."""
        watcher, errors = self._watchers[query], dict[str, Flip27Error]()
        found: list[StoredSource] = []
        said: set[str] = set()
        is_whole = True
        try:
            for history, frame in watcher.look(self._now(), errors):
                if _was_driven(history):
                    found.append(StoredSource.of(watcher.place, history, frame))
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the next look may succeed
            is_whole = False
            said.add(said_of(error, self._hide))
        said |= {self._hide(f"{lineage}: {error}") for lineage, error in errors.items()}
        at_s = self._steady_s()
        with self._lock:
            seen = self._seen[query]
            # What is neither found nor unreadable was removed.
            kept = {key: item for key, item in seen.sources.items() if not is_whole or key[1] in errors}
            seen.sources = kept | {source.key: (source, at_s) for source in found}
            new, seen.said = said - seen.said, frozenset(said)
            seen.is_readable = is_whole and not errors
            if seen.is_readable:
                seen.read_s = at_s
        for text in sorted(new):
            self._say(f"the state of {query} cannot be read: {text}")

    def unread(self) -> list[dict[str, str]]:
        """What the last looks could not read: query and error."""
        with self._lock:
            return [
                {"query": query, "error": text}
                for query, seen in self._seen.items()
                for text in sorted(seen.said)
            ]

    def samples(self) -> list[Sample]:
        """The values now, in the order of the catalog. Asks no store."""
        now, now_s = self._now(), self._steady_s()
        with self._lock:
            samples: list[Sample] = []
            # A lineage belongs to the first location that still tells of it.
            shown: set[tuple[str, str]] = set()
            for query, seen in self._seen.items():
                samples += self._of_query(query, seen, shown, now, now_s)
        return in_order(samples)

    def _of_query(
        self, query: str, seen: _Seen, shown: set[tuple[str, str]], now: dt.datetime, now_s: float
    ) -> Iterator[Sample]:
        if seen.sources and seen.sources.keys() <= shown:
            return  # another location shows all of it
        kept_s = LOOKS_KEPT * self._interval_s
        # A look that does not end says nothing by itself.
        is_readable = seen.is_readable and seen.read_s is not None and now_s - seen.read_s <= kept_s
        yield Sample(catalog.STATE_READABLE, (query,), int(is_readable))
        if seen.read_s is not None:
            yield Sample(catalog.STATE_READ, (query,), now_s - seen.read_s)
        sources = [
            source
            for key, (source, at_s) in seen.sources.items()
            if key not in shown and now_s - at_s <= kept_s
        ]
        shown |= {source.key for source in sources}
        yield from _together(query, sources)
        uids = Counter(source.uid for source in sources)
        for source in sources:
            name = source.uid if uids[source.uid] == 1 else source.key[1]
            yield from source.samples((query, name), now)


def _together(query: str, sources: Sequence[StoredSource]) -> Iterator[Sample]:
    """What is known of the query as a whole."""
    conditions = {source.driver.condition for source in sources if source.driver is not None}
    if conditions - {Condition.UNKNOWN}:
        yield Sample(catalog.QUERY_ACTIVE, (query,), int(Condition.RUNNING in conditions))
        yield Sample(catalog.QUERY_FAILED, (query,), int(Condition.FAILED in conditions))
    batches = [source.batch_id for source in sources if source.batch_id is not None]
    if batches:
        yield Sample(catalog.BATCH_ID, (query,), max(batches))
