"""Threads of a simulated driver: the end of their work and the order of its results are random."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from flip27_source.coordination.context import Handler
from flip27_source.driver.background import Deliver
from flip27_source.testing.inline_environment import AsyncCall, InlineActions, InlineRunner

_Result = tuple[Handler, Any, BaseException | None]


class SeededRunner(InlineRunner):
    """Runs asynchronous work on the thread that drains results, as the random numbers decide.

    Args:
        is_done: returns whether work has ended when its result is drained.
        interrupt: called at random with work that has no result; it may suspend the work in the middle.
    """

    def __init__(
        self,
        random_: random.Random,
        is_done: Callable[[], bool],
        interrupt: Callable[[Callable[[], object]], None],
    ) -> None:
        super().__init__()
        self._random = random_
        self._is_done = is_done
        self._interrupt = interrupt
        self._repeated: list[Callable[[], object]] = []
        self._results: deque[_Result] = deque()

    def repeat(self, work: Callable[[], object], period_s: float) -> None:
        self._repeated.append(work)

    def drain(self, deliver: Deliver) -> None:
        self._end([call for call in self._calls if self._is_done()])
        for _ in range(len(self._results)):
            deliver(*self._results.popleft())
        for work in self._repeated:
            if self._random.random() < 0.2:
                self._interrupt(work)

    def wait_for_first_rounds(self) -> None:
        self._end([call for call in self._calls if call.rounds == 0])

    def close(self) -> None:
        super().close()
        self._repeated.clear()
        self._results.clear()

    def _end(self, calls: list[AsyncCall]) -> None:
        self._random.shuffle(calls)
        self._results.extend(self._end_round(call) for call in calls)


class SeededActions(InlineActions):
    """Performs actions when results are drained, in any order; some are delayed, or never performed."""

    def __init__(
        self, perform: Callable[[Any], None], random_: random.Random, is_done: Callable[[], bool]
    ) -> None:
        super().__init__(perform)
        self._random = random_
        self._is_done = is_done
        self._waiting: list[tuple[int, Any]] = []

    def submit(self, actions: Iterable[tuple[int, Any]]) -> None:
        self._waiting += actions

    def drain(self) -> list[tuple[int, str | None]]:
        self._random.shuffle(self._waiting)
        done = [item for item in self._waiting if self._is_done()]
        self._waiting = [item for item in self._waiting if item not in done]
        return [(number, self._outcome(action)) for number, action in done]

    def close(self) -> None:
        self._waiting.clear()

    def end(self) -> list[tuple[int, str | None]]:
        self._waiting.clear()
        return []
