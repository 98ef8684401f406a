"""MicroBatchEngine: a streaming query without Spark.

Runs tasks as Spark runs them, and can be killed at every step. Everything runs on the caller's
thread, and the same calls give the same run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from ..driver.environment import Environment
from ..enumerator import SplitEnumerator
from ..enumerator_context import Boundedness
from ..errors import ContractError
from ..executor.split_read import Item
from ..reader import SplitReader
from ..snapshots.planned_subtask import PlannedSubtask
from ..snapshots.store import LocalStore, MemoryStore, Store, open_store
from ..source_options import STATE_LOCATION
from .headway import Headway
from .inline_environment import inline_environment
from .large_states import warn_of_large
from .spark_query import SparkQuery
from .spark_side import Attempt, Batch, Row, rows_of
from .steps import Crashed, CrashPoint, Itinerary, Killed, Passing, Step, Victim
from .tasks import Speculation, TaskRunner
from .under_test import GivenSource, under_test
from .watched_store import WatchedStore

_lineages = itertools.count(1)


class _Driver:
    """The driver-side process of one run; its death leaves nothing."""

    def __init__(self) -> None:
        self.is_alive = True
        self.view: WatchedStore | None = None

    def kill(self) -> None:
        self.is_alive = False
        if self.view is not None:
            self.view.kill()


class MicroBatchEngine(SparkQuery):
    """One query on one source, batch by batch.

    Attributes:
        holder: the coordinator's holder of this run.
        now_ms: the clock of the driver in milliseconds; it changes only when it is set.
        logs, sink: Spark's logs, and the batches that were written.
        tasks: the tasks of each batch that ``run_batch`` has run, by its id.
        restarts: for each restart the batch that was next.

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
        resolved = self.given.resolve()
        location = resolved.options[STATE_LOCATION]
        store_of_tasks = store
        if store is None and location is not None:
            storage = resolved.options.with_prefix("storage.")
            store = open_store(location, storage)
            # Tasks run in other processes, which share no connection or cache with the driver.
            own = {} if isinstance(store, LocalStore) else {"skip_instance_cache": True}
            store_of_tasks = open_store(location, storage | own)
        self.parallelism = parallelism
        self.max_failures = max_failures
        self.one_process = one_process
        self.performs_actions = performs_actions
        self.itinerary = Itinerary()
        self.tasks: dict[int, list[PlannedSubtask]] = {}
        self.restarts: list[int] = []
        state = None if inline_state else store or MemoryStore()
        # Without a location of its own, the state is inside the offsets, and tasks have no store either.
        self._store_of_tasks = None if state is None else store_of_tasks or state
        super().__init__(
            resolved,
            self.given.arrow_schema(),
            state,
            Boundedness.BOUNDED if available_now else Boundedness.CONTINUOUS_UNBOUNDED,
        )

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
        self, *, crash_at: Step | None = None, speculation: Speculation | None = None, actions: int = 1
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
        try:
            return self._run_batch(speculation, actions)
        except Crashed:
            raise
        except Exception as error:
            self._note_restarts(error)
            raise

    def _note_restarts(self, error: Exception) -> None:
        if self.restarts:
            error.add_note(
                f"The driver had been restarted before batch {self.restarts[-1]}. If this does not happen "
                "without a restart, snapshot_state leaves out a position or something that waits, or "
                "__init__ does not take it."
            )

    def _run_batch(self, speculation: Speculation | None, actions: int) -> Batch | None:
        if not self.logs.has_uncommitted and not self.trigger():
            return None
        tasks = self.tasks[self.logs.next_batch_id] = self.partitions()
        runner = TaskRunner(self.attempt, self.max_failures)
        with self._in_driver():
            rows: list[Row] = []
            for stage in range(actions):
                rows = runner.run(tasks, stage=stage, speculation=speculation)
        return self.finish(rows, runner.attempts)

    def process_all_available(self, *, through_crashes: bool = False, max_batches: int = 1000) -> list[Batch]:
        """Run batches until nothing is new; returns the batches of this call.

        Args:
            through_crashes: restart when the driver is killed.
            max_batches: maximum number of batches; a source with more is assumed to be endless.

        Raises:
            Crashed: as ``run_batch``, unless ``through_crashes``.
            ContractError: batches in a row bring nothing new; names the method or the split that repeats.
            RuntimeError: there is more data after ``max_batches``.
        """
        return list(self.available_batches(through_crashes=through_crashes, max_batches=max_batches))

    def available_batches(self, *, through_crashes: bool = False, max_batches: int = 1000) -> Iterator[Batch]:
        """As ``process_all_available``, batch by batch: the caller may restart the query in between."""
        headway = Headway(self.source)
        for _ in range(max_batches + 1):
            try:
                batch = self.run_batch()
            except Crashed:
                if not through_crashes:
                    raise
                self.restart()
                continue
            if batch is None:
                return
            try:
                headway.made(self.tasks[batch.batch_id], self.splits_of_all, has_rows=bool(batch.rows))
            except ContractError as error:
                self._note_restarts(error)
                raise
            yield batch
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
            is_new = super().trigger()
            run = self.holder.cycle.run
            if is_new and run is not None and run.coordinator.pending is not None:
                warn_of_large(run.coordinator.pending.snapshot)
            return is_new

    def run_no_data_batch(self) -> None:
        """Run a batch without new data, as requested by stateful operators: no partitions, no tasks."""
        with self._in_driver():
            batch_id = self.logs.next_batch_id
            self.log_batch(self.logs.start_of(batch_id))
            self.logs.write_commit(batch_id)

    def partitions(self) -> list[PlannedSubtask]:
        """The tasks of the batch that is not committed, as they arrive on executors."""
        with self._in_driver():
            return super().partitions()

    def splits_of_all(self, tasks: Sequence[PlannedSubtask]) -> list[Any]:
        return [split for task in tasks for split in self.splits_of(task)]

    def attempt(self, task: PlannedSubtask, number: int = 0) -> Iterator[Row]:
        """Start an attempt of a task; it reads only the rows that are consumed.

        It may be kept across a ``restart``: then it is a task of a dead driver.
        """
        return (row for item in self.read(task, number) for row in rows_of(item))

    def read(self, task: PlannedSubtask, number: int = 0) -> Iterator[Item]:
        """As ``attempt``, with the record batches of the reader."""
        driver, batch_id = self._driver, self.logs.next_batch_id

        def reach(step: Step) -> None:
            if driver.is_alive:
                self.reach(step, batch_id)

        view = self._view(self._store_of_tasks, reach, Step.REPORT_WRITE, Step.REPORT_WRITTEN)

        def items() -> Iterator[Item]:
            read = self.start_attempt(task, number, view)
            try:
                reach(Step.TASK_STARTED)
                for item in read:
                    yield item
                    reach(Step.ROWS_READ)
                reach(Step.TASK_ENDED)
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

    def finish(self, rows: Sequence[Row], attempts: Sequence[Attempt] = ()) -> Batch:
        """The tasks have ended: write the sink, then the commit log."""
        with self._in_driver():
            return super().finish(rows, attempts)

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
        self.restarts.append(self.logs.next_batch_id)
        for name, value in (options or {}).items():
            without = self.given.without_option(name)
            self.given = without if value is None else without.with_options(**{name: value})
        self.source = self.given.resolve()
        if parallelism is not None:
            self.parallelism = parallelism
        if available_now is not None:
            self.boundedness = Boundedness.BOUNDED if available_now else Boundedness.CONTINUOUS_UNBOUNDED
        self.itinerary.begin()
        self.schema = self.given.arrow_schema()
        self.start()

    def stop(self) -> None:
        """End the run as Spark does after an error, and stop the source."""
        if self._driver.is_alive:
            self.holder.close()
            self._driver.kill()

    def start(self) -> None:
        self._driver = _Driver()
        super().start()

    def environment(self) -> Environment:
        return inline_environment(
            now_ms=self.clock,
            steady_ms=self.steady_clock,
            new_random=lambda: f"{next(_lineages):016x}",
            cores=self.parallelism,
            performs_actions=self.performs_actions,
        )

    def driver_store(self) -> Store | None:
        def reach(step: Step) -> None:
            self.reach(step, self.logs.next_batch_id)

        self._driver.view = self._view(self.store, reach, Step.STATE_WRITE, Step.STATE_WRITTEN)
        return self._driver.view

    def reach(self, step: Step, batch_id: int) -> None:
        self.itinerary.passing(step, batch_id)

    @staticmethod
    def _view(
        store: Store | None, reach: Callable[[Step], None], before: Step, after: Step
    ) -> WatchedStore | None:
        return None if store is None else WatchedStore(store, partial(reach, before), partial(reach, after))

    @contextmanager
    def _in_driver(self) -> Iterator[None]:
        """Code of the driver process: a kill leaves nothing, an error ends the query."""
        if not self._driver.is_alive:
            raise Crashed("the query has ended or was killed: call restart()")
        try:
            try:
                yield
            except Exception:
                self.stop()
                raise
        except Killed as killed:
            self._driver.kill()
            raise Crashed(f"the driver was killed: {killed.where}") from killed
