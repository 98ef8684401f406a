"""Memory and processor time of a Spark application, seen from its driver. Linux only; elsewhere unknown."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .rounds import CpuSeconds, Memory

_EVERY_S = 0.25
_ROLES = (
    ("jvm", "org.apache.spark.deploy.SparkSubmit"),
    ("coordinator", "python_streaming_source_runner"),
    ("worker", "pyspark.daemon"),
)
"""A text in the command line of each kind of process. Forked workers have the daemon's command line."""


@dataclass(slots=True)
class _Seen:
    """A process: its processor seconds at the first and the last reading, and its peak memory."""

    role: str
    first_s: float
    last_s: float
    peak_kb: int


class UsageWatch:
    """Adds up what the processes of a session use while the block runs.

    The kernel records peak memory and processor time of a process. Both are read four times a second; what
    a process uses after the last reading is lost.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._sample(new_since_start=False)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def memory(self) -> Memory:
        """The highest peak of each kind of process."""
        peaks: dict[str, int] = {}
        for seen in self._seen.values():
            peaks[seen.role] = max(peaks.get(seen.role, 0), seen.peak_kb // 1024)
        return Memory(**peaks)

    def cpu(self) -> CpuSeconds:
        """The processor time of each kind of process, summed over its processes."""
        used: dict[str, float] = {}
        for seen in self._seen.values():
            used[seen.role] = used.get(seen.role, 0.0) + seen.last_s - seen.first_s
        return CpuSeconds(**{role: round(seconds, 2) for role, seconds in used.items()})

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_EVERY_S)
            self._sample(new_since_start=True)

    def _sample(self, *, new_since_start: bool) -> None:
        session = os.getsid(0)
        for pid in _processes_of(session):
            with contextlib.suppress(OSError):
                self._sample_process(pid, new_since_start=new_since_start)

    def _sample_process(self, pid: int, *, new_since_start: bool) -> None:
        used_s, peak = _processor_seconds(pid), peak_kb(pid) or 0
        seen = self._seen.get(pid)
        if seen is not None:
            seen.last_s, seen.peak_kb = used_s, peak
            return
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        for role, mark in _ROLES:
            if mark in command:
                first_s = 0.0 if new_since_start else used_s
                self._seen[pid] = _Seen(role, first_s, used_s, peak)
                return


def _processes_of(session: int) -> list[int]:
    found = []
    if Path("/proc/self/status").exists():
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and os.getsid(int(entry)) == session:
                    found.append(int(entry))
    return found


def _processor_seconds(pid: int) -> float:
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def peak_kb(pid: int | None = None) -> int | None:
    """The peak resident memory of a process, or of this one if none is given."""
    return _status_kb("VmHWM", pid)


def resident_kb() -> int | None:
    """The current resident memory of this process."""
    return _status_kb("VmRSS", None)


def _status_kb(name: str, pid: int | None) -> int | None:
    status = Path(f"/proc/{pid or 'self'}/status")
    if not status.exists():
        return None
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return None
