"""A Python process that is killed with everything that it has started, and that never outlives its parent.

It leads its own session. It reads its standard input: a line is a command; the end of the input means that
the parent is dead, and the process kills its process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def tell(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()

    def kill(self) -> None:
        """SIGKILL the process group: driver, JVM and coordinator die at once.

        The workers of PySpark's daemons lead their own groups and end when the JVM is gone.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def obey_parent(on_line: Callable[[str], None]) -> None:
    """In a child: pass each line of standard input to ``on_line``; die with the parent."""

    def listen() -> None:
        for line in sys.stdin:
            on_line(line.rstrip("\n"))
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=listen, name="parent", daemon=True).start()


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
