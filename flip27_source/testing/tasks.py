"""TaskRunner: runs the tasks of a stage as Spark does: attempts, retries, speculative copies.

One task after the other, on one thread; attempts interact only through their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ..snapshots.planned_subtask import PlannedSubtask
from .spark_side import Attempt, Row
from .steps import ExecutorLost, Killed, Victim


class Speculation(Enum):
    """Two attempts of every task run at once: which of them ends first, and which counts.

    The slower one has started and returned a row before the faster one ends.
    """

    ORIGINAL_WINS = "the first attempt ends first and counts"
    COPY_WINS = "the copy ends first and counts"
    RESULT_LOST = "the copy ends first, its result is lost, and the first attempt counts"


@dataclass(slots=True)
class _Running:
    """A running attempt: its rows so far."""

    number: int
    rows: Iterator[Row]
    given: list[Row] = field(default_factory=list)
    error: BaseException | None = None
    ended: bool = False

    def read(self, most: int | None = None) -> None:
        while not self.ended and (most is None or most > 0):
            try:
                self.given.append(next(self.rows))
            except StopIteration:
                self.ended = True
            except (Exception, Killed) as error:  # noqa: BLE001 - stored as the attempt's failure
                self.ended, self.error = True, error
            most = None if most is None else most - 1

    @property
    def killed_the_driver(self) -> bool:
        return isinstance(self.error, Killed) and self.error.victim is Victim.DRIVER


class TaskRunner:
    """Runs stages.

    Args:
        start: starts an attempt of a task: (task, number of the attempt) -> its rows.
        max_failures: Spark's ``spark.task.maxFailures``: number of failed attempts that fail the query.
    """

    def __init__(self, start: Callable[[PlannedSubtask, int], Iterator[Row]], max_failures: int) -> None:
        self._start = start
        self._max_failures = max_failures
        self.attempts: list[Attempt] = []

    def run(
        self, tasks: Sequence[PlannedSubtask], *, stage: int = 0, speculation: Speculation | None = None
    ) -> list[Row]:
        """The rows of all tasks; records every attempt in ``attempts``.

        Raises:
            Killed: the driver was killed.
            Exception: the error of the last attempt of a task.
            ExecutorLost: the last attempt of a task was killed.
        """
        return [row for index, task in enumerate(tasks) for row in self._run(index, task, stage, speculation)]

    def _run(
        self, index: int, task: PlannedSubtask, stage: int, speculation: Speculation | None
    ) -> list[Row]:
        numbers = itertools.count()
        failures = 0
        while True:
            started = itertools.islice(numbers, 1 if speculation is None else 2)
            attempts = [_Running(number, self._start(task, number)) for number in started]
            accepted = _finished(attempts, speculation)
            speculation = None
            for attempt in attempts:
                self._record(attempt, index, task, stage, accepted=attempt is accepted)
            for attempt in attempts:
                if attempt.killed_the_driver and attempt.error is not None:
                    raise attempt.error
            if accepted is not None:
                return accepted.given
            failures += len(attempts)
            if failures >= self._max_failures:
                raise _cause(attempts[-1], index)

    def _record(
        self, attempt: _Running, index: int, task: PlannedSubtask, stage: int, *, accepted: bool
    ) -> None:
        error = attempt.error
        self.attempts.append(
            Attempt(
                task=index,
                subtask_id=task.subtask_id,
                number=attempt.number,
                stage=stage,
                rows=tuple(attempt.given),
                error=None if error is None else f"{type(error).__name__}: {error}",
                accepted=accepted,
            )
        )


def _finished(attempts: list[_Running], speculation: Speculation | None) -> _Running | None:
    """Run the attempts; returns the one whose rows count, None if all failed."""
    if speculation is None:
        attempts[0].read()
        return None if attempts[0].error is not None else attempts[0]
    original, copy = attempts
    fast, slow = (original, copy) if speculation is Speculation.ORIGINAL_WINS else (copy, original)
    slow.read(most=1)
    fast.read()
    if not fast.killed_the_driver:
        slow.read()
    preferred = (slow, fast) if speculation is Speculation.RESULT_LOST else (fast, slow)
    return next((attempt for attempt in preferred if attempt.error is None and attempt.ended), None)


def _cause(attempt: _Running, index: int) -> BaseException:
    if isinstance(attempt.error, Killed):
        lost = ExecutorLost(f"task {index}, attempt {attempt.number}: {attempt.error.where}")
        lost.__cause__ = attempt.error
        return lost
    assert attempt.error is not None
    return attempt.error
