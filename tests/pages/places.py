"""Creates what the pages assume: files in /landing, queries in /ckpt, savepoints.

The queries ran without Spark, on the third of January, with a batch every six minutes from nine o'clock on
(in local time, which the command line uses), and with offsets and commits logged as Spark does.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from flip27_source import SplitReader, savepoints
from flip27_source.readers.sequence import SequenceReader
from flip27_source.testing import MicroBatchEngine
from tests.pages.running import PageRun
from tests.snapshots.spark_logs import log_batch, log_commit

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
NINE = dt.datetime(2026, 1, 3, 9)
EVERY = dt.timedelta(minutes=6)
BATCHES = 20
FURTHER = 4
WAITING = ("half-written-1.json", "broken-1.json")

SAVEPOINT = "/savepoints/savepoint-17-0f3a..."
"""The path that the pages use; the tests create a savepoint with that name."""


def land(file: Path, text: str, *, minute: int = 0) -> None:
    """Write a file whose modification time is this many minutes after nine o'clock."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    at = (NINE + dt.timedelta(minutes=minute)).timestamp()
    os.utime(file, (at, at))


def order(number: int) -> str:
    """An order, as a line of JSON."""
    return json.dumps({"id": number, "customer": "ann", "amount": number / 2, "at": "2026-01-03"}) + "\n"


class Orders:
    """The query of /ckpt/orders, which reads one file of /landing in each batch.

    /landing/a.json is quarantined. Further files of the day and those of WAITING are not yet read.
    """

    def __init__(self, page: PageRun, **options: str) -> None:
        self.landing = page.place("/landing")
        self.checkpoint = page.place("/ckpt/orders")
        self.options = {
            "enumerator": "files",
            "reader": "json",
            "path": str(self.landing),
            "recursiveFileLookup": "true",
            "stateLocation": str(self.checkpoint / "flip27"),
            "maxFilesPerTrigger": "1",
            "requestInterval": "0s",
            "taskReports": "always",
            "onSplitError": "quarantine",
            "maxSplitAttempts": "1",
            "maxLineBytes": "200",
            **options,
        }
        self.engine = MicroBatchEngine(self.options, schema=SCHEMA)
        self.others: list[MicroBatchEngine] = []
        """Further sources of the query. All of their batches belong to its batch 0."""

    def run(self, *, batches: int = BATCHES) -> None:
        """Write files, and read most of them."""
        land(self.landing / "a.json", "too long a line " * 20)
        for number in range(1, batches + FURTHER):
            name = f"2026-01-03/{number}.json" if number > 1 else "orders/a.json"
            land(self.landing / name, order(number), minute=number)
        for name in WAITING:
            land(self.landing / name, order(100), minute=59)
        for _ in range(batches):
            self.batch()

    def batch(self) -> None:
        """Run the next batch, six minutes later."""
        number = len(self.engine.batches)
        self.engine.now_ms = int((NINE + number * EVERY).timestamp() * 1000)
        self.engine.run_batch()
        self.log()

    def log(self) -> None:
        """Write Spark's logs of all batches."""
        others = [json.loads(engine.logs.offsets[-1]) for engine in self.others]
        for number, offset in enumerate(self.engine.logs.offsets):
            log_batch(self.checkpoint, number, json.loads(offset), *others)
            log_commit(self.checkpoint, number)


def ids_query(page: PageRun, reader: type[SplitReader[Any]] = SequenceReader) -> MicroBatchEngine:
    """The query of /ckpt/ids: a sequence that was read up to 100."""
    options = {
        "enumerator": "sequence",
        "stateLocation": str(page.place("/ckpt/ids/flip27")),
        "rowsPerSplit": "100",
        "requestInterval": "0s",
    }
    engine = MicroBatchEngine(options, reader=reader)
    engine.run_batch()
    return engine


def savepoint_named_as_on_the_page(page: PageRun, orders: Orders) -> Path:
    """Create a savepoint of the whole query, in a directory with the name that the pages use."""
    made = savepoints.create(
        state=orders.options["stateLocation"], to=str(page.place("/savepoints")), query=True
    )
    return Path(made.directory).rename(page.place(SAVEPOINT))
