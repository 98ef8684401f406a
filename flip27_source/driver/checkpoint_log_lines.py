"""One log line for each checkpoint: its splits, rows and bytes, the backlog, and how long it took.

How long it took, and when discovery was last done, is in the driver's record too.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..coordination.context import AsyncRunner, Handler
from ..enumerator_context import RetryPolicy
from ..file_systems.secrets_in_texts import Hidden
from ..log import LOG
from ..snapshots.driver_epochs import WrittenCheckpoint
from .driving import Driving
from .environment import Environment


class CheckpointLogLines:
    """Logs the checkpoints of one source.

    Args:
        driving: whose record has them too.

    Attributes:
        numbers: what the newest checkpoint took, for progress events.
    """

    def __init__(self, uid: str, driving: Driving, environment: Environment) -> None:
        self._uid = uid
        self._driving = driving
        self._now_ms, self._steady_ms = environment.now_ms, environment.steady_ms
        self.numbers: dict[str, int] = {}
        self._discovered_ms: int | None = None
        self._planning_ms = 0

    def watched(self, runner: AsyncRunner, hidden: Hidden) -> AsyncRunner:
        """``runner``, wrapped so that the end of each round is recorded as the time of discovery.

        Args:
            hidden: what must not be in the errors of rounds, which runners log.
        """
        asking = self._driving.asking = {}
        return _WatchedRunner(runner, self._now_ms, asking, self._discovered, hidden)

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """Measure the block, which plans a checkpoint."""
        begun = self._steady_ms()
        yield
        self._planning_ms = self._steady_ms() - begun

    @contextlib.contextmanager
    def writing(self, pending: PendingCheckpoint[Any]) -> Iterator[None]:
        """Measure the block, which makes the checkpoint durable; log the checkpoint if it succeeds."""
        begun = self._steady_ms()
        yield
        write_ms = self._steady_ms() - begun
        self.numbers = {"planningMs": self._planning_ms, "writeMs": write_ms}
        self._driving.wrote(
            WrittenCheckpoint(
                checkpoint_id=pending.checkpoint_id, planning_ms=self._planning_ms, write_ms=write_ms
            )
        )
        if LOG.isEnabledFor(logging.INFO):
            self._write_line(pending)

    def _discovered(self) -> None:
        self._discovered_ms = self._now_ms()
        self._driving.discovered(self._discovered_ms)

    def _write_line(self, pending: PendingCheckpoint[Any]) -> None:
        summary, discovered_ms = pending.summary, self._discovered_ms
        numbers = {
            "checkpoint": pending.checkpoint_id,
            "source": self._uid,
            "splits": summary.splits,
            # Sizes that are not known before the splits are read add up to 0.
            "rows": summary.rows or None,
            "bytes": summary.bytes or None,
            "backlog": max(
                summary.backlog.splits, summary.waiting_splits + summary.gauges.get("pendingSplits", 0)
            ),
            # Not known before a round has ended.
            "discovery_age_ms": None if discovered_ms is None else max(0, self._now_ms() - discovered_ms),
            "planning_ms": self.numbers["planningMs"],
            "write_ms": self.numbers["writeMs"],
        }
        shown = {name: "unknown" if value is None else value for name, value in numbers.items()}
        line = " ".join(f"{name}={value}" for name, value in shown.items())
        # Logging handlers that write JSON take the numbers from the record.
        LOG.info(line, extra={"flip27": numbers})


class _WatchedRunner:
    """An AsyncRunner that calls ``ended`` after each successful round, and masks the errors of others.

    Args:
        asking: takes the rounds that are under way, with their beginnings.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        now_ms: Callable[[], int],
        asking: dict[object, int],
        ended: Callable[[], None],
        hidden: Hidden,
    ) -> None:
        self._runner = runner
        self._now_ms = now_ms
        self._asking = asking
        self._ended = ended
        self._hidden = hidden

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        def watched() -> Any:
            self._asking.setdefault(watched, self._now_ms())  # a retry belongs to the same round
            result = work()
            self._asking.pop(watched, None)
            self._ended()
            return result

        def handled(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self._asking.pop(watched, None)
            handler(result, error)

        self._runner.submit(self._hidden.in_errors(watched), handled, period_s, retry)
