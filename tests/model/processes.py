"""The threads of a driver, as calls: work runs when a move says so, and its results can be copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flip27_source.coordination.context import Handler
from flip27_source.driver.background import BackgroundRunner, Deliver
from flip27_source.enumerator_context import RetryPolicy

PollEnd = tuple["ModelRunner", Handler, Any]
"""A round that has ended: where its result is delivered, to whom, and the result."""


class ModelRunner(BackgroundRunner):
    """Runs a round of its work when the world calls ``rounds``; ``drain`` delivers the results."""

    def __init__(self) -> None:
        self.is_closed = False
        self._calls: list[tuple[Callable[[], Any], Handler]] = []
        self._results: list[tuple[Handler, Any]] = []

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        self._calls.append((work, handler))

    def repeat(self, work: Callable[[], object], period_s: float) -> None:
        """Do nothing: time does not pass."""

    def rounds(self) -> list[tuple[Handler, Any]]:
        """Run one round of all work; return the results, which are not delivered."""
        return [(handler, work()) for work, handler in self._calls]

    def ended(self, handler: Handler, result: Any) -> None:
        self._results.append((handler, result))

    def drain(self, deliver: Deliver) -> None:
        results, self._results = self._results, []
        for handler, result in results:
            deliver(handler, result, None)

    @property
    def in_first_rounds(self) -> bool:
        return False

    def wait_for_first_rounds(self) -> None:
        """No move waits for work."""

    def close(self) -> None:
        self.is_closed = True
        self._calls.clear()
        self._results.clear()
