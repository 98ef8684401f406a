"""Steps: the points of a batch at which a process can die, and the plan of where it does.

The order of the steps is the order in which Spark comes by them in one batch. No I/O.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Step(Enum):
    """A point of a batch."""

    TRIGGER = "latestOffset is about to be called"
    STATE_WRITE = "in latestOffset, a file of the state is about to be written"
    STATE_WRITTEN = "in latestOffset, a file of the state was written"
    OFFSET_TOLD = "latestOffset has answered, the offset log does not know it"
    OFFSET_LOGGED = "the offset log is written"
    COMMIT_TOLD = "the source was told that the batch before is committed"
    PLANNED = "partitions has answered, no task has started"
    TASK_STARTED = "a task has started and read nothing"
    ROWS_READ = "a task has given a row or an Arrow batch"
    REPORT_WRITE = "a task is about to write its report (or a record of a failure)"
    REPORT_WRITTEN = "a task has written its report (or a record of a failure)"
    TASK_ENDED = "a task has ended and the driver does not know it"
    TASKS_ENDED = "all tasks have ended, the sink has nothing"
    SINK_WRITTEN = "the sink has the rows, the commit log does not know it"
    COMMIT_LOGGED = "the commit log is written"

    @property
    def is_of_a_task(self) -> bool:
        """Whether it happens on an executor, which can die alone."""
        return self in _OF_A_TASK


_OF_A_TASK = frozenset(
    {Step.TASK_STARTED, Step.ROWS_READ, Step.REPORT_WRITE, Step.REPORT_WRITTEN, Step.TASK_ENDED}
)


class Victim(Enum):
    """Which process is killed."""

    DRIVER = "driver"
    """And with it all tasks; the query can be restarted."""
    EXECUTOR = "executor"
    """The task alone; Spark tries it again."""


class Killed(BaseException):
    """A process is killed here. Raised by the engine, and by data that holds ``CRASH``.

    Args:
        where: for people.
        victim: None for the process that it is raised in.
    """

    def __init__(self, where: str = "", victim: Victim | None = None) -> None:
        super().__init__(where)
        self.where = where
        self.victim = victim


class Crashed(Exception):  # noqa: N818 - a state of the engine that a caller asked for
    """The driver was killed: nothing is left but the store, the logs and the sink. Call ``restart()``."""


class ExecutorLost(Exception):  # noqa: N818 - Spark's word
    """The executors of a task were killed more often than ``max_failures`` allows."""


@dataclass(frozen=True, slots=True)
class Passing:
    """One coming by of a step.

    Attributes:
        nth: from 1, within the batch and the life of the driver.
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
        batch_id: None for whichever batch comes by first.
    """

    step: Step
    batch_id: int | None = None
    nth: int = 1
    victim: Victim = Victim.DRIVER

    def is_at(self, passing: Passing) -> bool:
        """Whether it strikes there."""
        batch_fits = self.batch_id is None or self.batch_id == passing.batch_id
        return self.step is passing.step and batch_fits and self.nth == passing.nth


class Itinerary:
    """Every step that was come by, and where processes are still to be killed."""

    def __init__(self) -> None:
        self.passed: list[Passing] = []
        self.crash_points: list[CrashPoint] = []
        self._counts: Counter[tuple[Step, int]] = Counter()

    def begin(self) -> None:
        """A new driver counts anew."""
        self._counts.clear()

    def passing(self, step: Step, batch_id: int) -> None:
        """Come by a step.

        Raises:
            Killed: a crash point is there; it is used up.
        """
        self._counts[step, batch_id] += 1
        here = Passing(step, batch_id, self._counts[step, batch_id])
        self.passed.append(here)
        for point in self.crash_points:
            if point.is_at(here):
                self.crash_points.remove(point)
                raise Killed(str(here), point.victim)
