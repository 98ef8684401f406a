"""The listener on a real query, as the page on monitoring sets it up."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from flip27_source.metrics import QueryMetrics, listener_for
from tests.pages.running import PageRun
from tests.spark.native_runs import shown_of
from tests.spark.streams import Folders, each_batch, file_stream, run_to_end, wait_for
from tests.spark_features import has

START_SERVER = prometheus_client.start_http_server


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The servers that the page starts, on free ports and with a new registry."""
    started: list[Any] = []
    registry = prometheus_client.CollectorRegistry()
    monkeypatch.setattr(prometheus_client, "REGISTRY", registry)
    monkeypatch.setattr(
        prometheus_client,
        "start_http_server",
        lambda _port: started.append(START_SERVER(0, addr="127.0.0.1", registry=registry)),
    )
    yield started
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


def scrape(servers: list[Any], metric: str, **labels: str) -> float | None:
    ((server, _),) = servers
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = [s for family in families for s in family.samples if (s.name, s.labels) == (metric, labels)]
    return found[0].value if found else None


def test_a_sink_that_fails_is_shown_by_every_source_of_the_query_until_it_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders, others = Folders(tmp_path), Folders(tmp_path / "others")
    folders.land("a.txt", ["1"])
    others.land("b.txt", ["2"])
    both = file_stream(spark, folders, uid="one").union(
        file_stream(spark, others, uid="other", stateLocation=str(folders.state))
    )

    def fail(frame: DataFrame, _batch_id: int) -> None:
        raise ValueError(f"the sink is full after {frame.count()} rows")

    listener = listener_for(QueryMetrics(), checkpoint_locations=[str(folders.checkpoint)])
    spark.streams.addListener(listener)
    try:
        for _ in range(2):
            with pytest.raises(StreamingQueryException):
                run_to_end(each_batch(both, folders, fail))
            wait_for(lambda: {source["condition"] for source in shown_of(folders)} == {"failed"})
        assert {source["error"] for source in shown_of(folders)} == {
            "ValueError: the sink is full after 2 rows"
        }
        run_to_end(each_batch(both, folders, lambda _frame, _batch_id: None))
    finally:
        spark.streams.removeListener(listener)
    wait_for(lambda: {source["condition"] for source in shown_of(folders)} == {"stopped"})
    assert {source["error"] for source in shown_of(folders)} == {None}


def test_the_page_on_monitoring_shows_a_query_from_its_batches_to_its_end(
    spark: SparkSession, tmp_path: Path, servers: list[Any]
) -> None:
    folders = Folders(tmp_path)
    folders.land("a.txt", ["1", "2"])
    stream = file_stream(spark, folders, ends=False, maxFilesPerTrigger=2, taskReports="always", uid="orders")
    writer = stream.writeStream.format("noop").queryName("watched")
    told = QueryMetrics()
    earlier = listener_for(told)
    spark.streams.addListener(earlier)
    query = writer.option("checkpointLocation", str(folders.checkpoint)).start()
    query.processAllAvailable()
    # Spark tells listeners later: that of the page must not hear of this batch too.
    wait_for(lambda: any(sample.metric.name == "flip27_batch_id" for sample in told.samples()), query)

    page = PageRun("docs/monitoring.md", below=tmp_path, spark=spark, query=query)
    page.run()
    assert [source.uid for source in page.names["batch"].sources] == ["orders"]
    for name in "bcd":
        folders.land(f"{name}.txt", ["1", "2"])
    source = {"query": "watched", "source": "orders"}
    wait_for(lambda: scrape(servers, "flip27_rows_total", **source) == 6, query)
    query.stop()
    wait_for(lambda: scrape(servers, "flip27_query_active", query="watched") == 0)
    for listener in (page.names["listener"], earlier):
        spark.streams.removeListener(listener)
    assert scrape(servers, "flip27_query_failed", query="watched") == 0
    assert scrape(servers, "flip27_files_total", **source) == 3
    assert scrape(servers, "flip27_bytes_total", **source) == 12
    assert scrape(servers, "flip27_backlog_splits", **source) == 0
    assert scrape(servers, "flip27_splits", **source, status="finished") == 4
    told_by_tasks = 0 if has("in `latestOffset` of progress events") else None
    assert scrape(servers, "flip27_retried_subtasks", **source) == told_by_tasks
    for metric in ("flip27_planning_seconds", "flip27_checkpoint_write_seconds", "flip27_checkpoint_bytes"):
        assert (scrape(servers, metric, **source) is None) == (told_by_tasks is None)
    assert scrape(servers, "flip27_enumerator_gauge", **source, name="format") is None
    assert scrape(servers, "flip27_batch_phase_seconds", query="watched", phase="addBatch") is not None
