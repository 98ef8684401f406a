"""Metrics from states: what ``flip27 export-metrics`` tells of queries, running or not, readable or not."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from flip27_source.cli.commands import FileSystem
from flip27_source.cli.export_metrics.states import LOOKS_KEPT, StateMetrics
from flip27_source.cli.state.rows import Place, StoredState
from flip27_source.discovery import DiscoveringEnumerator, Discovery
from flip27_source.errors import StateLocationError
from flip27_source.metrics import CATALOG, QueryMetrics, Sample, export_to_prometheus
from flip27_source.metrics.catalog import DISCOVERY, By
from flip27_source.snapshots.driver_epochs import DriverEpoch
from flip27_source.snapshots.store import LocalStore
from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27, three_batches, two_batches
from tests.deadline import until
from tests.driver.batches import Batches
from tests.metrics.events import FIRST
from tests.quick_moto import QuickAnswers
from tests.s3_server import new_bucket
from tests.snapshots.spark_logs import FileQuery, checkpoint_in, log_batch, log_commit
from tests.toy_sources import EchoReader, Item

INTERVAL_S = 15.0


class Clocks:
    """The clocks of an exporter, which tests move."""

    def __init__(self, seconds: float = 100.0) -> None:
        self.seconds = seconds

    def now(self) -> dt.datetime:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.seconds)

    def steady_s(self) -> float:
        return self.seconds


class Exported:
    """The exporter of some locations, each looked at when a test says so."""

    def __init__(self, **places: Path | Place) -> None:
        self.clocks = Clocks()
        self.said: list[str] = []
        given = {
            name: at if isinstance(at, Place) else Place(location=str(at)) for name, at in places.items()
        }
        self.metrics = StateMetrics(
            given, INTERVAL_S, lambda text: text, self.said.append,
            now=self.clocks.now, steady_s=self.clocks.steady_s,
        )  # fmt: skip

    def look(self, *queries: str) -> dict[tuple[str, ...], float]:
        for query in queries:
            self.metrics.look(query)
        return by_labels(self.metrics.samples())


def by_labels(samples: list[Sample]) -> dict[tuple[str, ...], float]:
    return {(sample.metric.name, *sample.labels): sample.value for sample in samples}


def lineage_of(query: FileQuery) -> str:
    state = query.checkpoint / "flip27"
    (lineage,) = (folder.name for folder in state.iterdir() if folder.name.startswith("files-"))
    return lineage


def test_a_state_has_the_numbers_that_the_listener_exports(
    tmp_path: Path, five_files: dict[str, str]
) -> None:
    engine = MicroBatchEngine(five_files | {"taskReports": "always"})
    for _ in range(2):
        batch = engine.run_batch()
        assert batch is not None
    exported = Exported(orders=tmp_path / "state")
    told = QueryMetrics(now=exported.clocks.now)
    source = {"startOffset": batch.start, "endOffset": batch.end, "latestOffset": engine.holder.report()}
    told.progressed(FIRST | {"name": "orders", "timestamp": "1970-01-01T00:00:00Z", "sources": [source]})
    engine.holder.close()  # writes the driver's record

    listened = {key: value for key, value in by_labels(told.samples()).items() if len(key) > 2}
    both = {metric.name for metric in CATALOG if metric.by is By.BOTH}
    found = exported.look("orders")
    assert {key: value for key, value in listened.items() if key[0] in both} == {
        key: value for key, value in found.items() if key[0] in both and len(key) > 2
    }
    assert found["flip27_backlog_splits", "orders", "files"] == 1
    assert found["flip27_checkpoint_bytes", "orders", "files"] > 1000
    assert found["flip27_slowest_subtask_seconds", "orders", "files"] >= 0
    assert {key[0] for key in found} <= {metric.name for metric in CATALOG if metric.by is not By.LISTENER}


def failed_query(root: Path) -> FileQuery:
    """A query that has failed; its driver has told everything that a driver can tell."""
    query = three_batches(root)
    numbers = {
        "checkpoint": 3, "planningMs": 10, "writeMs": 20, "restoreMs": 30, "restoreBytes": 40,
        "failedCheckpoints": 2, "lastFailure": "AccessError", "lastFailureAt": "1970-01-01T00:01:30+00:00",
        "parts": {"slotKeptBytes": {"slot": 5}, "partitionLag": {"orders-0": 6}}, "mine": 7,
        "backlogRows": 8, "backlogBytes": 9, "backlogOldestEventTime": "1970-01-01T00:00:00+00:00",
        "lastMaxEventTime": "1970-01-01T00:00:00+00:00", "smallestWatermarkDelayMs": 1,
        "eventTimeHorizon": "1970-01-01T00:00:00+00:00", "replayBehindMs": 1, "lastSlowestSubtaskMs": 1,
        "lastRetriedSubtasks": 1,
    }  # fmt: skip
    store, notes = LocalStore(str(query.checkpoint / "flip27")), {"numbers": numbers}
    epoch = DriverEpoch(store, lineage_of(query), 9_000, notes=notes)
    epoch.end(10_000, StateLocationError("no space", remedy="add space"))
    return query


def test_labels_and_values_are_those_of_the_catalog(tmp_path: Path) -> None:
    """With everything that a driver can tell, every metric of the exporter has a sample."""
    exported = Exported(orders=failed_query(tmp_path).checkpoint)
    found = exported.look("orders")
    samples = exported.metrics.samples()
    while_it_runs = {DISCOVERY}
    assert {sample.metric for sample in samples} == {
        metric for metric in CATALOG if metric.by is not By.LISTENER
    } - while_it_runs
    assert [sample for sample in samples if len(sample.labels) != len(sample.metric.labels)] == []
    assert {
        ("flip27_driver_condition", "orders", "files", "failed"): 1,
        ("flip27_driver_condition", "orders", "files", "running"): 0,
        ("flip27_driver_error", "orders", "files", "StateLocationError"): 1,
        ("flip27_driver_heard_seconds", "orders", "files"): 90.0,
        ("flip27_query_failed", "orders"): 1,
        ("flip27_query_active", "orders"): 0,
        ("flip27_batch_id", "orders"): 1,
        ("flip27_batch_pending", "orders", "files"): 1,
        ("flip27_checkpoint_id", "orders", "files"): 3,
        ("flip27_lag_seconds", "orders", "files"): 93.0,
        ("flip27_complete_checkpoint_seconds", "orders", "files"): 97.0,
        ("flip27_failed_checkpoints", "orders", "files"): 2,
        ("flip27_failed_checkpoint_seconds", "orders", "files", "AccessError"): 10.0,
        ("flip27_planning_seconds", "orders", "files"): 0.01,
        ("flip27_checkpoint_write_seconds", "orders", "files"): 0.02,
        ("flip27_restore_seconds", "orders", "files"): 0.03,
        ("flip27_restore_bytes", "orders", "files"): 40,
        ("flip27_slot_kept_bytes", "orders", "files", "slot"): 5,
        ("flip27_partition_lag_rows", "orders", "files", "orders-0"): 6,
        ("flip27_enumerator_gauge", "orders", "files", "mine"): 7,
    }.items() <= found.items()


class Hangs(DiscoveringEnumerator[Item]):
    """Finds one item, and does not answer while ``may_go_on`` is cleared."""

    is_held = threading.Event()
    may_go_on = threading.Event()
    position_type = int

    def discover(self, position: int | None) -> Discovery[Item, int]:
        if not self.may_go_on.is_set():
            self.is_held.set()
        assert self.may_go_on.wait(60)
        return Discovery([Item(split_id="a")] if position is None else [], 1)


def test_a_round_of_discovery_that_does_not_end_is_told_while_the_query_runs(tmp_path: Path) -> None:
    options = {"stateLocation": str(tmp_path), "discoveryInterval": "10 milliseconds"}
    Hangs.may_go_on.set()
    batches = Batches(Hangs, EchoReader, options, store=LocalStore(str(tmp_path)))
    lasts = ("flip27_discovery_seconds", "orders", "Hangs")
    exported = Exported(orders=tmp_path)

    def after(seconds: int) -> float | None:
        batches.now_ms += 1000 * seconds
        batches.holder.cycle.driving.renew()
        return exported.look("orders").get(lasts)

    batches.now_ms = round(time.time() * 1000)
    until(lambda: batches.batch() == ["a"])
    after(0)  # the first look compares clocks
    after(1200)
    until(lambda: after(0) == 0)
    Hangs.is_held.clear()
    Hangs.may_go_on.clear()
    assert Hangs.is_held.wait(60)
    assert after(1200) == 1200
    Hangs.may_go_on.set()
    until(lambda: after(0) == 0)
    batches.holder.close()
    assert lasts not in exported.look("orders")


def test_a_query_is_running_then_lost_when_it_is_killed_and_running_again(tmp_path: Path) -> None:
    exported = Exported(orders=tmp_path / "checkpoint" / "flip27")
    exported.clocks = Clocks()

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.ui.killed_query", str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def read(query: subprocess.Popen[str], file: str) -> None:
        assert query.stdin is not None
        assert query.stdout is not None
        query.stdin.write(f"{file}\n")
        query.stdin.flush()
        assert query.stdout.readline() != ""

    def conditions(*asked: str) -> list[float]:
        found = exported.look("orders")
        return [found["flip27_driver_condition", "orders", "files", condition] for condition in asked]

    query = started()
    try:
        read(query, "a.txt")
        assert conditions("running", "lost") == [1, 0]
        query.kill()
        query.wait()
        assert conditions("running", "lost") == [0, 1]
        found = by_labels(exported.metrics.samples())
        assert (found["flip27_query_active", "orders"], found["flip27_query_failed", "orders"]) == (0, 0)
        assert found["flip27_driver_epoch", "orders", "files"] == 1
        query = started()
        read(query, "b.txt")
        assert conditions("running", "lost") == [1, 0]
        assert by_labels(exported.metrics.samples())["flip27_driver_epoch", "orders", "files"] == 2
    finally:
        query.kill()
        query.wait()
        for pipe in (query.stdin, query.stdout):
            assert pipe is not None
            pipe.close()


def test_a_state_that_cannot_be_read_is_a_metric_and_its_numbers_go_after_four_looks(tmp_path: Path) -> None:
    query, other = two_batches(tmp_path / "a"), two_batches(tmp_path / "b")
    exported = Exported(a=query.checkpoint, b=other.checkpoint, never=tmp_path / "nowhere")
    found = exported.look("a", "b", "never")
    assert [found["flip27_state_readable", name] for name in ("a", "b", "never")] == [1, 1, 0]
    assert ("flip27_state_read_seconds", "never") not in found
    assert [text for text in exported.said if "never" not in text] == []

    gone = query.checkpoint.rename(tmp_path / "gone")
    for number in range(1, LOOKS_KEPT + 1):
        exported.clocks.seconds += INTERVAL_S
        found = exported.look("a", "b", "never")
        assert found["flip27_state_readable", "a"] == 0
        assert found["flip27_state_read_seconds", "a"] == number * INTERVAL_S
        assert found["flip27_checkpoint_id", "a", "files"] == 2
        # Ages go on growing.
        assert found["flip27_lag_seconds", "a", "files"] == 97.0 + number * INTERVAL_S
    exported.clocks.seconds += INTERVAL_S
    found = exported.look("a", "b")
    assert {key[0] for key in found if key[1] == "a"} == {
        "flip27_state_readable",
        "flip27_state_read_seconds",
    }
    assert found["flip27_checkpoint_id", "b", "files"] == 2
    said = [text for text in exported.said if "state of a " in text]
    assert len(said) == 1, "it is said once"
    assert "does not exist" in said[0]

    gone.rename(query.checkpoint)
    found = exported.look("a")
    assert (found["flip27_state_readable", "a"], found["flip27_checkpoint_id", "a", "files"]) == (1, 2)


def test_a_look_that_does_not_end_is_no_readable_state(tmp_path: Path) -> None:
    exported = Exported(orders=two_batches(tmp_path).checkpoint)
    assert exported.look("orders")["flip27_state_readable", "orders"] == 1
    exported.clocks.seconds += LOOKS_KEPT * INTERVAL_S
    assert exported.look()["flip27_state_readable", "orders"] == 1
    exported.clocks.seconds += 1
    found = exported.look()
    assert found["flip27_state_readable", "orders"] == 0
    assert found["flip27_state_read_seconds", "orders"] == LOOKS_KEPT * INTERVAL_S + 1
    assert len(found) == 2


def test_a_state_inside_offsets_has_a_backlog_and_no_driver(tmp_path: Path) -> None:
    query = FileQuery(tmp_path, state=None)
    query.land("a", "b")
    query.batch(now_ms=1000)
    found = Exported(orders=query.checkpoint).look("orders")
    assert found["flip27_checkpoint_id", "orders", "files"] == 1
    assert found["flip27_splits", "orders", "files", "finished"] == 2
    assert found["flip27_batch_pending", "orders", "files"] == 0
    assert "flip27_driver_condition" not in {key[0] for key in found}


def test_the_newest_batch_may_be_one_without_data_of_the_source(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    for batch_id in (2, 3, 4):  # with data of another source
        log_batch(query.checkpoint, batch_id, query.at)
        if batch_id < 4:
            log_commit(query.checkpoint, batch_id)
    found = Exported(orders=query.checkpoint).look("orders")
    assert found["flip27_batch_id", "orders"] == 3
    assert found["flip27_batch_pending", "orders", "files"] == 0


def test_labels_that_are_no_text_do_not_break_the_scrape(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    exported = Exported(**{"bytes-\udcff": two_batches(tmp_path).checkpoint})
    exported.look("bytes-\udcff")
    export_to_prometheus(exported.metrics, registry)
    assert b'flip27_batch_id{query="bytes-\\\\udcff"} 1.0' in generate_latest(registry)


def test_a_damaged_lineage_leaves_the_others_of_its_location_readable(tmp_path: Path) -> None:
    first, second = FileQuery(tmp_path / "1"), FileQuery(tmp_path / "2", uid="bad")
    state = tmp_path / "state"
    for query in (first, second):
        query.land("a")
        query.batch(now_ms=1000)
        shutil.copytree(query.checkpoint / "flip27", state, dirs_exist_ok=True)
    (damaged,) = state.glob("bad-*/checkpoints/*")
    damaged.write_text("{")
    exported = Exported(shared=state)
    found = exported.look("shared")
    assert found["flip27_state_readable", "shared"] == 0
    assert found["flip27_checkpoint_id", "shared", "files"] == 1
    assert [item["query"] for item in exported.metrics.unread()] == ["shared"]
    shutil.rmtree(damaged.parents[1])
    assert exported.look("shared")["flip27_state_readable", "shared"] == 1


def test_sources_of_one_uid_have_the_names_of_their_lineages(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for name in "ab":
        query = FileQuery(tmp_path / name)
        query.land("x")
        query.batch(now_ms=1000)
        shutil.copytree(query.checkpoint / "flip27", state, dirs_exist_ok=True)
    found = Exported(shared=state).look("shared")
    names = {key[2] for key in found if key[0] == "flip27_checkpoint_id"}
    assert names == {folder.name for folder in state.iterdir() if folder.name.startswith("files-")}
    assert len(names) == 2


def test_what_a_tolerated_failure_of_the_first_checkpoint_has_left_is_no_source(tmp_path: Path) -> None:
    state = two_batches(tmp_path).checkpoint / "flip27"
    (lineage,) = state.iterdir()
    left = shutil.copytree(lineage, state / "files-00000000000000aa")
    shutil.rmtree(left / "drivers")
    found = Exported(orders=state).look("orders")
    assert {key[2] for key in found if len(key) > 2} == {"files"}


def test_a_lineage_at_two_locations_is_exported_once_by_the_name_of_the_first(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    exported = Exported(orders=query.checkpoint, state=query.checkpoint / "flip27")
    assert {key[1] for key in exported.look("state", "orders")} == {"orders"}
    # Once the first does not tell of it, the second does; that the first cannot be read is not hidden.
    shutil.rmtree(query.checkpoint / "offsets")
    exported.clocks.seconds += (LOOKS_KEPT - 1) * INTERVAL_S
    found = exported.look("state", "orders")
    assert {key[1] for key in found if key[0] == "flip27_checkpoint_id"} == {"orders"}
    exported.clocks.seconds += 2 * INTERVAL_S
    found = exported.look("state", "orders")
    assert {key[1] for key in found if key[0] == "flip27_checkpoint_id"} == {"state"}
    assert [found["flip27_state_readable", name] for name in ("orders", "state")] == [0, 1]


def test_the_name_of_a_query_is_given_or_the_last_folder(tmp_path: Path) -> None:
    query = two_batches(tmp_path)
    at = query.checkpoint
    named = {
        (f"--checkpoint-location=orders={at}",): {"orders"},
        ("--checkpoint-location", at): {"checkpoint"},
        ("--state", at / "flip27"): {"checkpoint"},
        ("--state", f"{at}/flip27/{lineage_of(query)}"): {lineage_of(query)},
    }
    for words, names in named.items():
        said = flip27("export-metrics", *words, "--once", "--json")
        assert said.code == 0, said
        assert {sample["labels"]["query"] for sample in said.data["samples"]} == names


def test_wrong_usage_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "give --state or --checkpoint-location" in flip27("export-metrics").err
    twice = flip27("export-metrics", "--state", "/a/orders", "--state", "/b/orders", "--once")
    assert twice.code == 1
    assert "two locations have the name orders" in twice.err
    query = two_batches(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        said = flip27("export-metrics", "--state", query.checkpoint, "--port", port)
    assert said.code == 1
    assert f"127.0.0.1 port {port} cannot be used" in said.err
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    said = flip27("export-metrics", "--state", query.checkpoint)
    assert said.code == 1
    assert "pip install 'flip27-source[prometheus]' in this environment" in said.err


@pytest.fixture
def hanging() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def s3_place(location: str, options: dict[str, Any]) -> Place:
    words = [f"{name}={value}" for name, value in options.items()]
    return Place(location=location, stored=StoredState(files=FileSystem(storage=words)))


def test_a_store_that_never_answers_does_not_hold_the_others(tmp_path: Path, hanging: str) -> None:
    query = two_batches(tmp_path)
    slow = s3_place("s3://bucket/state", {"endpoint_url": hanging, "key": "a", "secret": "b"})
    exported = Exported(slow=slow, orders=query.checkpoint)
    ends = threading.Event()
    starting = threading.Thread(target=exported.metrics.start, args=(ends,), daemon=True)
    starting.start()
    try:
        until(lambda: ("flip27_checkpoint_id", "orders", "files") in by_labels(exported.metrics.samples()))
        assert by_labels(exported.metrics.samples())["flip27_state_readable", "slow"] == 0
    finally:
        ends.set()


def test_a_further_look_at_a_state_in_a_bucket_takes_6_requests_or_8_after_its_query_and_none_writes(
    counting: QuickAnswers, tmp_path: Path
) -> None:
    bucket = new_bucket(counting.url)
    landing = tmp_path / "landing"
    landing.mkdir()
    state = f"s3://{bucket.name}/state"
    options = {"enumerator": "files", "reader": "text", "path": str(landing), "taskReports": "always"}
    engine = MicroBatchEngine({**options, "stateLocation": state, **bucket.options})
    engine.now_ms = round(time.time() * 1000)  # another clock would say that it is lost
    engine.restart()
    for number in range(15):
        (landing / str(number)).write_text("1\n")
        engine.now_ms += 1000
        engine.run_batch()
    exported = Exported(orders=s3_place(state, bucket.storage_options))
    requests = []
    for look in range(4):
        counting.requests.clear()
        condition = "running" if look < 3 else "stopped"
        assert exported.look("orders")["flip27_driver_condition", "orders", "files", condition] == 1
        requests.append(dict(counting.requests))
        if look == 2:
            engine.stop()
    # Without Spark's log it is not known that its batch is complete: a task may have ended it.
    assert [sum(found.values()) for found in requests] == [28, 6, 6, 8], requests
    assert all(found.keys() <= {"GET", "LIST", "HEAD"} for found in requests)
    counting.requests.clear()
    exported.metrics.samples()
    assert counting.requests.total() == 0, "a scrape asks no store"


def test_with_the_checkpoint_location_a_further_look_takes_14_requests(
    counting: QuickAnswers, tmp_path: Path
) -> None:
    bucket = new_bucket(counting.url)
    checkpoint = checkpoint_in(bucket, tmp_path)
    exported = Exported(orders=s3_place(checkpoint, bucket.storage_options))
    found = []
    for _ in range(3):
        counting.requests.clear()
        assert exported.look("orders")["flip27_batch_id", "orders"] == 19
        found.append(dict(counting.requests))
    assert found[1:] == [{"LIST": 11, "GET": 3}] * 2


def test_the_exporter_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    import urllib.request

    query = two_batches(tmp_path)
    words = ["export-metrics", "--checkpoint-location", f"orders={query.checkpoint}", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "flip27_source.cli.main", *words], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        assert 'flip27_checkpoint_id{query="orders",source="files"} 2.0' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_between_two_renewals_of_the_record_the_state_tells_the_backlog(
    tmp_path: Path, five_files: dict[str, str]
) -> None:
    """The record tells of the first checkpoint, when more was pending than after the second."""
    engine = MicroBatchEngine(five_files)
    engine.run_batch()
    engine.holder.cycle.driving.renew()
    engine.run_batch()
    found = Exported(orders=tmp_path / "state").look("orders")
    assert found["flip27_checkpoint_id", "orders", "files"] == 2
    assert found["flip27_backlog_splits", "orders", "files"] == 1
    assert found["flip27_splits", "orders", "files", "pending"] == 1
    engine.stop()
