"""Processes of a simulated machine, which can be killed, suspended and continued at any disk call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from flip27_source.testing.steps import Killed


class Disturber(Protocol):
    """Decides what happens to a process at a call; raises OSError or Killed."""

    def disturb(self, process: Process, call: str, path: str) -> None: ...


class Process:
    """The process of a driver, or of one attempt of a task.

    Attributes:
        is_driver: whether the query ends with it.
        signs_of_life: names of the renewal files that it has tried to write, whether or not they exist.
        is_dead: killed, or stopped for good: its calls no longer have an effect.
    """

    def __init__(self, name: str, disturber: Disturber, *, is_driver: bool) -> None:
        self.name = name
        self.is_driver = is_driver
        self.is_dead = False
        self.signs_of_life: set[str] = set()
        self._disturber = disturber

    def __repr__(self) -> str:
        return self.name

    def kill(self) -> None:
        """SIGKILL: the clean-up code of the process no longer has an effect."""
        self.is_dead = True

    def gate(self, call: str, path: str) -> None:
        """Called before each call of its disk, its store, or its landing folder.

        Raises:
            Killed: the process is dead, or is killed here.
            OSError: the call fails.
        """
        thread = threading.current_thread()
        if isinstance(thread, SuspendedCall):
            thread.pass_by()
        if self.is_dead:
            raise Killed(f"{call} of {self.name}, which is dead")
        self._disturber.disturb(self, call, path)


class SuspendedCall(threading.Thread):
    """Work that is suspended in the middle, as by SIGSTOP. It and the other code never run at the same time.

    Args:
        after_calls: number of the disk call before which the work is suspended.
        is_of_a_thread: whether it is a thread of a driver, which ends when the query is stopped.
    """

    def __init__(self, work: Callable[[], Any], after_calls: int, *, is_of_a_thread: bool = False) -> None:
        super().__init__(name="flip27-simulated", daemon=True)
        self._work = work
        self._left = after_calls
        self._handed_over = threading.Event()
        self._resumed = threading.Event()
        self.is_stopped = False
        self.is_of_a_thread = is_of_a_thread
        self.result: Any = None
        self.error: BaseException | None = None

    def begin(self) -> bool:
        """Run until the work is suspended or has ended; True if it was suspended."""
        self.start()
        self._handed_over.wait()
        return self.is_stopped

    def resume(self) -> None:
        """Continue as by SIGCONT, to the end."""
        self._handed_over.clear()
        self._resumed.set()
        self._handed_over.wait()
        self.join()

    def pass_by(self) -> None:
        """Count a disk call; suspend the work at call number ``after_calls``."""
        self._left -= 1
        if self._left == 0:
            self.is_stopped = True
            self._handed_over.set()
            self._resumed.wait()
            self.is_stopped = False

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001 - kept for the caller of begin
            self.error = error
        finally:
            self._handed_over.set()
