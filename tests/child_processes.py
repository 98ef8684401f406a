"""Processes of tests and benchmarks: those of the demo, and nothing of them is left when ``kill`` returns."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO

from flip27_source.cli.demo.process import ChildProcess as DemoProcess

FINISH = "finish"
"""The command that tells a child to finish its work."""

_KILL_DEADLINE_S = 20.0


class ChildProcess(DemoProcess):
    """A Python module that runs in its own process and session; it dies with its parent (``obey_parent``)."""

    @property
    def stdout(self) -> IO[bytes]:
        """The child's standard output, which is a pipe."""
        assert self.popen.stdout is not None
        return self.popen.stdout

    def members(self) -> list[int]:
        """Every living process of the child's session, itself included."""
        self.popen.poll()
        return [pid for pid in living_processes() if session_of(pid) == self.popen.pid]

    def kill(self) -> None:
        """SIGKILL the child, and the workers that PySpark's daemons have put into groups of their own."""
        super().kill()
        deadline = time.monotonic() + _KILL_DEADLINE_S
        while members := self.members():
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {members} still exist after SIGKILL")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def living_processes() -> Iterator[int]:
    """The ids of all processes except zombies."""
    if Path("/proc/self/stat").exists():
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and stat_of(entry)[0] not in "ZX":
                    yield int(entry)
        return
    listing = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        pid, state = line.split()[:2]
        if not state.startswith("Z"):
            yield int(pid)


def stat_of(pid: int | str) -> list[str]:
    """The fields of ``/proc/<pid>/stat`` from the state on."""
    # The name of the program, in brackets before the state, may contain any character.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def session_of(pid: int) -> int | None:
    """The session of a process; None if it has ended."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


@contextlib.contextmanager
def termination_raises() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the block by an exception, as Ctrl-C does, so that children are killed."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
