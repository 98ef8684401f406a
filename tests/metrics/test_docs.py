"""The table of metrics on the page on monitoring agrees with the catalog."""

from __future__ import annotations

from pathlib import Path

from flip27_source.metrics import CATALOG, Kind, Metric

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"


def table() -> str:
    """The catalog as the table of the page."""
    return "\n".join(["| metric | labels | meaning |", "|---|---|---|", *map(row, CATALOG)])


def row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
    return f"| `{name}` | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.doc} |"


def test_the_page_lists_every_metric_as_the_catalog_does() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
