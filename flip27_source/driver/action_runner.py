"""ActionRunner: performs pending actions on threads; their outcomes wait in a mailbox."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import kept_text

THREADS = 8
"""An action is mostly a single request to a file system or a service."""


class ActionRunner:
    """Performs actions in the background. Once closed, it starts no further action."""

    def __init__(self, perform: Callable[[Any], None], threads: int = THREADS) -> None:
        self._perform = perform
        self._threads = threads
        self._started: list[threading.Thread] = []
        self._due: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._ended: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()
        self._closed = threading.Event()

    def submit(self, actions: Iterable[tuple[int, Any]]) -> None:
        """Queue these actions; they are performed in any order."""
        for item in actions:
            self._due.put(item)
            if len(self._started) < self._threads:
                # Daemon threads: the process exits without waiting for them; actions are idempotent.
                thread = threading.Thread(target=self._run, name="flip27-action", daemon=True)
                self._started.append(thread)
                thread.start()

    def drain(self) -> list[tuple[int, str | None]]:
        """The actions that have ended since the last call: number, and error if the action failed."""
        return [self._ended.get() for _ in range(self._ended.qsize())]

    def wait(self) -> None:
        """Block until every action that was submitted has ended."""
        self._due.join()

    def close(self) -> None:
        """Start no further action; running actions end by themselves."""
        self._closed.set()

    def end(self) -> list[tuple[int, str | None]]:
        """Start no further action, block until running actions have ended, and return :meth:`drain`."""
        self.close()
        for _ in self._started:
            self._due.put((0, None))  # wakes a waiting thread
        for thread in self._started:
            thread.join()
        return self.drain()

    def _run(self) -> None:
        while True:
            number, action = self._due.get()
            if self._closed.is_set():
                return
            self._ended.put((number, self._outcome(action)))
            self._due.task_done()

    def _outcome(self, action: Any) -> str | None:
        """Perform an action; return its error if it fails."""
        try:
            self._perform(action)
        except Exception as error:  # noqa: BLE001 - stored with the action, shown and retried
            return kept_text(error)
        return None
