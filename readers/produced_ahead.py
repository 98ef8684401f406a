"""Makes items in a thread while the items before them are used.

Spark's JVM takes a batch while its Python worker waits, and the other way round. A reader of one long log has
no other task beside it that would use the processor meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, TypeVar

T = TypeVar("T")

THREAD = "flip27-produced-ahead"

_END: Any = object()


def produced_ahead(
    items: Generator[T, None, None], *, interrupt: Callable[[], None], most: int = 2
) -> Iterator[T]:
    """The same items in the same order, and at the end the same error.

    A thread runs the generator. It has ended when the iteration ends, in whichever way.

    Args:
        interrupt: called if the iteration is left early; makes an item that is waited for fail soon.
        most: items that are made and not yet taken.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix=THREAD) as thread:
        ahead = deque(thread.submit(next, items, _END) for _ in range(most))
        try:
            while (item := ahead.popleft().result()) is not _END:
                ahead.append(thread.submit(next, items, _END))
                yield item
        except (GeneratorExit, KeyboardInterrupt):
            for future in ahead:
                future.cancel()
            interrupt()
            raise
