"""One line in the log for each checkpoint: what it holds, what is left, how long it took.

The coordinator's process is Spark's own, where nobody sets up Python's logging: the environment
variable FLIP27_LOG_LEVEL does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..coordination.checkpoints import PendingCheckpoint
from ..coordination.context import AsyncRunner, Handler
from ..enumerator import RetryPolicy
from ..errors import OptionError

LEVEL_VARIABLE = "FLIP27_LOG_LEVEL"

_log = logging.getLogger("flip27_source")


class CheckpointLog:
    """Logs the checkpoints of one source.

    Args:
        now_ms: the clock that the age of discovery is taken by.
    """

    def __init__(self, uid: str, now_ms: Callable[[], int]) -> None:
        self._uid = uid
        self._now_ms = now_ms
        self._discovered_ms: int | None = None
        self._planning_s = 0.0

    def watched(self, runner: AsyncRunner) -> AsyncRunner:
        """The runner of an enumerator's asynchronous work, whose rounds are taken for discovery."""
        return _WatchedRunner(runner, self._discovered)

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """A checkpoint is looked for in the block."""
        begun = time.perf_counter()
        yield
        self._planning_s = time.perf_counter() - begun

    @contextlib.contextmanager
    def writing(self, pending: PendingCheckpoint[Any]) -> Iterator[None]:
        """The checkpoint is made durable in the block; logged unless that fails."""
        begun = time.perf_counter()
        yield
        if _log.isEnabledFor(logging.INFO):
            self._write_line(pending, time.perf_counter() - begun)

    def _discovered(self) -> None:
        self._discovered_ms = self._now_ms()

    def _write_line(self, pending: PendingCheckpoint[Any], writing_s: float) -> None:
        summary = pending.summary
        numbers = {
            "checkpoint": pending.checkpoint_id,
            "source": self._uid,
            "splits": summary.splits,
            # Sizes that nobody knows before the splits are read add up to 0.
            "rows": summary.rows or None,
            "bytes": summary.bytes or None,
            "backlog": max(
                summary.backlog.splits, summary.waiting_splits + summary.gauges.get("pendingSplits", 0)
            ),
            "discovery_age_ms": self._discovery_age_ms(),
            "planning_ms": round(self._planning_s * 1000),
            "write_ms": round(writing_s * 1000),
        }
        line = " ".join(f"{name}={_shown(value)}" for name, value in numbers.items())
        # Handlers that write JSON take the numbers from the record.
        _log.info(line, extra={"flip27": numbers})

    def _discovery_age_ms(self) -> int | None:
        """Milliseconds since the newest round ended; None before the first, and where there is none."""
        return None if self._discovered_ms is None else max(0, self._now_ms() - self._discovered_ms)


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)


class _WatchedRunner:
    """An AsyncRunner that says when a round has ended well."""

    def __init__(self, runner: AsyncRunner, ended: Callable[[], None]) -> None:
        self._runner = runner
        self._ended = ended

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        def watched() -> Any:
            result = work()
            self._ended()
            return result

        self._runner.submit(watched, handler, period_s, retry)


def log_where_asked() -> None:
    """Set the level of the log to FLIP27_LOG_LEVEL, if that is set; it goes to standard error by default.

    Raises:
        OptionError: it names no level of Python's logging.
    """
    level = os.environ.get(LEVEL_VARIABLE, "")
    if not level:
        return
    try:
        _log.setLevel(level.upper())
    except ValueError as error:
        raise OptionError(
            f"the environment variable {LEVEL_VARIABLE} is {level!r}, which is no level of Python's logging",
            remedy="set it to DEBUG, INFO, WARNING or ERROR, or take it away",
        ) from error
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        _log.addHandler(handler)
