"""Prometheus: a collector for prometheus_client that takes new samples at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import ContractError
from ..optional_packages import needed
from .catalog import CATALOG, Kind, Metric
from .query_metrics import QueryMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    Family = CounterMetricFamily | GaugeMetricFamily


class PrometheusCollector:
    """A collector for a registry of prometheus_client."""

    def __init__(self, metrics: QueryMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterator[Family]:
        return map(_family, CATALOG)

    def collect(self) -> Iterator[Family]:
        families = {metric.name: _family(metric) for metric in CATALOG}
        for sample in self._metrics.samples():
            families[sample.metric.name].add_metric(sample.labels, sample.value)
        return iter(families.values())


def export_to_prometheus(
    metrics: QueryMetrics, registry: CollectorRegistry | None = None
) -> PrometheusCollector:
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
