"""A check of how many queries can start at once: Spark's time limit is a constant, so this is measured."""

from __future__ import annotations

import os
import resource
import subprocess
import time

from flip27_source.source_checks import Finding, ok, skipped, warning

from ..tune.bytecode import archives_of, spark_home

CHECK = "start of queries"
GIVES_UP_AFTER_S = 10.0
"""Spark's limit for a source's process to connect; a constant of its code, which no setting changes."""

_IMPORTS = "import pyspark.sql.streaming.python_streaming_source_runner"
_DEADLINE_S = 60
_REMEDY = "start queries with flip27_source.start_in_turn; run flip27 tune if pyspark.zip has no bytecode"


def start_of_queries() -> Finding:
    """Start a process that imports what Spark's process of a source imports before it connects."""
    archives = [str(archive.path) for archive in archives_of(spark_home())]
    path = os.pathsep.join([*archives, *filter(None, [os.environ.get("PYTHONPATH")])])
    before, began = _cpu_s(), time.monotonic()
    try:
        done = subprocess.run(
            [os.environ.get("PYSPARK_PYTHON") or "python3", "-c", _IMPORTS],
            capture_output=True, timeout=_DEADLINE_S, check=False, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return skipped(CHECK, f"the process cannot be measured: {error}")
    if done.returncode:
        return skipped(CHECK, "Spark's Python cannot import pyspark")
    return finding(time.monotonic() - began, _cpu_s() - before, os.cpu_count() or 1)


def finding(took_s: float, cpu_s: float, cores: int) -> Finding:
    """The finding for a process that took this time and used this much of a processor.

    Only the processor's time is judged: the other depends on what else runs at this moment.
    """
    at_once = max(1, int(GIVES_UP_AFTER_S * cores / max(cpu_s, 0.01)))
    said = (
        f"flip27_source.start_in_turn starts any number of queries; without it at most {at_once} queries can "
        f"start at once on {cores} cores, if nothing else uses these: the process of a source imports "
        f"pyspark in {took_s:.1f} s, with {cpu_s:.1f} s of a processor, and Spark gives up after "
        f"{GIVES_UP_AFTER_S:.0f} s"
    )
    return ok(CHECK, said) if cpu_s < GIVES_UP_AFTER_S / 2 else warning(CHECK, said, _REMEDY)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
