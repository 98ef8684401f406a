"""The StreamingQueryListener: passes Spark's events to QueryMetrics. Only this module imports pyspark."""

from __future__ import annotations

import json

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from .query_failures import QueryFailures
from .query_metrics import QueryMetrics


class MetricsListener(StreamingQueryListener):
    """Feeds ``metrics`` and ``failures`` with every query of the session to which it is added.

    While a query is idle, its numbers stay, and its lags grow with time.
    """

    def __init__(self, metrics: QueryMetrics, failures: QueryFailures) -> None:
        self._metrics = metrics
        self._failures = failures

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._metrics.started(str(event.id), event.name)
        self._failures.started(str(event.id), str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._metrics.progressed(json.loads(event.progress.json))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._metrics.terminated(str(event.id), failed=event.exception is not None)
        if event.exception is not None:
            self._failures.terminated(str(event.id), str(event.runId), event.exception)
