"""Queries on disk whose names and errors are hostile, for tests of the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_source.testing import MicroBatchEngine
from tests.snapshots.spark_logs import log_batch, log_commit

HOSTILE = (
    "<img src=x onerror=alert(1)>.parquet",
    "\"'><script>document.title='owned'<|script>.parquet",
    "{{7*191}}{%raw%}.parquet",
    "line\nbreak\t\x1b[31m\u202egnp.parquet",
    "bytes-\udcff.parquet",
    "javascript:alert(1)&amp;?x=1#y%00.parquet",
)
"""Names of files that would do harm in a page that does not escape them."""


@dataclass(slots=True)
class DiskQuery:
    """A query over Parquet files; its state and Spark's logs are on disk. Some files are no Parquet files."""

    root: Path
    engine: MicroBatchEngine
    logged: int = 0

    @classmethod
    def new(cls, root: Path, **options: str) -> DiskQuery:
        (root / "landing").mkdir(parents=True)
        given = {
            "enumerator": "files", "reader": "parquet", "path": str(root / "landing"),
            "stateLocation": str(root / "checkpoint" / "flip27"), "taskReports": "always",
            "onSplitError": "quarantine", **options,
        }  # fmt: skip
        return cls(root, MicroBatchEngine(given, schema=pa.schema([("n", pa.int64())])))

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def land(self, *names: str, rows: int | None = 3) -> None:
        """Make files of some rows; None: files that cannot be read."""
        for name in names:
            path = self.root / "landing" / name
            if rows is None:
                path.write_bytes(b"not Parquet")
            else:
                table = pa.table({"n": pa.array(range(rows), pa.int64())})
                pq.write_table(table, pa.OSFile(str(path), "wb"))

    def batch(self, seconds: float = 2.0, *, committed: bool = True) -> None:
        """Run a batch, and log it as Spark does."""
        self.engine.now_ms += round(1000 * seconds)
        self.engine.run_batch()
        self._log(committed=committed)

    def log(self) -> None:
        """Log all offsets and commits, as Spark has done."""
        for number, offset in enumerate(self.engine.logs.offsets):
            log_batch(self.checkpoint, number, json.loads(offset))
            if number in self.engine.logs.commits:
                log_commit(self.checkpoint, number)
        self.logged = len(self.engine.logs.offsets)

    def plan(self, seconds: float, *, reported: int) -> None:
        """Begin a batch: so many of its tasks have reported, the others have not begun."""
        self.engine.now_ms += round(1000 * seconds)
        self.engine.trigger()
        for task in self.engine.partitions()[:reported]:
            list(self.engine.attempt(task))
        self._log(committed=False)

    def _log(self, *, committed: bool) -> None:
        for number in range(self.logged, len(self.engine.logs.offsets)):
            log_batch(self.checkpoint, number, json.loads(self.engine.logs.offsets[number]))
            if committed:
                log_commit(self.checkpoint, number)
        self.logged = len(self.engine.logs.offsets)


def hostile_query(root: Path) -> DiskQuery:
    """Two batches: the first has quarantined every second file with a hostile name."""
    query = DiskQuery.new(root)
    query.land(*HOSTILE[::2], rows=None)
    query.land(*HOSTILE[1::2])
    query.batch()
    query.land("later.parquet")
    query.batch()
    return query
