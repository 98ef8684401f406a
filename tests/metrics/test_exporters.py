"""The exporters, with the real libraries that read from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from flip27_source.errors import ContractError, RegistryError
from flip27_source.metrics import CATALOG, QueryMetrics, export_to_opentelemetry, export_to_prometheus
from tests.metrics.events import FIRST, SECOND, at, changed


@pytest.fixture
def metrics() -> QueryMetrics:
    told = QueryMetrics(now=lambda: at("01:37:17.843"))
    told.progressed(FIRST)
    told.progressed(changed(SECOND, summary={"filesLate": 2, "quarantinedSplits": 1}))
    return told


def scraped(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def observed(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    if data is None:
        return {}
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "flip27_source"
    return {metric.name: metric for metric in scope.metrics}


def test_prometheus_scrapes_the_current_values(metrics: QueryMetrics) -> None:
    registry = CollectorRegistry()
    export_to_prometheus(metrics, registry)
    page = scraped(registry)
    assert "# TYPE flip27_rows_total counter" in page
    assert "# TYPE flip27_lag_seconds gauge" in page
    assert 'flip27_rows_total{query="lines",source="files"} 8.0' in page
    assert 'flip27_lag_seconds{query="lines",source="files"} 10.0' in page
    assert 'flip27_late_files{query="lines",source="files"} 2.0' in page
    assert 'flip27_splits{query="lines",source="files",status="quarantined"} 1.0' in page
    metrics.progressed(SECOND)
    assert 'flip27_rows_total{query="lines",source="files"} 12.0' in scraped(registry)


@pytest.mark.parametrize("name", ["mine", "backlogSplits", "planningMs"])
def test_a_number_beyond_float_does_not_end_the_scrape(name: str, metrics: QueryMetrics) -> None:
    registry = CollectorRegistry()
    export_to_prometheus(metrics, registry)
    metrics.progressed(changed(SECOND, summary={name: 10**400}))
    assert 'flip27_rows_total{query="lines",source="files"} 12.0' in scraped(registry)


def test_a_collector_is_registered_once_and_may_be_unregistered(metrics: QueryMetrics) -> None:
    registry = CollectorRegistry()
    collector = export_to_prometheus(metrics, registry)
    with pytest.raises(ContractError, match="once for each registry"):
        export_to_prometheus(metrics, registry)
    registry.unregister(collector)
    assert scraped(registry) == []


def test_opentelemetry_collects_the_current_values(metrics: QueryMetrics) -> None:
    reader = InMemoryMetricReader()
    export_to_opentelemetry(metrics, MeterProvider([reader]))
    (point,) = observed(reader)["flip27_lag_seconds"].data.data_points
    assert (point.value, dict(point.attributes)) == (10.0, {"query": "lines", "source": "files"})
    rows = observed(reader)["flip27_rows"]
    assert rows.data.is_monotonic
    assert [point.value for point in rows.data.data_points] == [8]
    by_status = {p.attributes["status"]: p.value for p in observed(reader)["flip27_splits"].data.data_points}
    assert (by_status["quarantined"], by_status["finished"]) == (1, 4)


def test_opentelemetry_gets_the_units_and_descriptions_of_metrics(metrics: QueryMetrics) -> None:
    reader = InMemoryMetricReader()
    export_to_opentelemetry(metrics, MeterProvider([reader]))
    found = observed(reader)
    told = {metric.name: (metric.unit, metric.doc) for metric in CATALOG if metric.name in found}
    assert {name: (metric.unit, metric.description) for name, metric in found.items()} == told
    assert found["flip27_bytes"].unit == "By"


@pytest.mark.parametrize(
    ("export", "package", "extra"),
    [
        (export_to_prometheus, "prometheus_client", "flip27-source[prometheus]"),
        (export_to_opentelemetry, "opentelemetry.metrics", "flip27-source[otel]"),
    ],
)
def test_the_error_for_a_missing_library_says_what_to_install(
    export: Callable[[QueryMetrics], object], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RegistryError) as caught:
        export(QueryMetrics())
    assert extra in str(caught.value)
