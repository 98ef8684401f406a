"""Deadlines for code that ends by itself if it is right, and would run on if it were wrong."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def soon(seconds: int = 60) -> Iterator[None]:
    """Fail if the block takes longer; this works even in the middle of a regular expression."""

    def fail(*_: object) -> None:
        raise AssertionError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def until(condition: Callable[[], bool], what: Callable[[], object] = lambda: "", seconds: int = 60) -> None:
    """Wait for a condition; a failure shows what ``what`` returns."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} seconds: {what()}"
        time.sleep(0.01)
