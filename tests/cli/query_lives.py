"""Random lives of queries whose tasks leave why they fail, as tasks of Spark do; and what is true of them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from flip27_source.executor.failed_tasks import recorded
from flip27_source.executor.split_read import Item
from flip27_source.metrics.query_failures import QueryFailures
from flip27_source.reader import SourceReaderContext
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import Store
from flip27_source.testing import MicroBatchEngine
from flip27_source.testing.steps import Crashed, Step
from flip27_source.testing.tasks import Speculation
from tests.ui.queries import DiskQuery

_ACTS = (
    "land",
    "land",
    "land damaged",
    "damage",
    "batch",
    "batch",
    "batch",
    "plan",
    "read",
    "sink",
    "stop",
    "kill",
)
_POLICIES = ("fail", "quarantine", "ignore")


class RecordingEngine(MicroBatchEngine):
    def kill(self) -> None:
        self._driver.kill()

    def start_attempt(self, task: PlannedSubtask, number: int, store: Store | None) -> Iterator[Item]:
        context = SourceReaderContext(
            options=self.source.options,
            schema=self.schema,
            time_zone="UTC",
            subtask_id=task.subtask_id,
            checkpoint_id=task.checkpoint_id,
            attempt_number=number,
        )
        return recorded(self.source, task, context, super().start_attempt(task, number, store))


Truth: TypeAlias = "tuple[str | None, str | None]"
"""The condition of a driver, and the class of the error that has ended it."""


@dataclass
class Life:
    """A query over Parquet files.

    Attributes:
        told: what has happened.
    """

    query: DiskQuery
    engine: RecordingEngine
    chance: random.Random
    alive: str
    told: list[str] = field(default_factory=list)
    _landed: int = 0
    _before: Truth = (None, None)
    _ended: Truth | None = None
    _epoch_before: int = 0

    @classmethod
    def begun(cls, root: Path, seed: int) -> Life:
        (root / "landing").mkdir(parents=True)
        chance = random.Random(seed)
        options = {
            "enumerator": "files",
            "reader": "parquet",
            "path": str(root / "landing"),
            "stateLocation": str(root / "checkpoint" / "flip27"),
            "taskReports": chance.choice(["auto", "always"]),
            "onSplitError": chance.choice(_POLICIES),
            "requestInterval": chance.choice(["10s", "10s", "0s"]),
            "retainedCheckpoints": chance.choice(["2", "100"]),
            **chance.choice([{}, {"maxFilesPerTrigger": "1"}, {"maxFilesPerTrigger": "3"}]),
        }
        engine = RecordingEngine(options, schema=pa.schema([("n", pa.int64())]))
        engine.now_ms = round(time.time() * 1000)
        alive = "unknown" if options["requestInterval"] == "0s" else "running"
        return cls(DiskQuery(root, engine), engine, chance, alive, [str(options)])

    @property
    def truth(self) -> Truth:
        if self._epoch == self._epoch_before:  # this run does not drive the lineage yet
            return self._before
        return self._ended or (self.alive, None)

    def acts(self) -> None:
        """Do one thing that may happen to a query, and log what Spark logs."""
        act = self.chance.choice(_ACTS)
        self.engine.now_ms += 1000
        if act in ("batch", "plan", "read", "sink") and not self.engine.is_alive:
            act = "restart"
            self._before, self._epoch_before, self._ended = self.truth, self._epoch, None
            self.engine.restart(
                options=self.chance.choice([{}, {"onSplitError": self.chance.choice(_POLICIES)}])
            )
        self.told.append(act)
        match act:
            case "land" | "land damaged":
                self._landed += 1
                self.query.land(f"{self._landed}.parquet", rows=3 if act == "land" else None)
            case "damage":
                self._damage()
            case "batch" | "plan" | "read" | "sink":
                self._run(act)
            case "stop" if self.engine.is_alive:
                self.engine.stop()
                self._ended = "stopped", None
            case "kill" if self.engine.is_alive:
                self.engine.kill()
                self._killed()
        self.query.log()

    def _damage(self) -> None:
        for file in sorted((self.query.root / "landing").iterdir())[-1:]:
            was = file.stat()
            file.write_bytes(b"x" * was.st_size)
            os.utime(file, (was.st_atime, was.st_mtime))

    def _run(self, act: str) -> None:
        engine = self.engine
        try:
            if act == "batch":
                crash = self.chance.choice([None, None, *Step])
                if crash is not None:
                    self.told.append(f"killed at: {crash}")
                    engine.crash_at(crash)
                speculation = self.chance.choice([None, None, *Speculation])
                engine.run_batch(actions=self.chance.choice([1, 1, 2]), speculation=speculation)
            elif engine.logs.has_uncommitted or engine.trigger():
                for task in engine.partitions() if act != "plan" else ():
                    list(engine.attempt(task))
                if act == "sink":
                    raise OSError("the sink is full")
        except Crashed:
            self._killed()
        except Exception as error:  # noqa: BLE001 - the query ends on it
            self.told.append(f"{type(error).__name__}: {error}")
            listens = self.chance.random() < 0.7
            ends = [*([partial(self._tell, error)] if listens else []), engine.stop]
            self.chance.shuffle(ends)
            for end in ends:
                end()
            is_known = listens or not isinstance(error, OSError)
            self._ended = ("failed", type(error).__name__) if is_known else ("stopped", None)
        engine.itinerary.crash_points.clear()

    def _tell(self, error: Exception) -> None:
        """As the listener does, with Spark's text of the exception."""
        self.told.append("the listener tells it")
        self.query.log()
        failures = QueryFailures([str(self.query.checkpoint)], [], {})
        text = f"PythonException: Traceback (most recent call last):\nsome.{type(error).__name__}: {error}\n"
        failures.terminated("00000000-0000-0000-0000-000000000000", "run", text)
        failures.wait()

    def _killed(self) -> None:
        """Nobody hears of its driver any more; it may have been killed before it could say that it lives."""
        (drivers, epoch), *_ = self._drivers()[::-1] or [(None, 0)]
        renewals = [] if drivers is None else list(drivers.glob(f"{epoch}.*.alive"))
        for renewal in renewals:
            renewal.rename(renewal.with_name(f"{epoch}.1000.alive"))
        self._ended = "lost" if renewals else "unknown", None

    @property
    def _epoch(self) -> int:
        return sum(epoch for _, epoch in self._drivers())

    def _drivers(self) -> list[tuple[Path, int]]:
        """The folder and the newest epoch of each lineage, the newest lineage last."""
        return [
            (folder, max(int(file.name.split(".")[0]) for file in folder.glob("*.json")))
            for folder in sorted(self.query.checkpoint.glob("flip27/*/drivers"))
        ]
