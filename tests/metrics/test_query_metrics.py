"""The samples of queries, from the events received; the docs and ``flip27 watch`` agree with them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from flip27_source.cli.state.rows import Place
from flip27_source.cli.watch.view import Watcher
from flip27_source.metrics import CATALOG, By, Kind, Metric, QueryMetrics
from flip27_source.metrics.query_metrics import MOST_ENDED
from flip27_source.testing import MicroBatchEngine
from tests.metrics.events import (
    FIRST,
    FIRST_OFFSET,
    INLINE_OFFSET,
    QUERY_ID,
    SECOND,
    SECOND_OFFSET,
    at,
    changed,
)

OTHER_ID = "3f3bc712-8fd3-423c-9b00-6da174ca319f"


@pytest.fixture
def metrics() -> QueryMetrics:
    return QueryMetrics(now=lambda: at("01:37:17.843"))


def values(metrics: QueryMetrics, name: str) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in metrics.samples() if sample.metric.name == name}


def test_counters_add_up_over_batches_and_gauges_belong_to_the_newest(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    metrics.progressed(SECOND)
    source = ("lines", "files")
    assert values(metrics, "flip27_rows") == {source: 8}
    assert values(metrics, "flip27_bytes") == {source: 16}
    assert values(metrics, "flip27_files") == {source: 4}
    assert values(metrics, "flip27_checkpoints") == {source: 2}
    assert values(metrics, "flip27_checkpoint_id") == {source: 2}
    assert values(metrics, "flip27_backlog_splits") == {source: 1}
    assert values(metrics, "flip27_batch_id") == {("lines",): 1}
    assert values(metrics, "flip27_batch_duration_seconds") == {("lines",): 0.319}
    assert values(metrics, "flip27_batch_phase_seconds") == {
        ("lines", "addBatch"): 0.188,
        ("lines", "latestOffset"): 0.003,
    }


def test_splits_are_counted_by_status_including_quarantined_splits(metrics: QueryMetrics) -> None:
    metrics.progressed(changed(FIRST, summary={"quarantinedSplits": 1, "liveSplits": 6}))
    found = {labels[2]: value for labels, value in values(metrics, "flip27_splits").items()}
    assert found == {"pending": 3, "waiting": 0, "live": 6, "finished": 2, "quarantined": 1, "ignored": 0}


def test_lag_is_the_time_since_the_newest_checkpoint_of_that_source(metrics: QueryMetrics) -> None:
    metrics.progressed(SECOND)
    later = changed(SECOND, startOffset=SECOND_OFFSET, numInputRows=0)
    metrics.progressed(later | {"timestamp": "2026-11-21T01:37:16.000Z"})
    assert values(metrics, "flip27_lag_seconds") == {("lines", "files"): 10.0}
    assert values(metrics, "flip27_bytes") == {("lines", "files"): 8}


def test_event_time_lag_is_based_on_the_largest_time_ever_reported(metrics: QueryMetrics) -> None:
    assert values(metrics, "flip27_event_time_lag_seconds") == {}
    for time in ("01:37:00", "01:36:00"):
        report = {"lastMaxEventTime": f"2026-11-21T{time}.000000+00:00"}
        metrics.progressed(changed(SECOND, report=report))
    metrics.progressed(FIRST)
    assert values(metrics, "flip27_event_time_lag_seconds") == {("lines", "files"): 17.843}


def test_two_sources_with_the_same_uid_in_a_query_are_kept_apart(metrics: QueryMetrics) -> None:
    other = FIRST["sources"][0] | {"numInputRows": 9}
    metrics.progressed(FIRST | {"sources": [*FIRST["sources"], other]})
    assert values(metrics, "flip27_rows") == {("lines", "files"): 4, ("lines", "files#2"): 9}


def test_a_query_without_a_name_is_labelled_with_its_id(metrics: QueryMetrics) -> None:
    metrics.started(QUERY_ID, None)
    metrics.progressed(changed(FIRST, endOffset=INLINE_OFFSET) | {"name": None})
    assert values(metrics, "flip27_checkpoint_id") == {(QUERY_ID, "orders/eu"): 1}


def test_two_running_queries_with_the_same_name_are_kept_apart(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    metrics.progressed(FIRST | {"id": OTHER_ID})
    assert values(metrics, "flip27_query_active") == {("lines",): 1, (OTHER_ID,): 1}


def test_a_query_that_has_ended_keeps_its_last_numbers_and_says_how_it_ended(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    metrics.terminated(QUERY_ID, failed=True)
    assert values(metrics, "flip27_query_active") == {("lines",): 0}
    assert values(metrics, "flip27_query_failed") == {("lines",): 1}
    assert values(metrics, "flip27_rows") == {("lines", "files"): 4}


def test_the_counters_of_a_restarted_query_continue(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    metrics.terminated(QUERY_ID, failed=True)
    metrics.started(QUERY_ID, "lines")
    metrics.progressed(SECOND)
    assert values(metrics, "flip27_query_failed") == {("lines",): 0}
    assert values(metrics, "flip27_rows") == {("lines", "files"): 8}


def test_a_new_query_takes_over_the_name_of_one_that_has_ended(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    metrics.terminated(QUERY_ID)
    metrics.started(OTHER_ID, "lines")
    metrics.progressed(FIRST | {"id": OTHER_ID})
    assert values(metrics, "flip27_rows") == {("lines", "files"): 4}


def test_only_the_last_ended_queries_are_kept(metrics: QueryMetrics) -> None:
    metrics.progressed(FIRST)
    for number in range(MOST_ENDED + 1):
        metrics.progressed(FIRST | {"id": f"id-{number}", "name": f"query-{number}"})
        metrics.terminated(f"id-{number}")
    shown = values(metrics, "flip27_query_active")
    assert len(shown) == MOST_ENDED + 1
    assert shown[("lines",)] == 1
    assert ("query-0",) not in shown


def test_a_query_without_a_flip27_source_has_no_samples(metrics: QueryMetrics) -> None:
    metrics.started(QUERY_ID, "lines")
    metrics.progressed(changed(FIRST, endOffset=5))
    assert metrics.samples() == []


def test_samples_have_a_value_for_each_label_of_their_metric(metrics: QueryMetrics) -> None:
    backlog = {"backlogRows": 7, "backlogBytes": 80, "backlogOldestEventTime": "2026-11-21T01:00:00+00:00"}
    report = {"lastMaxEventTime": "2026-11-21", "mine": 3, "smallestWatermarkDelayMs": 1} | backlog
    report |= {"eventTimeHorizon": "2026-11-21T01:00:00+00:00", "replayBehindMs": 1}
    report |= {"lastFailure": "AccessError", "lastFailureAt": "2026-11-21T01:00:00+00:00"}
    report |= {"planningMs": 1, "writeMs": 2, "restoreMs": 3, "restoreBytes": 4, "checkpointBytes": 5}
    report |= {"parts": {"slotKeptBytes": {"orders": 6}, "partitionLag": {"orders-0": 7}, "mine": {"a": 1}}}
    metrics.progressed(changed(SECOND, startOffset=FIRST_OFFSET, report=report))
    samples = metrics.samples()
    assert {sample.metric for sample in samples} == {m for m in CATALOG if m.by is not By.EXPORTER}
    assert [sample for sample in samples if len(sample.labels) != len(sample.metric.labels)] == []


PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"


def table() -> str:
    """The catalog as the table of the page."""
    return "\n".join(["| metric | labels | from | meaning |", "|---|---|---|---|", *map(row, CATALOG)])


def row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{name}` | {labels} | {metric.by.value} | {metric.doc} |"


def test_the_page_lists_every_metric_as_the_catalog_does() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def test_watch_shows_the_numbers_that_are_exported(tmp_path: Path, five_files: dict[str, str]) -> None:
    engine = MicroBatchEngine(five_files)
    batch = engine.run_batch()
    assert batch is not None

    now = EPOCH + dt.timedelta(seconds=7)
    metrics = QueryMetrics(now=lambda: now)
    source = {"startOffset": None, "endOffset": batch.end, "latestOffset": engine.holder.report()}
    metrics.progressed(FIRST | {"timestamp": EPOCH.isoformat(), "sources": [source]})
    exported = {(sample.metric.name, *sample.labels[2:]): sample.value for sample in metrics.samples()}

    (frame,) = Watcher(place=Place(location=str(tmp_path / "state"))).frames(now)
    assert (frame.backlog, frame.finished, frame.lag_s) == (3, 2, 7.0)
    assert {
        ("flip27_checkpoint_id",): frame.checkpoint_id,
        ("flip27_backlog_splits",): frame.backlog,
        ("flip27_lag_seconds",): frame.lag_s,
        ("flip27_splits", "live"): frame.live,
        ("flip27_splits", "finished"): frame.finished,
        ("flip27_splits", "quarantined"): frame.quarantined,
    }.items() <= exported.items()
