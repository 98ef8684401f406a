"""Queries whose state, and whose pages, are the same at every run: for pictures of the page."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from flip27_source.errors import SplitReadError, kept_parts
from flip27_source.executor import quarantine, retries
from flip27_source.snapshots import driver_condition, driver_epochs
from flip27_source.snapshots.file_names import CheckpointName
from flip27_source.snapshots.store import LocalStore
from flip27_source.snapshots.task_failures import TaskFailure, keep_failure
from flip27_source.testing import MicroBatchEngine, engine
from tests.golden.worlds import topics
from tests.snapshots.spark_logs import log_batch
from tests.ui.queries import DiskQuery

BEGAN = dt.datetime(2026, 11, 30, 2, 0, tzinfo=dt.UTC)
NOW = BEGAN + dt.timedelta(seconds=83)
_TASK_S = (0.4, 1.3, 0.7, 2.2, 0.5)
_PATIENCE_MS = 3_600_000
"""Pictures may take a while on a busy machine: a driver runs if it was alive within this time."""
_BROKEN = '{"order": 27, "amount": 9.'
_TOPICS = (("trips", (900, 400, 1500, 650)), ("fares", (300, 800)))
"""How many records the partitions have."""
_LENGTH_OF_ROOT = 90
"""Paths are in the state, and their length changes its size, which pages show."""


@dataclass(slots=True)
class LiteralQuery(DiskQuery):
    """A query over JSON files; a batch every ten seconds."""

    @classmethod
    def begun(cls, root: Path, uid: str, **options: str) -> LiteralQuery:
        (root / uid / "landing").mkdir(parents=True)
        given = {
            "enumerator": "files", "reader": "json", "mode": "FAILFAST", "uid": uid,
            "path": str(root / uid / "landing"), "stateLocation": str(root / uid / "checkpoint" / "flip27"),
            "taskReports": "always", "onSplitError": "quarantine", "maxFilesPerTrigger": "12", **options,
        }  # fmt: skip
        schema = pa.schema([("order", pa.int64()), ("amount", pa.float64())])
        made = cls(root / uid, MicroBatchEngine(given, schema=schema))
        made.engine.now_ms = round(BEGAN.timestamp() * 1000)
        return made

    def arrive(self, *names: str, lines: Sequence[str]) -> None:
        for name in names:
            path = self.root / "landing" / name
            path.write_text("".join(f"{line}\n" for line in lines))
            os.utime(path, (BEGAN.timestamp(), BEGAN.timestamp()))

    def ended_by(self, name: str, lines: Sequence[str]) -> None:
        """The next batch ends the query on this file; its task says so, as those of Spark do."""
        self.arrive(name, lines=lines)
        with pytest.raises(SplitReadError) as failed:
            self.batch(10)
        offset = json.loads(self.engine.logs.offsets[self.logged])
        log_batch(self.checkpoint, self.logged, offset)
        lineage, _, file = offset["state"]["file"].split("/")
        name_of_document = CheckpointName.parse(file)
        assert name_of_document is not None
        what, remedy = kept_parts(failed.value)
        failure = TaskFailure(
            at_ms=self.engine.now_ms + 900,
            epoch=self.engine.holder.cycle.driving.epoch or 0,
            subtask=0,
            attempt=3,
            host="worker-1",
            error=what,
            remedy=remedy,
        )
        keep_failure(LocalStore(str(self.checkpoint / "flip27")), lineage, name_of_document, failure)
        self.engine.stop()


def _lines(number: int) -> list[str]:
    return [json.dumps({"order": order, "amount": order / 4}) for order in range(number)]


@contextlib.contextmanager
def literal_queries(folder: Path) -> Iterator[tuple[list[Path], Callable[[str], str]]]:
    """The checkpoint locations of five queries, and what makes a page of them the same everywhere.

    One has failed, one was killed, one catches up, one has quarantined files, and one reads
    Kafka and is in the midst of a batch.
    """
    root = folder / ("x" * (_LENGTH_OF_ROOT - len(str(folder))))
    seconds = itertools.accumulate(itertools.cycle((0.0, *_TASK_S)))
    hosts = itertools.cycle(("worker-1", "worker-2"))
    with topics(*_TOPICS), pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver_epochs, "_host", lambda: "driver-1")
        patch.setattr(driver_condition, "_PATIENCE_MS", _PATIENCE_MS)
        patch.setattr(engine, "_lineages", itertools.count(0x27))
        patch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        for module in (retries, quarantine):
            patch.setattr(module, "socket", SimpleNamespace(gethostname=lambda: next(hosts)))
        queries = [*_played(root), _of_topics(root)]
    try:
        yield [query.checkpoint for query in queries], lambda text: _everywhere(text, root)
    finally:
        for query in queries:
            query.engine.stop()


def _everywhere(text: str, root: Path) -> str:
    return re.sub(r"process \d+", "process 4027", text.replace(str(root), "/data"))


def _played(root: Path) -> Iterator[DiskQuery]:
    clicks = LiteralQuery.begun(root, "clicks")
    clicks.arrive(*(f"click-{n:03}.json" for n in range(180)), lines=_lines(2_000))
    orders = LiteralQuery.begun(root, "orders")
    orders.arrive(*(f"order-{n:03}.json" for n in range(70)), lines=_lines(500))
    orders.arrive("order-031.json", "order-044.json", lines=[*_lines(3), _BROKEN])
    payments = LiteralQuery.begun(root, "payments", onSplitError="fail")
    visits = LiteralQuery.begun(root, "visits")
    payments.arrive(*(f"payment-{n:03}.json" for n in range(20)), lines=_lines(100))
    visits.arrive(*(f"visit-{n:03}.json" for n in range(60)), lines=_lines(100))
    for _ in range(8):
        clicks.batch(10)
        orders.batch(10)
    for query in (payments, visits):
        query.batch(10)
        query.batch(10)
    payments.ended_by("payment-020.json", lines=[*_lines(3), _BROKEN])
    for running in (clicks, orders):
        _runs(running)
    yield from (clicks, orders, payments, visits)


def _runs(query: DiskQuery) -> None:
    (said,) = query.checkpoint.glob("flip27/*/drivers/*.alive")
    said.rename(said.with_name(f"1.{time.time_ns() // 1_000_000}.alive"))


def _of_topics(root: Path) -> DiskQuery:
    given = {
        "enumerator": "kafka", "reader": "kafka", "kafka.bootstrap.servers": "simulated:9092", "uid": "trips",
        "subscribe": "trips,fares", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1200",
        "partitionLag": "true", "stateLocation": str(root / "trips" / "checkpoint" / "flip27"),
        "taskReports": "always",
    }  # fmt: skip
    schema = pa.schema([("value", pa.binary())])
    trips = DiskQuery(root / "trips", MicroBatchEngine(given, schema=schema, parallelism=6))
    trips.engine.now_ms = round(BEGAN.timestamp() * 1000)
    trips.batch(30)
    trips.plan(30, reported=4)
    trips.engine.holder.cycle.driving.renew()
    _runs(trips)
    return trips
