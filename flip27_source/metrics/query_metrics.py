"""QueryMetrics: turns the progress events of queries into samples of the catalog's metrics.

A listener feeds it and exporters read it, each on its own thread. Knows neither Spark nor an exporter.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import catalog
from .catalog import Metric
from .progress import METRICS, QueryProgress, SourceProgress, read_progress

MOST_ENDED = 100
"""Maximum number of ended queries that are kept; the one that ended first is dropped first."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric; ``labels`` holds the values of the metric's labels, in order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


@dataclass(slots=True)
class _Source:
    """One source: its newest progress and its totals."""

    newest: SourceProgress
    checkpoint_at: dt.datetime | None = None
    max_event_time: dt.datetime | None = None
    checkpoints: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0

    def add(self, progress: SourceProgress, at: dt.datetime) -> None:
        self.newest = progress
        self.rows += progress.rows
        self.files += progress.files
        self.bytes += progress.bytes
        if progress.is_new:
            self.checkpoints += 1
            self.checkpoint_at = at
        if progress.max_event_time is not None:
            self.max_event_time = max(self.max_event_time or progress.max_event_time, progress.max_event_time)


@dataclass(slots=True)
class _Query:
    """One query since its first event."""

    label: str
    is_active: bool = True
    is_failed: bool = False
    newest: QueryProgress | None = None
    sources: dict[str, _Source] = field(default_factory=dict)


class QueryMetrics:
    """The numbers of all reported queries, by query and source.

    The label of a query is its name, or its id if it has no name. The label of a source is its uid; the
    second source with the same uid in a query has the suffix ``#2``. Safe for use by several threads.

    Args:
        now: the clock for lags; returns a time with a zone.
    """

    def __init__(self, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}

    def started(self, query_id: str, name: str | None) -> None:
        """A query has started; if it has run before, its counters continue."""
        with self._lock:
            self._running(query_id, name)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """A batch has finished. ``progress`` is the JSON of Spark's progress event."""
        batch = read_progress(progress)
        with self._lock:
            # A listener that was added late has missed the start.
            query = self._queries.get(batch.query_id) or self._running(batch.query_id, batch.name)
            query.newest = batch
            for name, source in _named(batch.sources):
                query.sources.setdefault(name, _Source(source)).add(source, batch.at)

    def terminated(self, query_id: str, *, failed: bool = False) -> None:
        """A query has ended. Its last numbers stay available."""
        with self._lock:
            # Moved to the end: queries are dropped in the order in which they ended.
            query = self._queries.pop(query_id, None)
            if query is None:
                return
            query.is_active, query.is_failed = False, failed
            self._queries[query_id] = query
            ended = [other for other, query in self._queries.items() if not query.is_active]
            for other in ended[:-MOST_ENDED]:
                del self._queries[other]

    def samples(self) -> list[Sample]:
        """The current values, in the order of the catalog."""
        now = self._now()
        with self._lock:
            samples = [sample for query in self._queries.values() for sample in _of_query(query, now)]
        return in_order(samples)

    def _running(self, query_id: str, name: str | None) -> _Query:
        query = self._queries.get(query_id)
        if query is None:
            query = self._queries[query_id] = _Query(self._label(query_id, name))
        query.is_active, query.is_failed = True, False
        return query

    def _label(self, query_id: str, name: str | None) -> str:
        """The name, or the id if a running query has that name. An ended query with the name is dropped."""
        for other, query in list(self._queries.items()):
            if query.label == name and not query.is_active:
                del self._queries[other]
            elif query.label == name:
                return query_id
        return name or query_id


def in_order(samples: Iterable[Sample]) -> list[Sample]:
    """The samples in the order of the catalog, without values that no exporter can write."""
    order = {metric.name: place for place, metric in enumerate(catalog.CATALOG)}
    known = (sample for sample in samples if catalog.is_float(sample.value))
    return sorted(known, key=lambda sample: order[sample.metric.name])


def _named(sources: tuple[SourceProgress, ...]) -> Iterator[tuple[str, SourceProgress]]:
    seen: dict[str, int] = {}
    for source in sources:
        count = seen[source.uid] = seen.get(source.uid, 0) + 1
        yield (source.uid if count == 1 else f"{source.uid}#{count}"), source


def _of_query(query: _Query, now: dt.datetime) -> Iterator[Sample]:
    """The samples of a query; none if it has no flip27 source."""
    batch = query.newest
    if batch is None or not query.sources:
        return
    label = (query.label,)
    yield Sample(catalog.QUERY_ACTIVE, label, int(query.is_active))
    yield Sample(catalog.QUERY_FAILED, label, int(query.is_failed))
    yield Sample(catalog.BATCH_ID, label, batch.batch_id)
    yield Sample(catalog.BATCH_DURATION, label, batch.duration_s)
    for phase, seconds in sorted(batch.phases.items()):
        yield Sample(catalog.BATCH_PHASE, (*label, phase), seconds)
    for name, source in query.sources.items():
        labels = (*label, name)
        yield from source_samples(
            labels, source.newest, source.checkpoint_at, source.checkpoint_at, source.max_event_time, now
        )
        yield Sample(catalog.CHECKPOINTS, labels, source.checkpoints)
        yield Sample(catalog.ROWS, labels, source.rows)
        yield Sample(catalog.FILES, labels, source.files)
        yield Sample(catalog.BYTES, labels, source.bytes)


_PARTS = {"slotKeptBytes": catalog.SLOT_KEPT, "partitionLag": catalog.PARTITION_LAG}


def source_samples(
    labels: tuple[str, str],
    newest: SourceProgress,
    checkpoint_at: dt.datetime | None,
    complete_at: dt.datetime | None,
    max_event_time: dt.datetime | None,
    now: dt.datetime,
) -> Iterator[Sample]:
    """The samples of a source, except counters.

    Args:
        labels: of query and source.
        checkpoint_at, complete_at: when the newest checkpoint was triggered, and the newest complete one.
        max_event_time: the largest reported.
    """
    values: dict[Metric, Any] = {
        catalog.CHECKPOINT_ID: newest.checkpoint_id,
        catalog.LAG: checkpoint_at,
        catalog.COMPLETE_AGE: complete_at,
        catalog.EVENT_TIME_LAG: max_event_time,
        **{metric: getattr(newest, name) for name, metric in METRICS.items()},
    }
    for metric, value in values.items():
        if value is not None:
            number = seconds_since(value, now) if isinstance(value, dt.datetime) else value
            yield Sample(metric, labels, number)
    if newest.failed_at is not None and newest.failed_with is not None:
        failed_s = seconds_since(newest.failed_at, now)
        yield Sample(catalog.LAST_FAILURE, (*labels, newest.failed_with), failed_s)
    for status, count in newest.by_status.items():
        yield Sample(catalog.SPLITS, (*labels, status), count)
    for name, number in sorted(newest.gauges.items()):
        yield Sample(catalog.ENUMERATOR_GAUGE, (*labels, name), number)
    for name, numbers in newest.parts.items():
        if name in _PARTS:
            yield from (Sample(_PARTS[name], (*labels, part), value) for part, value in numbers.items())


def seconds_since(time: dt.datetime, now: dt.datetime) -> float:
    return (now - time).total_seconds()
