"""The exporters: a collector for prometheus_client, and observable instruments of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .._version import __version__
from ..errors import ContractError
from ..optional_packages import needed
from .catalog import CATALOG, Kind, Metric
from .query_metrics import Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    Family = CounterMetricFamily | GaugeMetricFamily
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation


class Samples(Protocol):
    """What has samples, such as a QueryMetrics."""

    def samples(self) -> list[Sample]:
        """The current values, in the order of the catalog."""
        ...


class PrometheusCollector:
    def __init__(self, metrics: Samples) -> None:
        self._metrics = metrics

    def describe(self) -> Iterator[Family]:
        return map(_family, CATALOG)

    def collect(self) -> Iterator[Family]:
        families = {metric.name: _family(metric) for metric in CATALOG}
        for sample in self._metrics.samples():
            # Names that are not valid UTF-8 contain surrogates, which would break the scrape.
            labels = [label.encode("utf-8", "backslashreplace").decode() for label in sample.labels]
            families[sample.metric.name].add_metric(labels, sample.value)
        return iter(families.values())


def export_to_prometheus(metrics: Samples, registry: CollectorRegistry | None = None) -> PrometheusCollector:
    """Register the metrics; ``registry.unregister`` removes the returned collector.

    Args:
        registry: the default one of prometheus_client if None.

    Raises:
        RegistryError: prometheus_client is not installed.
        ContractError: the metrics are already registered.
    """
    with needed(
        "prometheus_client",
        by="the export to Prometheus",
        extra="prometheus",
        where="on the machine that starts the query",
    ):
        from prometheus_client import REGISTRY
    collector = PrometheusCollector(metrics)
    try:
        (registry or REGISTRY).register(collector)
    except ValueError as error:
        raise ContractError(
            f"the Prometheus registry already has flip27 metrics: {error}",
            remedy="call export_to_prometheus once for each registry; one QueryMetrics serves all queries",
        ) from error
    return collector


def _family(metric: Metric) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    family = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    return family(metric.name, metric.doc, labels=metric.labels)


METER = "flip27_source"
"""Name of the meter (OpenTelemetry's instrumentation scope)."""


def export_to_opentelemetry(metrics: Samples, provider: MeterProvider | None = None) -> None:
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


def _observing(metrics: Samples, metric: Metric) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def observe(_options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for sample in metrics.samples():
            if sample.metric is metric:
                yield Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))

    return observe
