"""The processes that Spark starts for a query, found by their command lines."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tests.child_processes import ChildProcess, stat_of

PROGRAMS = {
    "coordinator": "pyspark.sql.streaming.python_streaming_source_runner",
    "planner": "pyspark.daemon pyspark.sql.worker.plan_data_source_read",
    "worker": "pyspark.daemon pyspark.worker",
}


def living(child: ChildProcess, role: str) -> list[int]:
    """The processes of a child's session with this role. A daemon is not counted, only what it has forked."""
    found = {}
    for pid in child.members():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            if PROGRAMS[role] in command.decode(errors="replace"):
                found[pid] = parent_of(pid)
    return [pid for pid, parent in found.items() if role == "coordinator" or parent in found]


def wait_for_one_at_work(child: ChildProcess, role: str, *, most_s: float) -> int | None:
    """Wait for a process that uses the CPU. After ``most_s`` return any with this role, or None."""
    before: dict[int, int] = {pid: _ticks(pid) for pid in living(child, role)}
    deadline = time.monotonic() + most_s
    while time.monotonic() < deadline and child.popen.poll() is None:
        for pid in living(child, role):
            if _ticks(pid) > before.setdefault(pid, 0):
                return pid
        time.sleep(0.01)
    return next(iter(living(child, role)), None)


def parent_of(pid: int) -> int:
    """The parent of a living process."""
    return int(stat_of(pid)[1])


def _ticks(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(stat_of(pid)[11]) + int(stat_of(pid)[12])
    return 0
