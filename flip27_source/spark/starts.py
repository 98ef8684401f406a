"""Starting many queries on one driver, a few at a time."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flip27_source.errors import OptionError, StartError, quotation
from flip27_source.log import LOG

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLLED_EVERY_S = 0.05
_NOT_DECIDED = ("Initializing", "Terminated")
"""The beginning of the status of a query whose sources have no process yet, or that is about to end."""
_GAVE_UP = "failed to connect back"
"""Spark's error for a Python process that has not answered within ten seconds."""


def start_in_turn(
    starts: Iterable[Callable[[], StreamingQuery]], *, at_once: int | None = None, attempts: int = 5
) -> list[StreamingQuery]:
    """Start streaming queries, each once those before it have the Python processes of their sources.

    Spark gives such a process ten seconds to import pyspark, which no setting changes. Many at once on few
    cores take longer, and their queries end with "Python worker failed to connect back".

    Args:
        starts: one function for each query, such as ``writer.start``. It is called again if Spark has given
            up on a process of the query: a query continues from its checkpoint.
        at_once: how many queries are starting at the same time; by default the number of cores of this
            machine.
        attempts: how often a query is started at most.

    Returns:
        The queries, in the order of ``starts``; one that has ended for another reason has its error
        (``query.exception()``).

    Raises:
        StartError: some functions have raised errors; the other queries were started, and ``error.queries``
            has them.
        OptionError: ``at_once`` or ``attempts`` is below 1.
    """
    most = (os.cpu_count() or 1) if at_once is None else at_once
    for name, number in (("at_once", most), ("attempts", attempts)):
        if number < 1:
            raise OptionError(f"start_in_turn got {name}={number}", remedy="expected: a number of at least 1")
    work = _Starts(list(starts), attempts)
    while work.waiting or work.starting:
        while work.waiting and len(work.starting) < most:
            work.start(work.waiting.popleft())
        for number in sorted(work.starting):
            work.look_at(number)
        time.sleep(_POLLED_EVERY_S)
    return work.started()


class _Starts:
    """Queries by the number of their function.

    Attributes:
        waiting: those to start. starting: those that have no processes yet.
    """

    def __init__(self, functions: list[Callable[[], StreamingQuery]], attempts: int) -> None:
        self._functions = functions
        self._attempts = attempts
        self._tried = [0] * len(functions)
        self._queries: list[StreamingQuery | None] = [None] * len(functions)
        self._reasons: dict[int, Exception] = {}
        self.waiting = deque(range(len(functions)))
        self.starting: set[int] = set()

    def start(self, number: int) -> None:
        self._tried[number] += 1
        self._queries[number] = None
        try:
            query = self._functions[number]()
            if not hasattr(type(query), "isActive"):
                raise OptionError(
                    f"the function returned {quotation(repr(query))}, which is no streaming query",
                    remedy="return what start() returns",
                )
            self._queries[number] = query
        except Exception as error:  # noqa: BLE001 - the handles of the other queries must not be lost
            if not self._waits_again(number, error):
                self._reasons[number] = error
        else:
            self.starting.add(number)

    def look_at(self, number: int) -> None:
        query = self._queries[number]
        assert query is not None, "it was started"
        if query.isActive and query.status["message"].startswith(_NOT_DECIDED):
            return
        self.starting.remove(number)
        if not query.isActive:
            self._waits_again(number, query.exception())

    def _waits_again(self, number: int, error: Exception | None) -> bool:
        if _GAVE_UP not in str(error) or self._tried[number] >= self._attempts:
            return False
        LOG.warning("Spark gave up on the Python process of a query, which is started again")
        self.waiting.append(number)
        return True

    def started(self) -> list[StreamingQuery]:
        if self._reasons:
            reasons = dict(sorted(self._reasons.items()))
            said = (f"number {number + 1}: {_first_line(error)}" for number, error in reasons.items())
            raise StartError(
                f"{len(reasons)} of {len(self._queries)} queries could not be started: {'; '.join(said)}",
                queries=self._queries,
                reasons=list(reasons.values()),
                remedy="correct these and start them again; the others were started: the attribute queries "
                "of this error has them, and so has spark.streams.active",
            ) from next(iter(reasons.values()))
        return [query for query in self._queries if query is not None]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
