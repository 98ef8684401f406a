"""Steps: the points of a batch at which a process can die, and the plan of the crashes.

The steps are in the order in which Spark reaches them in one batch. No I/O.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Step(Enum):
    """A point of a batch."""

    TRIGGER = "latestOffset is about to be called"
    STATE_WRITE = "on the driver, a file of the state is about to be written"
    STATE_WRITTEN = "on the driver, a file of the state was written"
    OFFSET_RETURNED = "latestOffset has returned, the offset log is not written"
    OFFSET_LOGGED = "the offset log is written"
    COMMIT_PASSED = "the commit of the previous batch was passed to the source"
    PLANNED = "partitions has returned, no task has started"
    TASK_STARTED = "a task has started and has read nothing"
    ROWS_READ = "a task has returned a row or an Arrow batch"
    REPORT_WRITE = "a task is about to write its report (or a record of a failure)"
    REPORT_WRITTEN = "a task has written its report (or a record of a failure)"
    TASK_ENDED = "a task has ended and the driver does not know it"
    TASKS_ENDED = "all tasks have ended, the sink has not written"
    SINK_WRITTEN = "the sink has written, the commit log is not written"
    COMMIT_LOGGED = "the commit log is written"

    @property
    def is_of_a_task(self) -> bool:
        """Whether the step happens on an executor, which can die alone."""
        return self in _OF_A_TASK


_OF_A_TASK = frozenset(
    {Step.TASK_STARTED, Step.ROWS_READ, Step.REPORT_WRITE, Step.REPORT_WRITTEN, Step.TASK_ENDED}
)


class Victim(Enum):
    """Which process is killed."""

    DRIVER = "driver"
    """The driver and all tasks; the query can be restarted."""
    EXECUTOR = "executor"
    """The task alone; Spark retries it."""


class Killed(BaseException):
    """A process is killed here. Raised by the engine, and by data that holds ``CRASH``.

    Args:
        where: a description of the place.
        victim: the killed process; None for the process that raises this.
    """

    def __init__(self, where: str = "", victim: Victim | None = None) -> None:
        super().__init__(where)
        self.where = where
        self.victim = victim


class Crashed(Exception):  # noqa: N818 - a state of the engine that a caller has requested
    """The driver was killed: only the store, the logs and the sink are left. Call ``restart()``."""


class ExecutorLost(Exception):  # noqa: N818 - Spark's word
    """The executors of a task were killed more often than ``max_failures`` allows."""


@dataclass(frozen=True, slots=True)
class Passing:
    """One occurrence of a step.

    Attributes:
        nth: number of the occurrence within the batch and the life of the driver, from 1.
    """

    step: Step
    batch_id: int
    nth: int = 1

    def __str__(self) -> str:
        again = "" if self.nth == 1 else f", time {self.nth}"
        return f"{self.step.name} of batch {self.batch_id}{again}"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where a process is killed, once.

    Attributes:
        batch_id: the batch; None for the first batch that reaches the step.
    """

    step: Step
    batch_id: int | None = None
    nth: int = 1
    victim: Victim = Victim.DRIVER

    def is_at(self, passing: Passing) -> bool:
        """Whether the process is killed there."""
        batch_fits = self.batch_id is None or self.batch_id == passing.batch_id
        return self.step is passing.step and batch_fits and self.nth == passing.nth


class Itinerary:
    """The steps passed so far, and the remaining crash points."""

    def __init__(self) -> None:
        self.passed: list[Passing] = []
        self.crash_points: list[CrashPoint] = []
        self._counts: Counter[tuple[Step, int]] = Counter()

    def begin(self) -> None:
        """A new driver starts: its steps are counted from 1."""
        self._counts.clear()

    def passing(self, step: Step, batch_id: int) -> None:
        """Pass a step.

        Raises:
            Killed: the step is a crash point, which is then removed.
        """
        self._counts[step, batch_id] += 1
        here = Passing(step, batch_id, self._counts[step, batch_id])
        self.passed.append(here)
        for point in self.crash_points:
            if point.is_at(here):
                self.crash_points.remove(point)
                raise Killed(str(here), point.victim)
