"""BackgroundRunner and ActionRunner: an enumerator's asynchronous work and its actions, on threads.

Results wait in a mailbox until the coordinator's thread collects them.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..coordination.context import Handler
from ..enumerator_context import RetryPolicy
from ..errors import is_final, kept_text
from ..log import LOG

Deliver = Callable[[Handler, Any, BaseException | None], None]

MOST_UNDELIVERED = 1000
"""Maximum number of results in the mailbox; while it is reached, no further round starts."""
ACTION_THREADS = 8
"""An action is mostly a single request to a file system or a service."""


def _in_context() -> Callable[..., Any]:
    """Calls a function so that its records of the log have the ids of the caller's (``log.about``)."""
    return contextvars.copy_context().run


class BackgroundRunner:
    """One daemon thread for each call; rounds of one call never overlap."""

    def __init__(self) -> None:
        self._mailbox: queue.SimpleQueue[tuple[Handler, Any, BaseException | None, bool]] = (
            queue.SimpleQueue()
        )
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._first_rounds = 0
        self._undelivered = 0

    def submit(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        """Start to run ``work``, once or every ``period_s`` seconds."""
        self._undelivered += 1
        with self._changed:
            self._first_rounds += 1
        arguments = (self._run, work, handler, period_s, retry)
        threading.Thread(target=_in_context(), args=arguments, name="flip27-async", daemon=True).start()

    def repeat(self, work: Callable[[], object], period_s: float) -> None:
        """Run ``work`` every ``period_s`` seconds and drop its result; an error is logged and retried."""

        def rounds() -> None:
            error: BaseException | None = None
            while not self._closed.wait(period_s) and (error is None or isinstance(error, Exception)):
                _, error = self._round(work, RetryPolicy())
                if isinstance(error, Exception):
                    LOG.warning(
                        "background work failed and is tried again in %.1f s: %s", period_s, kept_text(error)
                    )

        threading.Thread(target=_in_context(), args=(rounds,), name="flip27-async", daemon=True).start()

    def drain(self, deliver: Deliver) -> None:
        """Pass the results that are in the mailbox now to ``deliver``, in order of arrival.

        Results that arrive in the meantime wait for the next call; otherwise work with a short period could
        keep this loop running for ever.
        """
        try:
            for _ in range(self._mailbox.qsize()):
                handler, result, error, is_first = self._mailbox.get()
                self._undelivered -= is_first
                deliver(handler, result, error)
        finally:
            with self._changed:
                self._changed.notify_all()

    @property
    def in_first_rounds(self) -> bool:
        """Whether the result of the first round of any work has not been drained."""
        return self._undelivered > 0

    def wait_for_first_rounds(self) -> None:
        """Block until the first round of all work has ended and its result is in the mailbox."""
        with self._changed:
            self._changed.wait_for(lambda: self._first_rounds == 0 or self._closed.is_set())

    def close(self) -> None:
        """Start no further round; running work ends by itself."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def _run(
        self, work: Callable[[], Any], handler: Handler, period_s: float | None, retry: RetryPolicy
    ) -> None:
        first = True
        while not self._closed.is_set():
            result, error = self._round(work, retry)
            self._mailbox.put((handler, result, error, first))
            if first:
                first = False
                with self._changed:
                    self._first_rounds -= 1
                    self._changed.notify_all()
            if error is not None or period_s is None or self._closed.wait(period_s):
                return
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Block while the mailbox is full: it is not emptied during a long batch, and memory is limited."""
        with self._changed:
            self._changed.wait_for(lambda: self._mailbox.qsize() < MOST_UNDELIVERED or self._closed.is_set())

    def _round(self, work: Callable[[], Any], retry: RetryPolicy) -> tuple[Any, BaseException | None]:
        failures = 0
        while True:
            try:
                return work(), None
            except BaseException as error:  # noqa: BLE001 - returned, not swallowed; a thread has no caller
                failures += 1
                if failures > retry.retries or is_final(error):
                    return None, error
                pause_s = retry.pause_s(failures)
                LOG.warning(
                    "asynchronous work failed (%d of %d) and is tried again in %.1f s: %s",
                    failures, retry.retries + 1, pause_s, kept_text(error),
                )  # fmt: skip
                if self._closed.wait(pause_s):
                    return None, error


class ActionRunner:
    """Performs actions in the background. Once closed, it starts no further action."""

    def __init__(self, perform: Callable[[Any], None], threads: int = ACTION_THREADS) -> None:
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
                thread = threading.Thread(
                    target=_in_context(), args=(self._run,), name="flip27-action", daemon=True
                )
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
