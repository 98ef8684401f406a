"""Failures that a run of a query tolerates (Flink: ``setTolerableCheckpointFailureNumber``).

A call of Spark that failed because something outside could not be reached is made again after a pause. The
coordinator is discarded by the failure, and restored from the offset of the call, as after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..access_errors import may_pass
from ..enumerator_context import RetryPolicy
from ..errors import kept_text
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG, about
from ..snapshots.driver_epochs import RENEWED_EVERY_MS, FailedCheckpoint
from ..values.times import datetime_or_none
from .batch_traces import BatchTraces
from .driving import Driving
from .environment import Environment

T = TypeVar("T")


class ToleratedFailures:
    """The failures of one run.

    Args:
        most: how many in a row are tolerated. hidden: what must not be in errors.
        traces: the spans of batches, which have the failures too.

    Attributes:
        numbers: for progress events: how many there were in this run, with the one that has ended it, and the
            class of the newest one's error. Empty if there were none.
        error: what the last call has failed with for good; None if it has not.
    """

    def __init__(
        self, most: int, driving: Driving, environment: Environment, hidden: Hidden, traces: BatchTraces
    ) -> None:
        self._hidden = hidden
        self._traces = traces
        self._pauses = RetryPolicy(retries=most)
        self._driving = driving
        self._environment = environment
        self._in_a_row = 0
        self.numbers: dict[str, Any] = {}
        self.error: Exception | None = None

    def tried(self, call: Callable[[], T]) -> T:
        """The result of a call, which is made again after a failure that is tolerated."""
        with about(self._traces.ids):
            return self._tried(call)

    def _tried(self, call: Callable[[], T]) -> T:
        while True:
            try:
                result = self._hidden.in_errors(call)()
            except Exception as error:
                self._traces.failed(error)
                is_passing = may_pass(error)
                if is_passing:
                    self._count(error)
                if not is_passing or self._in_a_row > self._pauses.retries:
                    self.error = error
                    raise
                pause_s = self._pauses.pause_s(self._in_a_row)
                LOG.warning(
                    "failure %d of %d in a row that tolerableFailedCheckpoints allows; again in %g s: %s",
                    self._in_a_row, self._pauses.retries, pause_s, kept_text(error),
                )  # fmt: skip
                self._pause(pause_s)
            else:
                self._in_a_row, self.error = 0, None
                return result

    def _pause(self, pause_s: float) -> None:
        """Wait, and show others that this driver is alive."""
        watch = self._environment.new_runner()
        watch.repeat(self._driving.renew, RENEWED_EVERY_MS / 1000)
        try:
            self._environment.pause(pause_s)
        finally:
            watch.close()

    def _count(self, error: Exception) -> None:
        self._in_a_row += 1
        now_ms = self._environment.now_ms()
        at = datetime_or_none(now_ms)
        self.numbers = {
            "failedCheckpoints": self.numbers.get("failedCheckpoints", 0) + 1,
            "lastFailure": type(error).__name__,
            "lastFailureAt": None if at is None else at.isoformat(),
        }
        self._driving.noted(FailedCheckpoint(at_ms=now_ms, error=kept_text(error)))
        self._driving.told({**self._driving.numbers, **self.numbers})
