"""Time limits: libraries of servers retry for minutes, and Spark waits for a worker forever."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from flip27_source.errors import AccessError

from ..main import LEFT_ALONE

ANSWER_S = 10.0
"""Maximum time for the first answer of a server; most of its clients try for longer."""

_OWN_LIMITS_S = 1.0
"""How much longer the libraries of sources have: with a limit of ten seconds, their errors say more."""

T = TypeVar("T")


class _Worker(Generic[T]):
    """A thread that makes items. Nothing waits for its end, and all connections of the work belong to it."""

    def __init__(self, work: Callable[[], Iterable[T]]) -> None:
        self._results: queue.SimpleQueue[tuple[list[T], Exception | None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(work,), name=LEFT_ALONE, daemon=True).start()

    def _run(self, work: Callable[[], Iterable[T]]) -> None:
        try:
            for item in work():
                self._results.put(([item], None))
        except Exception as error:  # noqa: BLE001 - raised by ``next``
            self._results.put(([], error))
        else:
            self._results.put(([], None))

    def next(self, limit_s: float | None, late: Callable[[], Exception]) -> list[T]:
        """The next item, in a list that is empty after the last one."""
        try:
            items, error = self._results.get(timeout=limit_s)
        except queue.Empty:
            raise late() from None
        if error is not None:
            raise error
        return items


def within(limit_s: float, work: Callable[[], T], late: Callable[[], Exception]) -> T:
    """The result of ``work``. It runs on a thread that is left alone if it takes longer than the limit.

    Raises:
        Exception: what ``work`` raises, or ``late()``.
    """
    return _Worker(lambda: [work()]).next(limit_s, late)[0]


def asked(what: str, work: Callable[[], T]) -> Callable[[], T]:
    """Send the first request to a server; the function that is returned waits for the result.

    So several servers, or one several times, are asked in ten seconds. The function raises what ``work``
    raises, or AccessError if the server has not answered in time.
    """
    worker, ends = _Worker(lambda: [work()]), time.monotonic() + ANSWER_S
    return lambda: worker.next(max(ends - time.monotonic(), 0.0), lambda: _silent(what))[0]


def answered(what: str, work: Callable[[], T]) -> T:
    """The result of the first request to a server, sent and waited for."""
    return asked(what, work)()


def answered_items(what: str, work: Callable[[], Iterable[T]]) -> Iterator[T]:
    """The items of ``work``; the first one needs an answer of a server.

    Raises:
        Exception: what ``work`` raises, or AccessError if the first item has not come in time.
    """
    worker = _Worker(work)
    items = worker.next(ANSWER_S + _OWN_LIMITS_S, lambda: _silent(what))
    while items:
        yield from items
        items = worker.next(None, lambda: _silent(what))


def _silent(what: str) -> AccessError:
    return AccessError(
        f"{what} has not answered in {ANSWER_S:g} s",
        remedy="check the name and port of the server, that it runs, and the network and the firewalls "
        "between",
    )
