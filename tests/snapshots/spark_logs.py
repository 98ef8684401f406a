"""Queries over files without Spark, with offsets and commits logged as Spark logs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from flip27_source import savepoints
from flip27_source.coordination.batch_limits import Limits
from flip27_source.driver.environment import Environment
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.snapshots.locations import Lineage, find_lineages
from flip27_source.source import Source
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING, Predicate
from flip27_source.state_tables.views import VIEWS
from flip27_source.testing import MicroBatchEngine
from tests.object_storage import ObjectStorage
from tests.toy_sources import INITIAL

STORAGE: Mapping[str, Any] = {}


def log_batch(checkpoint: Path, batch_id: int, *offsets: dict[str, Any] | None) -> None:
    """Write the log entry that Spark writes before a batch; None is a source that has no offset yet."""
    lines = ["v1", '{"batchWatermarkMs":0}', *("-" if o is None else json.dumps(o) for o in offsets)]
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    _write(checkpoint / "offsets" / str(batch_id), "\n".join(lines))
    (checkpoint / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')


def log_commit(checkpoint: Path, batch_id: int) -> None:
    """Write the log entry that Spark writes after a batch."""
    _write(checkpoint / "commits" / str(batch_id), 'v1\n{"nextBatchWatermarkMs":0}')


def _write(file: Path, text: str) -> None:
    """Write a file that readers see as a whole or not at all, as Spark does."""
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_text(text)
    temporary.replace(file)


def savepoint_of(engine: MicroBatchEngine, folder: Path) -> str:
    """Stop the query, and create a savepoint of its state with its logs; return the savepoint's directory."""
    engine.stop()
    for batch_id, offset in enumerate(engine.logs.offsets):
        log_batch(folder, batch_id, json.loads(offset))
        log_commit(folder, batch_id)
    location = engine.source.options["stateLocation"]
    return savepoints.create(state=location, to=str(folder / "saved"), checkpoint=str(folder)).directory


def view_rows(
    view: str, lineages: list[Lineage], asked: Predicate = EVERYTHING, storage: Mapping[str, Any] = STORAGE
) -> list[dict[str, Any]]:
    """The rows of a view, converted by its schema."""
    found = [row for one in lineages for row in VIEWS[view].rows(History(one.store(storage), one), asked)]
    return list(pa.RecordBatch.from_pylist(found, schema=VIEWS[view].schema).to_pylist())


class FileQuery:
    """A query over text files; its state is in its checkpoint, or in the offsets if ``state`` is None."""

    def __init__(self, root: Path, state: str | None = "flip27", **options: str) -> None:
        self.landing = root / "landing"
        self.checkpoint = root / "checkpoint"
        located = {} if state is None else {"stateLocation": str(self.checkpoint / state)}
        self.given = {"enumerator": "files", "reader": "text", "path": str(self.landing)} | located | options
        self.source = Source.resolve(self.given)
        self.at: dict[str, Any] = INITIAL
        self._batch_id = 0
        self.limits: Limits | None = None

    def land(self, *names: str) -> None:
        self.landing.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.landing / name).write_text(f"{name}\n")

    def batch(self, *, now_ms: int = 0, committed: bool = True) -> dict[str, Any]:
        """Plan a batch as a new process does, log it, and return its offset."""
        holder = CoordinatorHolder(
            self.source, Boundedness.BOUNDED, environment=Environment(now_ms=lambda: now_ms, cores=2)
        )
        self.at = holder.latest_offset(self.at, self.limits)
        holder.close()
        log_batch(self.checkpoint, self._batch_id, self.at)
        if committed:
            log_commit(self.checkpoint, self._batch_id)
        self._batch_id += 1
        return self.at

    def rows(self, view: str, asked: Predicate = EVERYTHING) -> list[dict[str, Any]]:
        return view_rows(view, find_lineages(str(self.checkpoint), STORAGE), asked)


def checkpoint_in(bucket: ObjectStorage, folder: Path) -> str:
    """The checkpoint location, in a bucket, of a query of 20 batches that was made in ``folder``."""
    query = FileQuery(folder)
    for number in range(20):
        query.land(f"{number}.txt")
        query.batch(now_ms=1000 * number)
    bucket.file_system.put(f"{query.checkpoint}/", f"{bucket.name}/checkpoint/", recursive=True)
    return f"{bucket.url}/checkpoint"
