"""Makes items in a thread while the items before them are used.

Spark's JVM takes a batch while its Python worker waits, and vice versa. While one long log is read, there is
no other task that could use the processor in these pauses.
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
    """Yield the same items in the same order, and raise the same error at the end.

    A thread runs the generator. The thread has ended when the iteration ends, even if it ends early.

    Args:
        interrupt: called if the iteration is left early; makes the generator fail soon if it is still
            working on an item.
        most: the maximum number of items that are made and not yet taken.
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
