"""A source that runs without Spark and whose state is on disk, where tests edit it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from flip27_source import edits
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.checkpoint_rows import checkpoint_rows
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.testing import MicroBatchEngine
from tests.s3_server import S3Bucket
from tests.toy_sources import FEEDS, EchoReader, Feed, items

IDS = pa.schema([("id", pa.string())])


class Edited:
    """One query, and edits of its state, which is stored in ``folder`` or in a bucket."""

    def __init__(
        self,
        folder: Path,
        options: dict[str, str] | None = None,
        *,
        bucket: S3Bucket | None = None,
        **given: Any,
    ) -> None:
        self.state = str(folder / "state") if bucket is None else f"s3://{bucket.name}/state"
        self.storage_options = {} if bucket is None else bucket.storage_options
        storage = {} if bucket is None else bucket.options
        self.engine = MicroBatchEngine({"stateLocation": self.state, **storage, **(options or {})}, **given)

    def batch(self) -> list[Any] | None:
        """Run the next batch and return its rows, or None if there is no batch."""
        found = self.engine.run_batch()
        return None if found is None else [row[0] for row in found.rows]

    def batches(self) -> list[list[Any]]:
        """Run all further batches and return the rows of each."""
        return [[row[0] for row in batch.rows] for batch in self.engine.process_all_available()]

    def plan(self, operation: str, **what: Any) -> edits.EditPlan:
        return edits.plan(
            operation,
            state=self.state,
            why="a test",
            who="tester",
            storage_options=self.storage_options,
            **what,
        )

    def ask(self, operation: str, **what: Any) -> str:
        """Plan an edit, submit it, and return its id."""
        return edits.submit(self.plan(operation, **what))

    def history(self, *, of_the_line: bool = False) -> list[dict[str, Any]]:
        """The edits that checkpoints record, oldest first; orphans are left out if ``of_the_line``."""
        (lineage,) = find_lineages(self.state, self.storage_options)
        rows = checkpoint_rows(History(lineage.store(self.storage_options), lineage), EVERYTHING)
        on_it = [row for row in rows if not (of_the_line and row["status"] == "orphan")]
        return [edit for row in on_it for edit in json.loads(row["edits"] or "[]")]

    def request_files(self) -> list[Path]:
        return sorted(Path(self.state).glob("*/requests/*.json"))


def fed(folder: Path, names: str = "abcdef", **options: str) -> Edited:
    """A query on items that are assigned in order, two in a batch."""
    FEEDS["edited"] = items(*names)
    options = {"feed": "edited", "maxFilesPerTrigger": "2", **options}
    return Edited(folder, options, enumerator=Feed, reader=EchoReader, schema=IDS)


def files(folder: Path, names: str, *, bucket: S3Bucket | None = None, **options: str) -> Edited:
    """A query on text files, one for each letter; it reads the oldest first, two in a batch."""
    add_files(folder, names)
    options = {"path": str(folder / "in"), "enumerator": "files", "reader": "text", **options}
    return Edited(folder, {"maxFilesPerTrigger": "2", **options}, bucket=bucket)


def add_files(folder: Path, names: str) -> None:
    """Write a file for each letter that contains the letter; their times follow the alphabet."""
    (folder / "in").mkdir(exist_ok=True)
    for name in names:
        path = folder / "in" / name
        path.write_text(name)
        os.utime(path, (1_000_000 + ord(name), 1_000_000 + ord(name)))
