"""One life of a query whose files and state are in the cloud: it reads until it is killed or told to finish.

Its logs and its sink are files in a local folder, so that they outlive a killed driver as those of Spark do.

``python -m tests.soak.cloud_program '{"folder": ..., "options": {...}}'``
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from flip27_source.testing import Batch, MicroBatchEngine, Speculation
from flip27_source.testing.spark_side import OnceSink, SparkLogs

LINE = pa.schema([pa.field("value", pa.string())])
FINISH = "finish"
PAUSE_S = 0.02


class LogFiles(SparkLogs):
    """The two logs, with one file for each batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        for log in (self._offsets, self._commits):
            log.mkdir(exist_ok=True)
        count = len(batch_files(self._offsets))
        self.offsets = [(self._offsets / str(number)).read_text() for number in range(count)]
        self.commits = {int(path.name) for path in batch_files(self._commits)}

    def write_offset(self, text: str) -> None:
        write(self._offsets / str(len(self.offsets)), text)
        super().write_offset(text)

    def write_commit(self, batch_id: int) -> None:
        write(self._commits / str(batch_id), "")
        super().write_commit(batch_id)


class SinkFiles(OnceSink):
    """A sink with one file for each batch. A repeated batch must have the same rows."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder / "sink"
        self._folder.mkdir(exist_ok=True)

    def write(self, batch: Batch) -> None:
        file, rows = self._folder / str(batch.batch_id), json.dumps(sorted(row[0] for row in batch.rows))
        if file.exists() and file.read_text() != rows:
            raise AssertionError(f"batch {batch.batch_id} has other rows than in its first run")
        write(file, rows)
        # The rows are not kept in memory.
        super().write(replace(batch, rows=(), attempts=()))


def batch_files(folder: Path) -> list[Path]:
    """The files of the batches in a log or sink."""
    return [path for path in folder.iterdir() if path.name.isdigit()]


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    os.replace(beside, path)


def main() -> None:
    asked = json.loads(sys.argv[1])
    folder, chance = Path(asked["folder"]), random.Random(asked["seed"])
    engine = MicroBatchEngine(asked["options"], schema=LINE)
    engine.logs, engine.sink = LogFiles(folder), SinkFiles(folder)
    engine.restart()
    print("started", flush=True)
    while True:
        is_last = (folder / FINISH).exists()
        batch = engine.run_batch(speculation=chance.choice((None, *Speculation)))
        if batch is not None:
            print(f"batch {batch.batch_id}", flush=True)
        elif is_last:
            return
        else:
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
