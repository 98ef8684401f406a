"""Why queries end, as a listener tells it to the states of their sources."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from time import sleep
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import StateLocationError
from flip27_source.metrics.query_failures import QueryFailures
from tests.cli.command_line import flip27, storage
from tests.executor.failing_query import FailingQuery
from tests.s3_server import S3Bucket
from tests.snapshots.spark_logs import FileQuery, log_batch, log_commit
from tests.toy_sources import INITIAL

QUERY = "00000000-0000-0000-0000-000000000000"
OF_A_SINK = (
    "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent "
    'call last):\n  File "/a/clientserver.py", line 644, in _call_proxy\n    return_value = getattr(\n'
    "                   ^^^^^\nValueError: the sink is full\n SQLSTATE: 38000\n\tat a.B.run(B.java:4)\n"
)


def text_of_task(error: str) -> str:
    """Spark's text of the exception of a query that a task has ended."""
    return (
        "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the "
        'Python worker: Traceback (most recent call last):\n  File "/b.py", line 1, in main\n    run()\n'
        f"flip27_source.errors.{error}\n SQLSTATE: 38000\n\tat org.apache.spark.Some.run(Some.scala:1)\n"
    )


def told(failing: FailingQuery, text: str, query: str = QUERY, **options: Any) -> None:
    failures = QueryFailures([str(failing.query.checkpoint)], [], options)
    failures.started(query, "run")
    failures.terminated(query, "run", text)
    failures.wait()


