"""Option tracing: the spans that a real exporter sends to a collector, for queries without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import savepoints, span_sender
from flip27_source.errors import RegistryError, SplitReadError
from flip27_source.log import LOG
from flip27_source.testing import CRASH, Crashed, Fail, MicroBatchEngine, Step, literal_source
from flip27_source.testing.tasks import Speculation
from tests.deadline import soon, until
from tests.driver.batches import Batches
from tests.driver.test_action_runner import Archives
from tests.driver.test_tolerated_failures import Pausing, Unreachable
from tests.raw_server import answer, floods, raw_server, says
from tests.toy_sources import FEEDS, EchoReader, Feed, items
from tests.trace_collector import Collector, collecting, values

SIZED = ("write", "restore")
SPLITS = {"a": [1, 2], "b": [3], "c": [4]}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that this process sends its spans to."""
    span_sender.sender.cache_clear()
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector
    span_sender.sender.cache_clear()


def orders(splits: Any = SPLITS, **options: str) -> MicroBatchEngine:
    source = literal_source(splits, maxFilesPerTrigger="2", uid="orders", tracing="true", **options)
    return MicroBatchEngine(source)


def same(text: str) -> str:
    return dedent(text).strip()


def test_a_batch_is_a_trace_with_its_tasks(collector: Collector) -> None:
    orders().process_all_available()
    assert collector.tree("batch", "batch") == same("""
        batch source=orders checkpoint=1 splits=2 rows=3 complete=True
          plan
          write
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=2 complete=True
          task source=orders checkpoint=1 subtask=1 attempt=0 rows=1 complete=True
          commit

        batch source=orders checkpoint=2 splits=1 rows=1 complete=True
          plan
          write
          task source=orders checkpoint=2 subtask=0 attempt=0 rows=1 complete=True
          commit
        """)
    assert {item["service.name"] for item in collector.resources} == {"flip27_source"}


def test_a_task_that_is_tried_again_has_a_span_for_each_attempt(collector: Collector) -> None:
    orders({"a": [1, Fail("the line is: secret content"), 2]}).process_all_available()
    assert collector.tree("batch") == same("""
        batch source=orders checkpoint=1 splits=1 rows=2 complete=True
          plan
          write
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=1 complete=False error=SplitReadError
          task source=orders checkpoint=1 subtask=0 attempt=1 rows=2 complete=True
          commit
        """)
    assert b"secret" not in b"".join(collector.bodies)


def test_a_speculative_copy_is_an_attempt_like_any_other(collector: Collector) -> None:
    engine = orders({"a": [1, 2]})
    engine.run_batch(speculation=Speculation.COPY_WINS)
    engine.process_all_available()
    assert collector.tree("batch") == same("""
        batch source=orders checkpoint=1 splits=1 rows=2 complete=True
          plan
          write
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=2 complete=True
          task source=orders checkpoint=1 subtask=0 attempt=1 rows=2 complete=True
          commit
        """)


def test_the_batch_of_a_killed_driver_goes_on_in_the_same_trace(collector: Collector) -> None:
    engine = orders({"a": [1]})
    with pytest.raises(Crashed):
        engine.run_batch(crash_at=Step.TASKS_ENDED)
    engine.restart()
    engine.process_all_available()
    assert collector.tree("batch", "restore") == same("""
        (a span that was not received)
          plan
          write
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=1 complete=True
        batch source=orders checkpoint=1 repeated=True complete=True
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=1 complete=True
          commit

        restore source=orders checkpoint=1 savepoint=False
        """)


def test_a_lost_executor_ends_its_span_early(collector: Collector) -> None:
    orders({"a": [1, CRASH, 2]}).process_all_available()
    assert "subtask=0 attempt=0 rows=1 complete=False error=Killed" in collector.tree("batch")


def test_a_checkpoint_that_fails_is_in_the_trace_of_its_batch(
    collector: Collector, request: pytest.FixtureRequest
) -> None:
    FEEDS[request.node.name] = items("a")
    options = {"feed": request.node.name, "stateLocation": "/unused", "tolerableFailedCheckpoints": "2"}
    store = Unreachable()
    batches = Pausing(Feed, EchoReader, options | {"tracing": "true"}, store=store)
    batches.batch()
    FEEDS[request.node.name] += items("b")
    store.failing, store.left = "create checkpoints", 1
    batches.batch()
    batches.holder.close()
    assert collector.tree("batch", "batch", "restore", "batch") == same("""
        batch source=Feed checkpoint=1 splits=1 complete=True
          plan
          write
          task source=Feed checkpoint=1 subtask=0 attempt=0 rows=1 complete=True
          commit

        batch source=Feed checkpoint=2 splits=1 complete=False error=StateLocationError
          plan
          write error=StateLocationError
        batch source=Feed checkpoint=2 splits=1 complete=False
          plan
          write
          task source=Feed checkpoint=2 subtask=0 attempt=0 rows=1 complete=True

        restore source=Feed checkpoint=1 savepoint=False
        """)


