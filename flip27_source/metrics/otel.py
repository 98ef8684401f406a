"""OpenTelemetry: each metric as an observable instrument, observed at each collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..optional_packages import needed
from .catalog import CATALOG, Kind, Metric
from .query_metrics import QueryMetrics

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

METER = "flip27_source"
"""Name of the meter (OpenTelemetry's instrumentation scope)."""


def export_to_opentelemetry(metrics: QueryMetrics, provider: MeterProvider | None = None) -> None:
    """Create one observable instrument for each metric; labels become attributes.

    Args:
        provider: the global one if None. It keeps the instruments until it is shut down.

    Raises:
        RegistryError: opentelemetry-api is not installed.
    """
    with needed(
        "opentelemetry-api",
        by="the export to OpenTelemetry",
        extra="otel",
        where="on the machine that starts the query",
    ):
        from opentelemetry.metrics import get_meter_provider
    meter = (provider or get_meter_provider()).get_meter(METER, __version__)
    for metric in CATALOG:
        make: Any = (
            meter.create_observable_counter if metric.kind is Kind.COUNTER else meter.create_observable_gauge
        )
        make(metric.name, callbacks=[_observing(metrics, metric)], unit=metric.unit, description=metric.doc)


def _observing(metrics: QueryMetrics, metric: Metric) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def observe(_options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for sample in metrics.samples():
            if sample.metric is metric:
                yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return observe
