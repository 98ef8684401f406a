"""Option tracing on real Spark: what the processes of the driver and of the executors send to a collector."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.child_processes import ChildProcess
from tests.deadline import until
from tests.spark.streams import Folders
from tests.spark.traced_query import HANGS
from tests.trace_collector import collecting, values

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring.md"


@pytest.mark.slow  # it starts two JVMs; tests/driver/test_batch_traces.py shows the same without Spark
def test_a_killed_query_and_its_tasks_are_traced_across_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = re.findall(r"```text\n(batch source=orders.*?)\n```", MONITORING.read_text(), re.DOTALL)
    folders, log = Folders(tmp_path), tmp_path / "log"
    for name in ("a.txt", "fails.txt", "hangs.txt", "z.txt"):
        folders.land(name, ["x" * 1024] * 5120)  # enough for a task
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("FLIP27_LOG_LEVEL", "info")
        with ChildProcess("tests.spark.traced_query", [str(tmp_path)], log=log):
            until((tmp_path / HANGS).exists, log.read_text, 120)
            until(lambda: len(collector.spans) == 10, lambda: collector.names)
        with ChildProcess("tests.spark.traced_query", [str(tmp_path)], log=log) as child:
            until(lambda: child.popen.poll() is not None, log.read_text, 120)
        lines = [line for line in shown.splitlines() if line and not line.startswith("(")]
        until(lambda: len(collector.spans) == len(lines), lambda: collector.names)
    assert collector.tree("batch", "batch", "restore", "read") == shown
    assert b"hunter2" not in b"".join(collector.bodies)
    batches = {span.trace_id.hex() for span in collector.spans if span.name == "batch"}
    assert {*re.findall("trace_id=([0-9a-f]{32})", log.read_text())} == batches
    tasks = [values(span.attributes) for span in collector.spans if span.name == "task"]
    assert len({task["flip27.query_id"] for task in tasks if "flip27.query_id" in task}) == 1


@pytest.mark.slow  # as above
def test_a_query_does_not_wait_for_a_collector_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers only once the query has ended: what waited for it would never end."""
    folders, log = Folders(tmp_path), tmp_path / "log"
    (tmp_path / HANGS).touch()
    for name in ("a.txt", "fails.txt", "z.txt"):
        folders.land(name, [name])
    with collecting() as collector:
        collector.answers.clear()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with ChildProcess("tests.spark.traced_query", [str(tmp_path)], log=log) as child:
            until(lambda: child.popen.poll() is not None, log.read_text, 240)
            assert (child.popen.poll(), collector.spans) == (0, []), log.read_text()
        assert collector.asked.is_set()
    assert "\nrows 3\n" in log.read_text()
