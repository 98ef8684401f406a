"""Metrics of running queries, from Spark's progress events, for Prometheus and OpenTelemetry.

``spark.streams.addListener(listener_for(metrics))`` feeds a ``QueryMetrics``; an exporter publishes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .catalog import CATALOG, By, Kind, Metric
from .exporters import export_to_opentelemetry, export_to_prometheus
from .progress import QueryProgress, SourceProgress, read_progress
from .query_metrics import QueryMetrics, Sample

if TYPE_CHECKING:
    from .listener import MetricsListener

__all__ = [
    "CATALOG",
    "By",
    "Kind",
    "Metric",
    "QueryMetrics",
    "QueryProgress",
    "Sample",
    "SourceProgress",
    "export_to_opentelemetry",
    "export_to_prometheus",
    "listener_for",
    "read_progress",
]


def listener_for(
    metrics: QueryMetrics,
    *,
    checkpoint_locations: Sequence[str] = (),
    state_locations: Sequence[str] = (),
    storage: Mapping[str, Any] | None = None,
) -> MetricsListener:
    """A StreamingQueryListener that feeds ``metrics``, for ``spark.streams.addListener``.

    Args:
        checkpoint_locations: of queries whose states are told why their query has failed, which Spark does
            not tell its sources. Paths or URLs that the program with the listener can reach.
        state_locations: those of their sources that are not below a checkpoint location.
        storage: options of their file systems, as ``storage.*`` of the source, without the prefix.

    Raises:
        StateLocationError: a location is empty, or cannot be a location.
    """
    from .listener import MetricsListener
    from .query_failures import QueryFailures

    return MetricsListener(metrics, QueryFailures(checkpoint_locations, state_locations, storage or {}))
