"""Processes that never outlive their parent: the demo and the benchmarks run Spark in them.

A child leads its own session, so that everything it starts (the JVM, Python workers, their children) can be
found and killed. It reads its standard input: a line is a command; the end of the input means that the
parent is dead, and the child kills its process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Self

FINISH = "finish"
"""The command that tells a child to finish its work."""

_KILL_DEADLINE_S = 20.0


class ChildProcess:
    """A Python module that runs in its own process and session.

    Args:
        module: what ``python -m`` runs.
        arguments: its command line.
        log: the file to which its standard output and error are appended.
        stdout: another target for standard output, such as ``subprocess.PIPE``.
    """

    def __init__(
        self, module: str, arguments: Iterable[str], *, log: Path, stdout: int | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=file if stdout is None else stdout,
                stderr=file,
                env=spark_environment(),
                start_new_session=True,
            )

    def tell(self, line: str) -> None:
        """Send one line to the child."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()

    @property
    def stdout(self) -> IO[bytes]:
        """The child's standard output, which is a pipe."""
        assert self.popen.stdout is not None
        return self.popen.stdout

    def members(self) -> list[int]:
        """Every living process of the child's session, itself included."""
        self.popen.poll()
        return [pid for pid in living_processes() if _session_of(pid) == self.popen.pid]

    def kill(self) -> None:
        """SIGKILL the child and all processes that it started; on return they no longer exist.

        Driver, JVM and coordinator are one process group and die at once; the groups that PySpark's
        daemons create for their workers follow.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        deadline = time.monotonic() + _KILL_DEADLINE_S
        while members := self.members():
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {members} still exist after SIGKILL")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def living_processes() -> Iterator[int]:
    """The ids of all processes except zombies."""
    if Path("/proc/self/stat").exists():
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and _linux_state(entry) not in "ZX":
                    yield int(entry)
        return
    listing = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        pid, state = line.split()[:2]
        if not state.startswith("Z"):
            yield int(pid)


def _linux_state(pid: str) -> str:
    # The name of the program, in brackets before the state, may contain any character.
    return (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    )


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def spark_environment() -> dict[str, str]:
    """This environment, changed so that Spark stays on this machine and its workers run this Python.

    PYSPARK_PYTHON is a name and not a path: Spark looks it up with an unquoted ``command -v``,
    which fails if the path contains a blank.
    """
    python = Path(sys.executable)
    return {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": python.name,
        "PYSPARK_DRIVER_PYTHON": python.name,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def obey_parent(on_line: Callable[[str], None]) -> None:
    """In a child: pass each line of standard input to ``on_line``; die with the parent."""

    def listen() -> None:
        for line in sys.stdin:
            on_line(line.rstrip("\n"))
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=listen, name="parent", daemon=True).start()


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
