"""Batches without Spark, for tests of the runtime: a holder, a store, and attempts of the planned tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from flip27_source.coordination.batch_limits import Limits
from flip27_source.coordination.checkpoints import Snapshot
from flip27_source.driver.environment import Environment
from flip27_source.enumerator import SplitEnumerator
from flip27_source.enumerator_context import Boundedness
from flip27_source.reader import SplitReader
from flip27_source.snapshots.checkpoint_files import CheckpointStorage
from flip27_source.snapshots.codec import SnapshotCodec
from flip27_source.snapshots.driver_condition import DriverCondition, DriverWatch
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.source_identity import identity_of
from flip27_source.snapshots.store import MemoryStore, Store
from flip27_source.source import Source
from flip27_source.testing.inline_environment import inline_environment
from flip27_source.testing.spark_query import SparkQuery
from flip27_source.testing.spark_side import SparkLogs, as_text, as_value
from tests.toy_sources import FEEDS, Item

SCHEMA = pa.schema([("id", pa.string())])


class Batches(SparkQuery):
    """One query on one store; ``restart`` continues it in a new process from its last offsets."""

    def __init__(
        self,
        enumerator: type[SplitEnumerator[Any]] | None,
        reader: type[SplitReader[Any]] | None,
        options: Mapping[str, str] | None = None,
        *,
        store: Store | None = None,
        boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    ) -> None:
        self.options = dict(options or {})
        source = Source.resolve(self.options, enumerator=enumerator, reader=reader)
        super().__init__(source, SCHEMA, store or MemoryStore(), boundedness)

    def environment(self) -> Environment:
        return Environment(now_ms=self.clock, steady_ms=self.steady_clock, cores=2)

    @property
    def committed(self) -> dict[str, Any]:
        """The end of the last committed batch. Setting it continues another query's logs, or older ones."""
        return self.logs.committed

    @committed.setter
    def committed(self, offset: dict[str, Any]) -> None:
        self.logs = SparkLogs(as_text(offset))

    @property
    def logged(self) -> dict[str, Any]:
        """The end of the batch that runs, or of the last committed one."""
        return as_value(self.logs.offsets[-1]) if self.logs.offsets else self.committed

    @logged.setter
    def logged(self, offset: dict[str, Any]) -> None:
        self.logs.forget_uncommitted()
        if offset != self.committed:
            self.logs.write_offset(as_text(offset))

    def enumerator(self) -> Any:
        """The current enumerator, which is created or restored if there is none yet."""
        return self.holder.coordinator_at(self.logged).enumerator

    def shelve(self, *names: str) -> None:
        """Put items of unknown size on the shelf of an enumerator that is a Shelf."""
        self.enumerator().shelf.extend(Item(split_id=name) for name in names)

    def files(self) -> dict[str, bytes]:
        assert isinstance(self.store, MemoryStore)
        return dict(self.store.files)

    @property
    def lineage(self) -> str:
        (lineage,) = {name.partition("/")[0] for name in self.files()}
        return lineage

    def driver(self, *, after_s: float = 0) -> DriverCondition:
        """The newest driver as it is seen later, for the first time."""
        found = DriverWatch(wall_s=lambda: self.now_ms / 1000 + after_s).newest(self.store, self.lineage)
        assert found is not None
        return found

    def snapshot(self) -> Snapshot[Any]:
        """The snapshot in the newest document, read from the store."""
        kind = self.source.enumerator_type
        storage = CheckpointStorage(
            SnapshotCodec(kind, self.source.reader_type),
            identity_of(self.source),
            store=self.store,
            inline_limit_bytes=0,
            new_random=lambda: "",
        )
        snapshot = storage.restore(Offset.from_json(self.logged))
        assert snapshot is not None
        return snapshot

    def quarantined(self) -> list[Any]:
        """The splits that are quarantined in the newest document."""
        return list(self.snapshot().ledger.quarantined)

    @property
    def source_feed(self) -> list[Item]:
        """The items that an enumerator that is a Feed assigns."""
        return FEEDS[self.source.options["feed"]]

    def wait_for_clean_up(self) -> None:
        self.holder.wait_for_clean_up()

    def restart(self) -> None:
        """Restart as after a SIGKILL: only the store and Spark's logs remain."""
        self.start()

    def restart_with(self, options: Mapping[str, str | None]) -> None:
        """Restart with other options; None removes an option."""
        given = {**self.options, **options}
        self.options = {name: text for name, text in given.items() if text is not None}
        self.source = Source.resolve(
            self.options, enumerator=self.source.enumerator_type, reader=self.source.reader_type
        )
        self.restart()

    def trigger(self, limits: Limits | None = None) -> bool:
        """Plan and log the next batch, instead of one that is not committed; False if there is none."""
        self.logs.forget_uncommitted()
        end = self.latest_offset(limits)
        return as_value(as_text(end)) != self.committed and self.log(end)

    def next_task(self) -> PlannedSubtask:
        """Plan and log the next batch; return its only task."""
        assert self.trigger()
        (task,) = self.tasks()
        return task

    def tasks(self) -> list[PlannedSubtask]:
        return self.partitions()

    def attempt(self, task: PlannedSubtask, number: int = 0) -> list[Any]:
        """Run one attempt of a task to its end; return its rows."""
        return list(self.started_attempt(task, number))

    def started_attempt(self, task: PlannedSubtask, number: int = 0) -> Iterator[Any]:
        """Start an attempt of a task; it reads only as many rows as the caller takes."""
        return (row[0] for row in self.start_attempt(task, number, self.store))

    def commit(self) -> None:
        """Commit the batch in Spark's log, if there is one; the source is notified at the next trigger."""
        if self.logs.has_uncommitted:
            self.logs.write_commit(self.logs.next_batch_id)

    def batch(self, limits: Limits | None = None) -> list[Any] | None:
        """Run one batch with one attempt of each task; return its rows, or None if there was no batch."""
        if not self.trigger(limits):
            return None
        rows = [row for task in self.tasks() for row in self.attempt(task)]
        self.commit()
        return rows


class InlineBatches(Batches):
    """Batches without threads: discovery and actions run when they are due by ``now_ms``."""

    def environment(self) -> Environment:
        return inline_environment(now_ms=self.clock, steady_ms=self.steady_clock)

    def idle(self, passed_ms: int = 0) -> None:
        """Let the time pass and run batches until there are none; they must not read any rows."""
        self.now_ms += passed_ms
        while (rows := self.batch()) is not None:
            assert rows == []
