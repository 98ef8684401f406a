"""Makes items in a thread while the items before them are used.

Spark's JVM takes a batch while its Python worker waits, and the other way round. A reader of one long log has
no other task beside it that would use the processor meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")


class _End:
    """What the thread says last: that there are no more items, or why not."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Producer(Generic[T]):
    """The thread that makes items, at most ``most`` more than were taken."""

    def __init__(self, items: Generator[T, None, None], most: int) -> None:
        self._items = items
        self._made: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._places = threading.Semaphore(most)
        self._is_left = False
        self._thread = threading.Thread(target=self._make, name="flip27-read-ahead", daemon=True)
        self._thread.start()

    def next(self) -> T | _End:
        item = self._made.get()
        self._places.release()
        return item

    def leave(self) -> None:
        """No more items are wanted; the thread ends behind the item that it makes."""
        self._is_left = True
        self._places.release()

    def wait(self) -> None:
        self._thread.join()

    def _make(self) -> None:
        try:
            with closing(self._items) as items:
                while self._places.acquire() and not self._is_left:
                    self._made.put(next(items))
        except StopIteration:
            self._made.put(_End(None))
        except BaseException as error:  # noqa: BLE001 - raised where the items are used
            self._made.put(_End(error))


def read_ahead(
    items: Generator[T, None, None], *, interrupt: Callable[[], None], most: int = 2
) -> Iterator[T]:
    """The same items in the same order, and at the end the same error.

    A thread runs the generator. It has ended when the iteration ends, in whichever way.

    Args:
        interrupt: called if the iteration is left early; makes an item that is waited for fail soon.
        most: items that are made and not yet taken.
    """
    producer = _Producer(items, most)
    item: T | _End | None = None
    try:
        while not isinstance(item := producer.next(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        if not isinstance(item, _End):
            producer.leave()
            interrupt()
        producer.wait()
