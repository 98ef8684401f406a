"""One Spark process of the disasters, and what it reports about its queries."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tests.child_processes import ChildProcess

DEADLINE_S = 300.0


class ProgramEndedError(AssertionError):
    """The program has ended before it did what was waited for."""


class StuckError(AssertionError):
    """A query makes no progress although the disaster is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The error with which a query ended or failed to start."""

    shape: str
    error: str


class Life:
    """A Spark process that runs some queries.

    Attributes:
        ended: the errors that were not yet judged.
        told: the last event of each kind, by its name.
    """

    def __init__(self, child: ChildProcess, shapes: Iterable[str]) -> None:
        """Listen to a program that runs the queries of ``shapes``; its standard output is a pipe."""
        self.child = child
        self.shapes = list(shapes)
        self.ended: list[Ended] = []
        self.told: dict[str, Any] = {}
        self._alive_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @classmethod
    def start(
        cls,
        *,
        root: Path,
        state: Path,
        shapes: Iterable[str],
        given: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> Self:
        """Start the program of the soak."""
        shapes = list(shapes)
        asked = {
            "root": str(root), "state": str(state), "shapes": shapes,
            "given": dict(given), "settings": dict(settings),
        }  # fmt: skip
        program = "tests.soak.shapes_program"
        return cls(ChildProcess(program, [json.dumps(asked)], log=root / "spark.log", stdout=-1), shapes)

    @property
    def jvm(self) -> int | None:
        """The process id of the JVM; None until the program has reported it."""
        return self.told["started"]["jvm"] if "started" in self.told else None

    def tell(self, command: str) -> None:
        """Send a command to the program; it is lost if the program is dead."""
        try:
            self.child.tell(command)
        except OSError:
            return

    def wait_until_all_are_alive(self, after_s: float) -> None:
        """Wait until each query had a successful trigger that began after this moment.

        Raises:
            StuckError: there is none within the deadline.
        """
        self._wait(lambda: self.all_are_alive(after_s), "make progress")

    def all_are_alive(self, after_s: float) -> bool:
        """Whether each query had a successful trigger that began after this moment."""
        return all(self._alive_at.get(name, 0.0) >= after_s for name in self.shapes)

    def wait_until_all_have_ended(self, most_s: float = DEADLINE_S) -> None:
        """Wait until each query has ended with an error."""
        shapes = set(self.shapes)
        self._wait(lambda: {ended.shape for ended in self.ended} >= shapes, "end with an error", most_s)

    def wait_for_an_error(self, most_s: float) -> None:
        """Wait until another query has ended, for at most this many seconds."""
        with self._changed:
            before = len(self.ended)
            self._changed.wait_for(lambda: len(self.ended) > before, most_s)

    def finish(self, most_s: float) -> bool:
        """Let all queries read to their end; return False if one of them fails repeatedly."""
        self.tell("finish")
        self._wait(lambda: not self.told.keys().isdisjoint(("finished", "failed")), "end", most_s)
        return "finished" in self.told

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group of driver, JVM and coordinators."""
        os.killpg(self.child.popen.pid, number)

    def end(self) -> None:
        """Kill all processes, the driver's group first. On return they are gone."""
        self.child.kill()
        self._listener.join()

    def wait_for_its_processes(self, most_s: float) -> list[int]:
        """Wait until all processes have ended by themselves; return those that have not."""
        deadline = time.monotonic() + most_s
        while (left := self.child.members()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _wait(self, condition: Callable[[], bool], what: str, most_s: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + most_s
        with self._changed:
            while not self._changed.wait_for(condition, 0.2):
                if self.child.popen.poll() is not None:
                    if self._changed.wait_for(condition, 5):
                        return  # what it told last
                    raise ProgramEndedError(f"the program has ended\n{self.child.log_tail(60)}")
                if time.monotonic() > deadline:
                    told = "\n".join(f"{ended.shape}: {ended.error[:2000]}" for ended in self.ended)
                    raise StuckError(
                        f"queries {self.shapes} do not {what}; alive at {self._alive_at}, "
                        f"it is {time.time()}\n{told}\n{self.child.log_tail(60)}"
                    )

    def _listen(self) -> None:
        for line in self.child.stdout:
            if line.startswith(b'{"event"'):
                with self._changed:
                    self._hear(json.loads(line))
                    self._changed.notify_all()

    def _hear(self, told: dict[str, Any]) -> None:
        self.told[told["event"]] = told
        match told["event"]:
            case "alive":
                self._alive_at[told["shape"]] = datetime.fromisoformat(told["at"]).timestamp()
            case "ended":
                self.ended.append(Ended(shape=told["shape"], error=told["error"]))
