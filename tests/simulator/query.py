"""A query on a simulated machine, whose tasks run in any order.

The logs, the sink, the disk or object store, and the landing folder survive every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flip27_source.coordination.batch_limits import UNLIMITED, Limits
from flip27_source.driver.environment import Environment
from flip27_source.enumerator_context import Boundedness
from flip27_source.errors import AttemptError, Flip27Error
from flip27_source.snapshots.offsets import Offset
from flip27_source.snapshots.planned_subtask import PlannedSubtask
from flip27_source.snapshots.store import Store
from flip27_source.testing.spark_query import SparkQuery
from flip27_source.testing.spark_side import OnceSink, Row, as_value, rows_of
from flip27_source.testing.steps import Killed, Step
from flip27_source.testing.under_test import SourceUnderTest

from .process import Process
from .threads import SeededActions, SeededRunner

if TYPE_CHECKING:
    from .simulation import Simulation

_PROCESS = 1
"""The process id of every driver, so that the files of a seed have the same length wherever it is played."""

MOST_FAILURES = 4
"""``spark.task.maxFailures``."""


@dataclass(slots=True, eq=False)
class RunningAttempt:
    """One attempt of a task, with its rows so far."""

    process: Process
    items: Iterator[Row]
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Task:
    planned: PlannedSubtask
    attempts: list[RunningAttempt] = field(default_factory=list)
    started: int = 0
    failures: int = 0
    rows: list[Row] | None = None


class TasksFailed(Exception):  # noqa: N818 - Spark's word
    """A task failed more often than Spark allows."""


class Query(SparkQuery):
    """One query on one checkpoint location.

    Args:
        state: the location of its state.

    Attributes:
        process: the process of its driver.
        advancing: the process of the attempt that ran last.
        forsaken: running attempts whose result no longer counts.
        stages_differ: what differed when a batch was planned a second time.
        must_refuse: whether the checkpoint location is an older copy that the state must show.
    """

    def __init__(self, machine: Simulation, given: SourceUnderTest, state: str, *, cores: int = 2) -> None:
        self.machine = machine
        self.given = given
        self.state = state
        self.cores = cores
        self.forsaken: list[RunningAttempt] = []
        self.stages_differ: str | None = None
        self.must_refuse = False
        super().__init__(given.resolve(), given.arrow_schema(), None)

    @property
    def rows(self) -> list[Row]:
        """The rows of committed batches in the sink."""
        return [
            row for batch in self.sink.batches if batch.batch_id in self.logs.commits for row in batch.rows
        ]

    @property
    def lines(self) -> list[str]:
        """The rows, which have one column."""
        return [row[0] for row in self.rows]

    @property
    def offsets(self) -> list[Offset]:
        """The offsets of committed batches, except those before the first checkpoint."""
        logged = enumerate(self.logs.offsets)
        found = [Offset.from_json(as_value(text)) for number, text in logged if number in self.logs.commits]
        return [offset for offset in found if not offset.is_initial]

    def change(self, given: SourceUnderTest, *, cores: int, boundedness: Boundedness) -> None:
        """What the next run is started with."""
        self.given, self.cores, self.boundedness = given, cores, boundedness

    def start(self) -> None:
        """Start a new driver from the store and the logs."""
        self.machine.count += 1
        self.process = self.machine.new_process(f"driver {self.machine.count}", is_driver=True)
        try:
            self.source, self.schema = self.given.resolve(), self.given.arrow_schema()
            super().start()
        except Exception:
            self.kill()
            raise

    def restore_sink(self) -> None:
        """Restore the sink as it was at the last committed batch."""
        written, self.sink = self.sink.batches, OnceSink()
        for batch in written:
            if batch.batch_id in self.logs.commits:
                self.sink.write(batch)

    def kill(self) -> None:
        """SIGKILL of the driver."""
        self.process.kill()

    def environment(self) -> Environment:
        machine, process = self.machine, self.process

        def open_store(location: str, _options: Mapping[str, Any]) -> Store:
            return machine.store(location, process)

        return Environment(
            now_ms=lambda: machine.now_ms,
            steady_ms=lambda: machine.steady_ms,
            new_random=machine.random_hex,
            process=lambda: _PROCESS,
            cores=self.cores,
            new_runner=lambda: SeededRunner(machine.random, machine.is_done, machine.interrupt),
            new_actions=lambda perform: SeededActions(perform, machine.random, machine.is_done),
            run_in_background=lambda work: work(),
            pause=lambda seconds: machine.pass_time(round(seconds * 1000)),
            application_folder=lambda: None,
            open_store=open_store,
        )

    def driver_store(self) -> Store:
        return self.machine.store(self.state, self.process)

    def reach(self, step: Step, batch_id: int) -> None:
        where = {Step.TASKS_ENDED: "before the sink", Step.SINK_WRITTEN: "before the commit log"}.get(step)
        if where is not None:
            self.machine.survive(where)

    def default_limits(self) -> Limits | None:
        return UNLIMITED if any(name.startswith(("max", "target")) for name in self.given.options) else None

    def partitions(self) -> list[PlannedSubtask]:
        """The tasks of the batch; sometimes they are planned twice, which must give the same."""
        self.machine.survive("before planning")
        planned = super().partitions()
        if self.machine.random.random() < 0.1 and planned != super().partitions():
            batch_id = self.logs.next_batch_id
            self.stages_differ = f"batch {batch_id} was planned differently at the second call"
        return planned

    def run_stage(self, tasks: list[PlannedSubtask]) -> list[Row]:
        """Run all tasks with randomly interleaved attempts; returns the rows that count.

        Raises:
            TasksFailed, Killed: the query fails.
        """
        machine, running = self.machine, [_Task(planned) for planned in tasks]
        while unfinished := [task for task in running if task.rows is None]:
            task = machine.random.choice(unfinished)
            if not task.attempts or (len(task.attempts) < 2 and machine.random.random() < machine.copies):
                task.attempts.append(self._attempt(task.planned, task.started))
                task.started += 1
            self._advance(task, machine.random.choice(task.attempts))
        return [row for task in running for row in task.rows or ()]

    def _attempt(self, task: PlannedSubtask, number: int) -> RunningAttempt:
        machine = self.machine
        machine.count += 1
        what = f"checkpoint {task.checkpoint_id}, subtask {task.subtask_id}, attempt {number}"
        process = machine.new_process(f"task {machine.count} ({what})", is_driver=False)
        items = self.start_attempt(task, number, machine.store(self.state, process))
        return RunningAttempt(process, _rows(items))

    def _advance(self, task: _Task, attempt: RunningAttempt) -> None:
        """Read some more rows, and handle the outcome."""
        machine = self.machine
        self.advancing = attempt.process
        try:
            for _ in range(machine.random.choice((1, 2, 1000))):
                attempt.rows.append(next(attempt.items))
        except StopIteration:
            task.attempts.remove(attempt)
            if machine.random.random() < machine.result_lost:
                machine.tell(f"{attempt.process}: its result was lost")
                self._failed(task, None)
            else:
                task.rows = attempt.rows
                self.forsaken += task.attempts
        except Killed:
            task.attempts.remove(attempt)
            self._failed(task, None)
        except Exception as error:  # noqa: BLE001 - the query reports the error of a task
            machine.tell(f"{attempt.process} failed: {error}")
            task.attempts.remove(attempt)
            self._failed(task, error)

    def _failed(self, task: _Task, error: Exception | None) -> None:
        task.failures += 1
        if error is not None and not isinstance(error, Flip27Error):
            raise error
        if task.failures >= MOST_FAILURES and not task.attempts:
            why = "its executors were lost" if error is None else str(error)
            raise TasksFailed(f"a task failed {task.failures} times: {why}") from error


def advance_forsaken(attempt: RunningAttempt) -> None:
    """Let an attempt whose result no longer counts run to its end: it must do no harm."""
    try:
        for _ in attempt.items:
            pass
    except (Killed, AttemptError, Flip27Error):
        pass


def _rows(items: Iterator[Any]) -> Iterator[Row]:
    for item in items:
        for row in rows_of(item):
            yield tuple(str(value) if isinstance(value, list) else value for value in row)
