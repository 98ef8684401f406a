"""Starting many queries on one driver, a few at a time."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flip27_source.log import LOG

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLLED_EVERY_S = 0.05
_STARTING = "Initializing"
"""The beginning of the status of a query whose sources have no process yet."""
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
    """
    functions = list(starts)
    queries: list[StreamingQuery | None] = [None] * len(functions)
    waiting = deque(range(len(functions)))
    tried = [0] * len(functions)
    starting: set[int] = set()
    while waiting or starting:
        while waiting and len(starting) < (at_once or os.cpu_count() or 1):
            number = waiting.popleft()
            tried[number] += 1
            queries[number] = functions[number]()
            starting.add(number)
        for number in sorted(starting):
            query = queries[number]
            assert query is not None
            if query.isActive and query.status["message"].startswith(_STARTING):
                continue
            starting.remove(number)
            if not query.isActive and _gave_up(query) and tried[number] < attempts:
                LOG.warning("Spark gave up on the Python process of a query, which is started again")
                waiting.append(number)
        time.sleep(_POLLED_EVERY_S)
    return [query for query in queries if query is not None]


def _gave_up(query: StreamingQuery) -> bool:
    error = query.exception()
    return error is not None and _GAVE_UP in str(error)