def test_side_effects_are_one_span_after_the_batch(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches(Archives, EchoReader, {"tracing": "true"})
    monkeypatch.setattr(Archives, "broken", {"archive b"})
    batches.shelve("a", "b")
    batches.batch()
    batches.batch()
    batches.holder.cycle.run.actions.wait()  # type: ignore[union-attr]
    until(lambda: "actions" in collector.names, lambda: collector.names)  # it ends after its batch
    assert collector.tree("batch") == same("""
        batch source=Archives checkpoint=1 splits=2 complete=True
          plan
          write
          task source=Archives checkpoint=1 subtask=0 attempt=0 rows=2 complete=True
          commit
          actions source=Archives checkpoint=1 actions=2 failed=1
        """)


def test_a_savepoint_is_part_of_the_commit(collector: Collector, tmp_path: Path) -> None:
    engine = orders({"a": [1], "b": [2], "c": [3]}, stateLocation=str(tmp_path / "state"))
    engine.run_batch()
    engine.holder.close()
    savepoints.request(state=str(tmp_path / "state"), to=str(tmp_path / "saved"))
    engine.restart()
    engine.process_all_available()
    (saved,) = (tmp_path / "saved").iterdir()
    engine = orders({}, savepoint=str(saved))
    engine.run_batch()
    engine.process_all_available()
    assert collector.tree("batch", "batch", "batch", "batch", "restore", "restore") == same("""
        batch source=orders checkpoint=1 splits=2 rows=2 complete=False
          plan
          write
          task source=orders checkpoint=1 subtask=0 attempt=0 rows=1 complete=True
          task source=orders checkpoint=1 subtask=1 attempt=0 rows=1 complete=True
        batch source=orders checkpoint=1 repeated=True complete=True
          commit

        restore source=orders checkpoint=1 savepoint=False

        batch source=orders checkpoint=2 splits=1 rows=1 complete=True
          plan
          write
          task source=orders checkpoint=2 subtask=0 attempt=0 rows=1 complete=True
          commit
            savepoint

        restore source=orders checkpoint=0 savepoint=True

        batch source=orders checkpoint=3 splits=0 complete=True
          plan
          write
          commit
        """)
    sized = [values(span.attributes)["flip27.state_bytes"] for span in collector.spans if span.name in SIZED]
    assert len(sized) == 5
    assert min(sized) > 100


def test_a_collector_that_does_not_answer_holds_nothing_up(collector: Collector) -> None:
    """It answers only after the query has ended: a query that waited for it would never end."""
    collector.answers.clear()
    with soon():
        engine = orders({"a": [1, Fail("no", times=3), 2], "b": [3], "c": [4]})
        engine.process_all_available()
        engine.holder.close()
    assert sorted(engine.rows) == [(1,), (2,), (3,), (4,)]
    assert collector.asked.is_set()
    assert collector.spans == []


@pytest.mark.parametrize("trouble", ["no collector", "an error"])
def test_a_collector_that_takes_nothing_is_one_warning(
    collector: Collector, trouble: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer hunter2")
    if trouble == "no collector":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    else:
        collector.status = 400
    engine = orders()
    engine.process_all_available()
    engine.holder.close()
    assert len(engine.rows) == 4
    until(lambda: caplog.messages != [])
    (message,) = caplog.messages
    assert message.startswith("spans cannot be sent and are dropped")
    assert "hunter2" not in caplog.text


def test_a_collector_whose_answer_never_ends_is_left(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    """Otherwise its answer would fill the memory."""
    with raw_server(floods(b"HTTP/1.1 200 OK\r\n\r\n")) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        orders({"a": [1]}).process_all_available()
        until(server.left.is_set)
        until(lambda: span_sender.sender().is_idle)
    assert span_sender.sender().dropped == 0


def test_a_collector_that_sends_elsewhere_has_not_taken_spans(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    moved = answer(b"", f"Location: {collector.url}/v1/traces", status="301 Moved Permanently")
    with raw_server(says(moved)) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        orders({"a": [1]}).process_all_available()
        until(lambda: caplog.messages != [])
    assert caplog.messages[0].startswith("spans cannot be sent and are dropped")


def test_spans_reach_a_collector_that_comes_back(collector: Collector) -> None:
    collector.status = 400
    engine = orders({"a": [1], "b": [2], "c": [3]})
    engine.run_batch()
    until(lambda: span_sender.sender().dropped > 0)
    collector.status = 200
    engine.process_all_available()
    until(lambda: any(span.name == "batch" for span in collector.spans))


def test_no_span_has_a_secret_a_file_name_or_what_a_file_contains(
    collector: Collector, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "people.json").write_text('{"id": "not a number: hunter2"}\n')
    options = {"enumerator": "files", "reader": "json", "path": str(tmp_path / "private"), "tracing": "true"}
    schema = pa.schema([("id", pa.int64())])
    engine = MicroBatchEngine(options | {"mode": "FAILFAST", "storage.token": "hunter2"}, schema=schema)
    with pytest.raises(SplitReadError, match=r"people\.json"):
        engine.process_all_available()
    engine.holder.close()
    assert "error=SplitReadError" in collector.tree("batch")
    sent = b"".join(collector.bodies)
    assert [text for text in (b"hunter2", b"people", b"private") if text in sent] == []


def test_only_sampled_traces_are_sent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    engine = orders({str(number): [number] for number in range(40)})
    engine.process_all_available()
    engine.holder.close()
    until(lambda: span_sender.sender().is_idle)
    whole = {span.trace_id for span in collector.spans if span.name == "batch"}
    assert 0 < len(whole) < 20
    assert {span.trace_id for span in collector.spans} == whole


def test_the_service_is_named_by_the_standard_variable(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "billing")
    orders().process_all_available()
    collector.tree("batch", "batch")
    assert {item["service.name"] for item in collector.resources} == {"billing"}


def test_without_the_option_nothing_of_opentelemetry_is_imported(collector: Collector) -> None:
    program = """
        import sys
        from flip27_source.testing import MicroBatchEngine, literal_source
        MicroBatchEngine(literal_source({"a": [1]})).process_all_available()
        print([name for name in sys.modules if "opentelemetry" in name])
        """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert not collector.asked.is_set()


def test_a_missing_package_is_named_when_the_query_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(RegistryError, match=r"pip install 'flip27-source\[otel\]'"):
        orders()


def test_a_missing_exporter_is_named_when_the_query_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(RegistryError, match="exporter zipkin, which is not installed"):
        orders()


def test_records_of_the_log_have_the_ids_of_their_trace(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="flip27_source")
    orders({"a": [1]}).process_all_available()
    collector.tree("batch")
    (record,) = caplog.records
    fields = vars(record)
    assert fields["trace_id"] == fields["flip27"]["trace_id"] == collector.spans[0].trace_id.hex()
    assert (fields["flip27"]["source"], fields["flip27"]["checkpoint"]) == ("orders", 1)


class Warns(EchoReader):
    """Its records are what a reader of a user logs by the library's logger."""

    def read(self, split: Any) -> Iterator[tuple[Any, ...]]:
        LOG.warning("reading %s", split.split_id)
        yield from super().read(split)


def test_records_of_tasks_name_source_checkpoint_subtask_and_span(
    collector: Collector, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    FEEDS[request.node.name] = items("a")
    batches = Batches(Feed, Warns, {"feed": request.node.name, "tracing": "true", "uid": "orders"})
    batches.batch()
    batches.batch()
    collector.tree("batch")
    (span,) = (span for span in collector.spans if span.name == "task")
    (record,) = caplog.records
    ids = {"trace_id": span.trace_id.hex(), "span_id": span.span_id.hex()}
    assert vars(record)["flip27"] == {
        "source": "orders", "checkpoint": 1, "subtask": 0, "attempt": 0, **ids,
    }  # fmt: skip
    assert vars(record)["flip27_ids"].startswith(" [source=orders checkpoint=1 subtask=0 attempt=0 trace_id=")


def test_records_have_ids_without_the_option_too(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    FEEDS[request.node.name] = items("a")
    Batches(Feed, Warns, {"feed": request.node.name}).batch()
    (record,) = caplog.records
    assert vars(record)["flip27"] == {"source": "Feed", "checkpoint": 1, "subtask": 0, "attempt": 0}
    assert vars(record)["trace_id"] is None


def test_records_of_background_work_name_the_source(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    class Asks(Feed):
        def start(self) -> None:
            self.context.call_async(lambda: LOG.warning("asked"), lambda _result, _error: None)

    FEEDS[request.node.name] = items("a")
    Batches(Asks, EchoReader, {"feed": request.node.name, "uid": "orders"}).batch()
    until(lambda: caplog.records != [])
    assert vars(caplog.records[0])["flip27"]["source"] == "orders"
