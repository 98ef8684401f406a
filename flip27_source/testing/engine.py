"""MicroBatchEngine: a streaming query without Spark.

Makes Spark's calls in Spark's order (``MicroBatchExecution``), runs tasks as Spark runs them, and
can be killed at every step. As in Spark, a kill leaves the store, two logs and the sink.
Everything runs on the caller's thread, and the same calls give the same run.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ..coordination.batch_limits import Limits
from ..driver.holder import CoordinatorHolder
from ..enumerator import SplitEnumerator
from ..enumerator_context import Boundedness
from ..executor.split_read import Item
from ..executor.subtask import read_subtask
from ..reader import SourceReaderContext, SplitReader
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, MemoryStore, Store, open_store
from ..source_options import (
    MAX_BYTES_PER_TRIGGER,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    STATE_LOCATION,
    TIME_ZONE,
)
from .inline_environment import inline_environment
from .spark_side import Batch, OnceSink, Row, SparkLogs, as_text, as_value, rows_of
from .steps import Crashed, CrashPoint, Itinerary, Killed, Passing, Step, Victim
from .tasks import Speculation, TaskRunner
from .under_test import GivenSource, under_test
from .watched_store import WatchedStore

_lineages = itertools.count(1)


class _Driver:
    """The driver-side process of one run; its death leaves nothing."""

    def __init__(self, holder: CoordinatorHolder, view: WatchedStore | None) -> None:
        self.holder = holder
        self.view = view
        self.is_alive = True

    def kill(self) -> None:
        self.is_alive = False
        if self.view is not None:
            self.view.kill()


class MicroBatchEngine:
    """One query on one source, batch by batch.

    Args:
        source: options, or a SourceUnderTest such as one from ``literal_source``.
        enumerator, reader, schema: as in SourceUnderTest; they override ``source``.
        store: the store of the state. If None: the option ``stateLocation`` if set, otherwise memory.
        inline_state: keep the state inside the offsets, as without ``stateLocation``.
        available_now: as Trigger.AvailableNow: the run reads only the data that exists now.
        parallelism: cores of the executors.
        max_failures: ``spark.task.maxFailures``.
        one_process: driver and executors are one process, as with ``local[n]``: a ``CRASH`` in the data
            also kills the driver.
        performs_actions: if False, actions (archive, delete, acknowledge) are requested, stored and counted
            as done, but ``perform`` is not called, so the data does not change.

    Raises:
        Flip27Error: the source is invalid.
    """

    def __init__(
        self,
        source: GivenSource = None,
        *,
        enumerator: type[SplitEnumerator[Any]] | None = None,
        reader: type[SplitReader[Any]] | None = None,
        schema: pa.Schema | None = None,
        store: Store | None = None,
        inline_state: bool = False,
        available_now: bool = False,
        parallelism: int = 2,
        max_failures: int = 4,
        one_process: bool = False,
        performs_actions: bool = True,
    ) -> None:
        self.given = under_test(source, enumerator=enumerator, reader=reader, schema=schema)
        self.source = self.given.resolve()
        self.schema = self.given.arrow_schema()
        location = self.source.options[STATE_LOCATION]
        store_of_tasks = store
        if store is None and location is not None:
            options = self.source.options.with_prefix("storage.")
            store = open_store(location, options)
            # Tasks run in other processes, which share no connection or cache with the driver.
            own = {} if isinstance(store, LocalStore) else {"skip_instance_cache": True}
            store_of_tasks = open_store(location, options | own)
        self.store: Store | None = None if inline_state else store or MemoryStore()
        self._store_of_tasks = store_of_tasks or self.store
        self.available_now = available_now
        self.parallelism = parallelism
        self.max_failures = max_failures
        self.one_process = one_process
        self.performs_actions = performs_actions
        self.logs = SparkLogs()
        self.sink = OnceSink()
        self.itinerary = Itinerary()
        self.now_ms = 0
        """The time of the driver in milliseconds; it changes only when it is set, to later times."""
        self.clock_error_ms = 0
        """How far the driver's wall clock is ahead of that time; people set clocks back and forth."""
        self._is_replay = False
        self._driver = self._new_driver()

    def __repr__(self) -> str:
        state = "alive" if self.is_alive else "dead: call restart() to continue"
        done = f"{len(self.batches)} batches, {len(self.rows)} rows"
        return f"MicroBatchEngine({self.source.uid}, {done}, {state})"

    @property
    def batches(self) -> list[Batch]:
        """The batches in the sink; the last one may not be committed yet."""
        return self.sink.batches

    @property
    def rows(self) -> list[Row]:
        """All rows in the sink."""
        return [row for batch in self.batches for row in batch.rows]

    @property
    def passed(self) -> list[Passing]:
        """Every passed step, in order."""
        return self.itinerary.passed

    @property
    def is_alive(self) -> bool:
        """False after a crash, a failure or ``stop``, until ``restart``."""
        return self._driver.is_alive

    @property
    def holder(self) -> CoordinatorHolder:
        """The coordinator's holder of this run."""
        return self._driver.holder

    def crash_at(
        self, step: Step, *, batch_id: int | None = None, nth: int = 1, victim: Victim = Victim.DRIVER
    ) -> None:
        """Kill a process when it next reaches a step.

        Args:
            batch_id: the batch; None for the first batch that reaches the step.
            nth: the occurrence of the step in the batch, from 1; steps of files and rows occur repeatedly.
            victim: the process to kill; an executor can only be killed at steps of tasks.
        """
        if victim is Victim.EXECUTOR and not step.is_of_a_task:
            raise ValueError(f"{step.name} is a step of the driver, where no executor can be killed")
        self.itinerary.crash_points.append(CrashPoint(step, batch_id, nth, victim))

    def run_batch(
        self,
        *,
        crash_at: Step | None = None,
        speculation: Speculation | None = None,
        actions: int = 1,
    ) -> Batch | None:
        """Run the next batch, or repeat the one that is not committed; None if nothing is new.

        Args:
            crash_at: kill the driver when it reaches this step.
            speculation: run two attempts of each task at once.
            actions: number of runs of the stage, as in a foreachBatch with that many actions; the rows of
                the last run count.

        Raises:
            Crashed: the driver was killed; call ``restart`` to continue.
            Exception: the error of the source or of a task; the query has ended, ``restart`` tries again.
        """
        if crash_at is not None:
            self.crash_at(crash_at)
        if not self.logs.has_uncommitted and not self.trigger():
            return None
        tasks = self.partitions()
        runner = TaskRunner(self.attempt, self.max_failures)
        with self._in_driver():
            rows: list[Row] = []
            for stage in range(actions):
                rows = runner.run(tasks, stage=stage, speculation=speculation)
        batch_id = self.logs.next_batch_id
        batch = Batch(
            batch_id=batch_id,
            start=as_value(self.logs.start_of(batch_id)),
            end=as_value(self.logs.offsets[batch_id]),
            rows=tuple(rows),
            attempts=tuple(runner.attempts),
            is_replay=self._is_replay,
        )
        self.finish(batch)
        return batch

    def process_all_available(self, *, through_crashes: bool = False, max_batches: int = 1000) -> list[Batch]:
        """Run batches until nothing is new; returns the batches of this call.

        Args:
            through_crashes: restart when the driver is killed.
            max_batches: maximum number of batches; a source with more is assumed to be endless.

        Raises:
            Crashed: as ``run_batch``, unless ``through_crashes``.
            RuntimeError: there is more data after ``max_batches``.
        """
        found: list[Batch] = []
        while len(found) <= max_batches:
            try:
                batch = self.run_batch()
            except Crashed:
                if not through_crashes:
                    raise
                self.restart()
                continue
            if batch is None:
                return found
            found.append(batch)
        raise RuntimeError(
            f"after {max_batches} batches there is still more to read: use a source that ends, or call "
            "run_batch as often as needed"
        )

    def trigger(self) -> bool:
        """Plan and log the next batch: latestOffset, reportLatestOffset, offset log, commit(previous).

        Returns:
            False if nothing is new; the first batch runs even then, as in Spark.
        """
        with self._in_driver():
            batch_id = self.logs.next_batch_id
            start = self.logs.start_of(batch_id)
            self._pass(Step.TRIGGER)
            end = as_text(self.holder.latest_offset(as_value(start), self._limits()))
            self.holder.report()
            self._pass(Step.OFFSET_RETURNED)
            if end == start and batch_id > 0:
                return False
            self._log(end, batch_id)
        return True

    def run_no_data_batch(self) -> None:
        """Run a batch without new data, as requested by stateful operators: no partitions, no tasks."""
        with self._in_driver():
            batch_id = self.logs.next_batch_id
            self._log(self.logs.start_of(batch_id), batch_id)
            self.logs.write_commit(batch_id)

    def partitions(self) -> list[PlannedSubtask]:
        """The tasks of the batch that is not committed, as they arrive on executors."""
        with self._in_driver():
            batch_id = self.logs.next_batch_id
            start, end = self.logs.start_of(batch_id), self.logs.offsets[batch_id]
            planned = self.holder.plan(as_value(start), as_value(end))
            self._pass(Step.PLANNED)
        return [pickle.loads(pickle.dumps(task)) for task in planned]  # noqa: S301 - our own bytes

    def attempt(self, task: PlannedSubtask, number: int = 0) -> Iterator[Row]:
        """Start an attempt of a task; it reads only the rows that are consumed.

        It may be kept across a ``restart``: then it is a task of a dead driver.
        """
        return (row for item in self.read(task, number) for row in rows_of(item))

    def read(self, task: PlannedSubtask, number: int = 0) -> Iterator[Item]:
        """As ``attempt``, with the record batches of the reader."""
        driver, batch_id = self._driver, self.logs.next_batch_id

        def come_by(step: Step) -> None:
            if driver.is_alive:
                self.itinerary.passing(step, batch_id)

        view = self._view(
            self._store_of_tasks, lambda: come_by(Step.REPORT_WRITE), lambda: come_by(Step.REPORT_WRITTEN)
        )
        context = SourceReaderContext(
            options=self.source.options,
            schema=self.schema,
            time_zone=self.source.options[TIME_ZONE] or "UTC",
            subtask_id=task.subtask_id,
            checkpoint_id=task.checkpoint_id,
            attempt_number=number,
        )

        def items() -> Iterator[Item]:
            read = read_subtask(self.source, task, context, view)
            try:
                come_by(Step.TASK_STARTED)
                for item in read:
                    yield item
                    come_by(Step.ROWS_READ)
                come_by(Step.TASK_ENDED)
            except Killed as killed:
                if view is not None:
                    view.kill()
                if killed.victim is None and self.one_process:
                    raise Killed(killed.where, Victim.DRIVER) from killed
                raise
            finally:
                # Not left to the garbage collector, so that every run is the same.
                read.close()  # type: ignore[attr-defined]

        return items()

    def finish(self, batch: Batch) -> None:
        """The tasks have ended: write the sink, then the commit log."""
        with self._in_driver():
            self._pass(Step.TASKS_ENDED)
            self.sink.write(batch)
            self._pass(Step.SINK_WRITTEN)
            self.logs.write_commit(batch.batch_id)
            self._is_replay = False
            self.itinerary.passing(Step.COMMIT_LOGGED, batch.batch_id)

    def restart(
        self,
        *,
        parallelism: int | None = None,
        available_now: bool | None = None,
        options: Mapping[str, str | None] | None = None,
    ) -> None:
        """Start a new driver from the store and the logs; kills the old driver if it is alive.

        If no schema was given, it is determined again, as Spark does when a query is started.

        Args:
            parallelism, available_now: new values for the run; None keeps the old ones.
            options: options that the new run has in addition, or with other values; None removes one.
        """
        self._driver.kill()
        for name, value in (options or {}).items():
            without = self.given.without_option(name)
            self.given = without if value is None else without.with_options(**{name: value})
        self.source = self.given.resolve()
        if parallelism is not None:
            self.parallelism = parallelism
        if available_now is not None:
            self.available_now = available_now
        self.itinerary.begin()
        self._is_replay = self.logs.has_uncommitted
        self.schema = self.given.arrow_schema()
        self._driver = self._new_driver()

    def stop(self) -> None:
        """End the run as Spark does after an error, and stop the source."""
        if self._driver.is_alive:
            self.holder.close()
            self._driver.kill()

    def _new_driver(self) -> _Driver:
        view = self._view(
            self.store, lambda: self._pass(Step.STATE_WRITE), lambda: self._pass(Step.STATE_WRITTEN)
        )
        environment = inline_environment(
            now_ms=lambda: max(0, self.now_ms + self.clock_error_ms),
            steady_ms=lambda: self.now_ms,
            new_random=lambda: f"{next(_lineages):016x}",
            cores=self.parallelism,
            performs_actions=self.performs_actions,
        )
        boundedness = Boundedness.BOUNDED if self.available_now else Boundedness.CONTINUOUS_UNBOUNDED
        holder = CoordinatorHolder(self.source, boundedness, store=view, environment=environment)
        return _Driver(holder, view)

    def _view(self, store: Store | None, before: Any, after: Any) -> WatchedStore | None:
        # Without a location of its own, the state is inside the offsets, and tasks have no store either.
        return None if self.store is None or store is None else WatchedStore(store, before, after)

    def _log(self, end: str, batch_id: int) -> None:
        self.logs.write_offset(end)
        self._pass(Step.OFFSET_LOGGED)
        if batch_id > 0:
            self.holder.commit(as_value(self.logs.start_of(batch_id)))
            self._pass(Step.COMMIT_PASSED)

    def _limits(self) -> Limits | None:
        """What Spark passes to latestOffset: the default read limit of the source, None for "all"."""
        options = self.source.options
        own = (MAX_FILES_PER_TRIGGER, MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER)
        return None if all(options[option] is None for option in own) else Limits()

    def _pass(self, step: Step) -> None:
        self.itinerary.passing(step, self.logs.next_batch_id)

    @contextmanager
    def _in_driver(self) -> Iterator[None]:
        """Code of the driver process: a kill leaves nothing, an error ends the query."""
        if not self._driver.is_alive:
            raise Crashed("the query has ended or was killed: call restart()")
        try:
            yield
        except Killed as killed:
            self._driver.kill()
            raise Crashed(f"the driver was killed: {killed.where}") from killed
        except Exception:
            self.stop()
            raise
