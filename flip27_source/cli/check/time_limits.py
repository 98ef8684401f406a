"""Time limits: libraries of servers retry for minutes, and Spark waits for a worker forever."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from flip27_source.errors import AccessError

ANSWER_S = 10.0
"""Maximum time for the first answer of a server; most of its clients try for longer."""

T = TypeVar("T")


def within(limit_s: float, work: Callable[[], T], late: Callable[[], Exception]) -> T:
    """The result of ``work``. It runs on a thread that is left alone if it takes longer than the limit.

    Raises:
        Exception: what ``work`` raises, or ``late()``.
    """
    results: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((work(), None))
        except Exception as error:  # noqa: BLE001 - raised by the caller
            results.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=limit_s)
    except queue.Empty:
        raise late() from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # without an error it is a result


def answered(what: str, work: Callable[[], T]) -> T:
    """The result of the first request to a server.

    Raises:
        Exception: what ``work`` raises, or AccessError if the server has not answered in time.
    """
    return within(
        ANSWER_S,
        work,
        lambda: AccessError(
            f"{what} has not answered in {ANSWER_S:g} s",
            remedy="check the name and port of the server, that it runs, and the network and the firewalls "
            "between",
        ),
    )
