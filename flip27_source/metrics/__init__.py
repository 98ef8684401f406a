"""Metrics of running queries, from Spark's progress events, for Prometheus and OpenTelemetry.

``spark.streams.addListener(listener_for(metrics))`` feeds a ``QueryMetrics``; an exporter publishes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def listener_for(metrics: QueryMetrics) -> MetricsListener:
    """A StreamingQueryListener that feeds ``metrics``, for ``spark.streams.addListener``."""
    from .listener import MetricsListener

    return MetricsListener(metrics)
