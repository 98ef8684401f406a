"""SparkQuery: the calls that Spark makes on a streaming source, in Spark's order (``MicroBatchExecution``).

A query has one driver at a time. When the driver dies, the store, Spark's two logs and the sink are left. A
subclass decides in which environment drivers and tasks run, and may end them at every step.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pyarrow as pa

from ..coordination.batch_limits import Limits, are_limited
from ..driver.environment import Environment
from ..driver.holder import CoordinatorHolder
from ..enumerator_context import Boundedness
from ..executor.split_read import Item
from ..executor.subtask import read_subtask
from ..reader import SourceReaderContext
from ..segment import Segment
from ..snapshots.codec import SnapshotCodec
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import MemoryStore, Store
from ..source import Source
from ..source_options import TIME_ZONE
from .inline_environment import inline_environment
from .spark_side import Attempt, Batch, OnceSink, Row, SparkLogs, as_text, as_value, rows_of
from .steps import Step


class SparkQuery:
    """One query on one source.

    Attributes:
        source, schema: the source of the present run, and the schema of its rows.
        store: the store of the state; None if the state is inside the offsets.
        boundedness: BOUNDED as with Trigger.AvailableNow.
        now_ms: the time of the driver in milliseconds; it changes only when it is set, to later times.
        clock_error_ms: how far the driver's wall clock is ahead; people set clocks back and forth.
        logs, sink: Spark's logs, and the batches that were written.
        holder: the coordinator's holder of the present run.
    """

    def __init__(
        self,
        source: Source,
        schema: pa.Schema,
        store: Store | None,
        boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED,
    ) -> None:
        self.source = source
        self.schema = schema
        self.store = store
        self.boundedness = boundedness
        self.now_ms = 0
        self.clock_error_ms = 0
        self.logs = SparkLogs()
        self.sink = OnceSink()
        self.start()

    # What a subclass may decide.

    def environment(self) -> Environment:
        """The environment of a new driver; one without threads, if a subclass does not override this."""
        return inline_environment(now_ms=self.clock, steady_ms=self.steady_clock)

    def driver_store(self) -> Store | None:
        """The store as a new driver sees it."""
        return self.store

    def reach(self, step: Step, batch_id: int) -> None:
        """Called when the driver reaches a step; may raise Killed."""

    # Spark's calls.

    def start(self) -> None:
        self.holder = self.new_holder()
        self._is_replay = self.logs.has_uncommitted

    def new_holder(self) -> CoordinatorHolder:
        return CoordinatorHolder(
            self.source, self.boundedness, store=self.driver_store(), environment=self.environment()
        )

    def trigger(self) -> bool:
        """Plan and log the next batch; False if nothing is new, but the first batch runs even then."""
        return self.log(self.latest_offset(self.default_limits()))

    def latest_offset(self, limits: Limits | None) -> dict[str, Any]:
        """latestOffset and reportLatestOffset: the end of the next batch; its start if nothing is new."""
        batch_id = self.logs.next_batch_id
        self.reach(Step.TRIGGER, batch_id)
        end = self.holder.latest_offset(self.logs.committed, limits)
        self.holder.report()
        self.reach(Step.OFFSET_RETURNED, batch_id)
        return end

    def default_limits(self) -> Limits | None:
        """What Spark passes to latestOffset: the default read limit of the source, None for "all"."""
        return Limits() if are_limited(self.source.options) else None

    def log(self, end: dict[str, Any]) -> bool:
        """Write the offset log, then pass the commit of the previous batch; False if nothing is new."""
        text, batch_id = as_text(end), self.logs.next_batch_id
        if batch_id > 0 and text == self.logs.start_of(batch_id):
            return False
        self.log_batch(text)
        return True

    def log_batch(self, end: str) -> None:
        """As :meth:`log`, even if nothing is new."""
        batch_id = self.logs.next_batch_id
        self.logs.write_offset(end)
        self.reach(Step.OFFSET_LOGGED, batch_id)
        if batch_id > 0:
            self.holder.commit(as_value(self.logs.start_of(batch_id)))
            self.reach(Step.COMMIT_PASSED, batch_id)

    def partitions(self) -> list[PlannedSubtask]:
        """The tasks of the batch that is logged and not committed, as they arrive on executors."""
        start, end = self.logs.batch(self.logs.next_batch_id)
        planned = self.holder.plan(start, end)
        self.reach(Step.PLANNED, self.logs.next_batch_id)
        return [pickle.loads(pickle.dumps(task)) for task in planned]  # noqa: S301 - our own bytes

    def splits_of(self, task: PlannedSubtask) -> list[Any]:
        """The splits of a task, in the order in which it reads them."""
        codec = SnapshotCodec(self.source.enumerator_type)
        return codec.decode_splits(task.split_version, Segment("splits", data=task.splits))

    def start_attempt(self, task: PlannedSubtask, number: int, store: Store | None) -> Iterator[Item]:
        """Start an attempt of a task; it reads only the rows that are consumed.

        Args:
            number: Spark's number of the attempt.
            store: the store as this attempt sees it.
        """
        context = SourceReaderContext(
            options=self.source.options,
            schema=self.schema,
            time_zone=self.source.options[TIME_ZONE] or "UTC",
            subtask_id=task.subtask_id,
            checkpoint_id=task.checkpoint_id,
            attempt_number=number,
        )
        return read_subtask(self.source, task, context, store)

    def finish(self, rows: Sequence[Row], attempts: Sequence[Attempt] = ()) -> Batch:
        """The tasks have ended: write the sink, then the commit log."""
        batch_id = self.logs.next_batch_id
        self.reach(Step.TASKS_ENDED, batch_id)
        start, end = self.logs.batch(batch_id)
        batch = Batch(
            batch_id=batch_id,
            start=start,
            end=end,
            rows=tuple(rows),
            attempts=tuple(attempts),
            is_replay=self._is_replay,
        )
        self.sink.write(batch)
        self.reach(Step.SINK_WRITTEN, batch_id)
        self.logs.write_commit(batch_id)
        self._is_replay = False
        self.reach(Step.COMMIT_LOGGED, batch_id)
        return batch

    def clock(self) -> int:
        """The driver's wall clock."""
        return max(0, self.now_ms + self.clock_error_ms)

    def steady_clock(self) -> int:
        """The driver's clock that never goes back."""
        return self.now_ms


class BatchRead(SparkQuery):
    """One read without a stream, as with ``spark.read``; its tasks write no reports."""

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        super().__init__(source, schema, MemoryStore(), Boundedness.BOUNDED)
        self.tasks: list[PlannedSubtask] = []

    def new_holder(self) -> CoordinatorHolder:
        return CoordinatorHolder(
            self.source, self.boundedness, store=self.store, environment=self.environment(), one_batch=True
        )

    def plan(self) -> Self:
        """Plan the tasks; afterwards the driver has nothing more to do."""
        self.log(self.latest_offset(None))
        self.tasks = self.partitions()
        self.holder.close()
        return self

    def rows(self) -> list[Row]:
        items = (item for task in self.tasks for item in self.start_attempt(task, 0, self.store))
        return [row for item in items for row in rows_of(item)]