def test_every_command_shows_why_a_query_has_ended(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    told(failing, OF_A_SINK)
    assert failing.shown()["condition"] == "running", "its driver has not ended yet"
    failing.holder.close()
    state = failing.query.checkpoint / "flip27"
    for places in (), ("--state", state):
        shown = failing.shown(*places)
        assert (shown["condition"], shown["error"]) == ("failed", "ValueError: the sink is full")
    assert "ValueError: the sink is full" in flip27("state", "show", state).out
    assert "ValueError: the sink is full" in flip27("watch", failing.query.checkpoint, "--once").out
    exported = flip27(
        "export-metrics", "--once", "--checkpoint-location", f"q={failing.query.checkpoint}"
    ).out
    assert 'flip27_driver_condition{condition="failed",query="q",source="files"} 1.0' in exported
    assert 'flip27_driver_error{error="ValueError",query="q",source="files"} 1.0' in exported


def test_the_error_of_a_task_with_its_remedy_counts_more_than_spark_quoting_it(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    (kept,) = failing.kept
    told(failing, text_of_task(json.loads(kept.read_text())["error"]))
    assert failing.kept == [kept]
    failing.holder.close()
    assert "orders.json, byte 9: the record is malformed" in failing.shown()["error"]


def test_an_error_that_quotes_no_task_is_another_one_and_the_first_one_counts(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.attempt()
    told(failing, text_of_task("SchemaError: one\n  What to do: write it\nanew"))
    told(failing, OF_A_SINK)
    failing.holder.close()
    shown = failing.shown()
    assert (shown["error"], shown["remedy"]) == ("SchemaError: one", "write it")


def test_what_a_driver_says_of_its_end_counts_more(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    (record,) = failing.query.checkpoint.glob("flip27/*/drivers/*.json")
    told(failing, OF_A_SINK)
    failing.holder.close()
    record.write_text(json.dumps({**json.loads(record.read_text()), "error": "DiscoveryError: of planning"}))
    assert failing.shown()["error"] == "DiscoveryError: of planning"


def test_an_error_is_that_of_its_run(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    failures = QueryFailures([str(failing.query.checkpoint)], [], {})
    failures.started(QUERY, "first")
    failing.holder.close()
    failures.started(QUERY, "second")
    failures.terminated(QUERY, "first", OF_A_SINK)
    failures.wait()
    assert failing.kept == [], "the newest driver may be that of the second run"
    failures.terminated(QUERY, "second", OF_A_SINK)
    failures.wait()
    assert failing.shown()["condition"] == "failed"
    again = CoordinatorHolder(failing.query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    again.plan(INITIAL, failing.query.at)
    assert failing.shown()["condition"] == "running"
    again.close()
    assert (failing.shown()["condition"], failing.shown()["error"]) == ("stopped", None)


@pytest.mark.parametrize(
    "said",
    [
        "StaleDriverError: another driver (process 1 on a) has taken over files-1 in /s: its epoch is 2",
        "SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.",
    ],
)
def test_a_run_whose_checkpoint_another_one_has_taken_over_says_nothing_of_that_one(
    tmp_path: Path, said: str
) -> None:
    failing = FailingQuery.begun(tmp_path)
    first = failing.holder
    failing.holder = CoordinatorHolder(failing.query.source, Boundedness.CONTINUOUS_UNBOUNDED)
    failing.holder.plan(INITIAL, failing.query.at)
    told(failing, text_of_task(said))
    first.close()
    assert failing.kept == []
    told(failing, OF_A_SINK)
    failing.holder.close()
    assert failing.shown()["error"] == "ValueError: the sink is full"


def test_all_sources_of_the_query_are_told_except_those_whose_state_is_in_sparks_log(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    elsewhere = str(tmp_path / "elsewhere")
    other = FileQuery(tmp_path / "other", stateLocation=elsewhere, uid="other")
    inline = FileQuery(tmp_path / "inline", state=None)
    for query in (other, inline):
        query.land("a.txt")
        query.batch(committed=False)
    log_batch(failing.query.checkpoint, 0, failing.query.at, other.at, inline.at)
    failures = QueryFailures([str(failing.query.checkpoint)], [elsewhere], {})
    failures.terminated(QUERY, "run", OF_A_SINK)
    failures.wait()
    failing.holder.close()
    said = flip27(
        "ui", "--checkpoint-location", failing.query.checkpoint, "--state", tmp_path / "elsewhere", "--json"
    )
    shown = [(source["condition"], source["error"]) for source in said.data["sources"]]
    assert shown.count(("failed", "ValueError: the sink is full")) == 2, shown
    assert len(shown) == 3


def test_a_state_that_is_not_found_hides_none_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = FailingQuery.begun(tmp_path)
    other = FileQuery(tmp_path / "other", stateLocation=str(tmp_path / "elsewhere"), uid="other")
    other.land("a.txt")
    other.batch(committed=False)
    log_batch(failing.query.checkpoint, 0, other.at, failing.query.at)
    told(failing, OF_A_SINK)
    assert len(failing.kept) == 1
    (said,) = [
        said for said in map(logging.LogRecord.getMessage, caplog.records) if "state_locations" in said
    ]
    assert other.at["state"]["file"].partition("/")[0] in said
    failing.holder.close()


def test_a_state_in_a_bucket_is_told(tmp_path: Path, s3_bucket: S3Bucket) -> None:
    bucket = s3_bucket
    state = f"s3://{bucket.name}/state"
    failing = FailingQuery.begun(tmp_path, stateLocation=state, **bucket.options)
    failures = QueryFailures([str(failing.query.checkpoint)], [state], bucket.storage_options)
    failures.terminated(QUERY, "run", OF_A_SINK)
    failures.wait()
    failing.holder.close()
    words = storage(bucket.storage_options)
    shown = failing.shown("--checkpoint-location", failing.query.checkpoint, "--state", state, *words)
    assert (shown["condition"], shown["error"]) == ("failed", "ValueError: the sink is full")


def test_other_queries_and_batches_that_are_complete_are_left_alone(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    told(failing, OF_A_SINK, query="another")
    log_commit(failing.query.checkpoint, 0)
    told(failing, OF_A_SINK)
    assert failing.kept == []
    failures = QueryFailures([str(tmp_path / "nothing"), str(failing.query.landing)], [], {})
    failures.terminated(QUERY, "run", OF_A_SINK)
    failures.wait()
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(StateLocationError):
        QueryFailures([""], [], {})
    failing.holder.close()


def test_no_secret_is_kept(tmp_path: Path) -> None:
    failing = FailingQuery.begun(tmp_path)
    secret = "a-key-of-the-storage"
    text = OF_A_SINK.replace("the sink is full", f"{secret} is refused by https://me:pass@host/x")
    told(failing, text, secret=secret)
    (kept,) = failing.kept
    assert secret not in kept.read_text()
    assert "pass@" not in kept.read_text()
    failing.holder.close()


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "a-key-of-the-storage"
    (tmp_path / secret).write_text("a file")
    failures = QueryFailures([str(tmp_path / secret / "checkpoint")], [], {"secret": secret})
    with caplog.at_level(logging.WARNING):
        failures.terminated(QUERY, "run", OF_A_SINK)
        failures.wait()
    assert "the state does not have why query" in caplog.text
    assert secret not in caplog.text


def test_a_store_that_does_not_answer_holds_neither_the_listener_nor_what_other_queries_need(
    tmp_path: Path,
) -> None:
    failing = FailingQuery.begun(tmp_path)
    failing.holder.close()
    answering = threading.Event()

    class Silent(MemoryFileSystem):
        protocol = "silent"

        def cat_file(self, *_: Any, **__: Any) -> bytes:
            answering.wait(60)
            raise FileNotFoundError

    fsspec.register_implementation("silent", Silent, clobber=True)
    failures = QueryFailures(["silent://bucket/checkpoint", str(failing.query.checkpoint)], [], {})
    try:
        failures.terminated(QUERY, "run", OF_A_SINK)
        assert any(failing.shown()["condition"] == "failed" or sleep(0.05) for _ in range(200))
    finally:
        answering.set()
    failures.wait()
