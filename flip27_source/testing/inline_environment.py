"""An environment without threads, which makes every run of a test the same.

Asynchronous work runs on the caller's thread: one round of each call whenever the holder drains its
mailbox, which it does at every ``latestOffset``. Retries follow at once; actions are performed when they
are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..coordination.context import Handler
from ..driver.background import ActionRunner, BackgroundRunner, Deliver
from ..driver.environment import Environment
from ..enumerator_context import RetryPolicy
from ..errors import is_final


@dataclass(slots=True, eq=False)
class AsyncCall:
    """Submitted work; ``rounds`` is the number of finished rounds."""

    work: Callable[[], Any]
    handler: Handler
    period_s: float | None
    retry: RetryPolicy
    rounds: int = 0

    def run(self) -> tuple[Any, BaseException | None]:
        """Run one round; returns its result or its last error. An error that kills the process is raised."""
        self.rounds += 1
        for failures in range(self.retry.retries + 1):
            try:
                return self.work(), None
            except Exception as error:  # noqa: BLE001 - passed to the handler
                if failures == self.retry.retries or is_final(error):
                    return None, error
        raise AssertionError("unreachable: the last failure returns")


class InlineRunner(BackgroundRunner):
    """Runs asynchronous work on the thread that drains the results."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[AsyncCall] = []

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        self._calls.append(AsyncCall(work, handler, period_s, retry))

    def repeat(self, work: Callable[[], object], period_s: float) -> None:
        """Does nothing: time does not pass in this environment."""

    def drain(self, deliver: Deliver) -> None:
        for call in list(self._calls):
            deliver(*self._end_round(call))

    def _end_round(self, call: AsyncCall) -> tuple[Handler, Any, BaseException | None]:
        """Run one round; a call without a further round is forgotten."""
        result, error = call.run()
        if error is not None or call.period_s is None:
            self._calls.remove(call)
        return call.handler, result, error

    @property
    def in_first_rounds(self) -> bool:
        return any(call.rounds == 0 for call in self._calls)

    def wait_for_first_rounds(self) -> None:
        """Nothing to wait for: the next drain runs them."""

    def close(self) -> None:
        self._calls.clear()


class InlineActions(ActionRunner):
    def __init__(self, perform: Callable[[Any], None]) -> None:
        self._perform = perform
        self._outcomes: list[tuple[int, str | None]] = []

    def submit(self, actions: Iterable[tuple[int, Any]]) -> None:
        self._outcomes += [(number, self._outcome(action)) for number, action in actions]

    def drain(self) -> list[tuple[int, str | None]]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wait(self) -> None:
        """No action waits."""

    def end(self) -> list[tuple[int, str | None]]:
        return self.drain()

    def close(self) -> None:
        """No action waits."""


def inline_environment(
    *,
    now_ms: Callable[[], int] = lambda: 0,
    steady_ms: Callable[[], int] | None = None,
    new_random: Callable[[], str] | None = None,
    cores: int = 2,
    performs_actions: bool = True,
) -> Environment:
    """An environment without threads: a holder in it does all work inside its calls.

    Args:
        now_ms, steady_ms: the wall clock, and the clock that never goes back; the same if only one is given.
        performs_actions: if False, actions count as done without being performed.
    """

    given = Environment(
        now_ms=now_ms,
        steady_ms=steady_ms or now_ms,
        cores=cores,
        new_runner=InlineRunner,
        new_actions=InlineActions
        if performs_actions
        else lambda _perform: InlineActions(lambda _action: None),
        run_in_background=lambda work: work(),
        pause=lambda _seconds: None,
        application_folder=lambda: None,
    )
    return given if new_random is None else replace(given, new_random=new_random)
