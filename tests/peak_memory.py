"""The peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def peak_mib() -> int:
    """Peak resident memory in MiB.

    ``ru_maxrss`` cannot be used: it starts at the peak of the process that started this one.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in status if line.startswith("VmHWM:"))
    return int(kib) >> 10
