"""Batches that size themselves: how many take about the target, beside a fixed limit.

``python -m benchmarks.batch_size --target 5 --batches 30`` reads a sequence into a fast sink, a slow one, and
one that becomes three times as slow half-way. A batch is near the target if it takes 0.7 to 1.3 times that.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FIRST_BATCHES = 5
"""Batches that may still be far from the target."""

SINKS: dict[str, Callable[[float], float]] = {
    "fast": lambda _: 0.0,
    "slow": lambda _: 1.0,
    "slower half-way": lambda part: 1.0 if part < 0.5 else 3.0,
}
"""The relative cost of a row, by the part of the run that is over."""


def main(words: Sequence[str] | None = None) -> int:
    """Run every sink with a target and with a fixed limit, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch_size")
    parser.add_argument("--target", type=float, default=5.0, help="seconds")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--fixed", type=int, default=100_000, help="the fixed limit, in rows")
    parser.add_argument("--row-us", type=float, default=5.0, help="the cost of a row of the slow sink")
    given = parser.parse_args(words)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Any] = {"target_s": given.target, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    limits = ({"targetBatchDuration": f"{given.target} s"}, {"maxRowsPerTrigger": str(given.fixed)})
    for (name, cost), limit in itertools.product(SINKS.items(), limits):
        durations = measured(spark, limit, cost, given.row_us, given.batches)
        near = [0.7 <= duration / given.target <= 1.3 for duration in durations[FIRST_BATCHES:]]
        found[f"{name}, {next(iter(limit))}"] = {
            "near": round(sum(near) / len(near), 2),
            "seconds": [round(duration, 1) for duration in durations],
        }
    spark.stop()
    print(json.dumps(found, indent=1))
    return 0


def measured(
    spark: Any, limit: dict[str, str], cost: Callable[[float], float], row_us: float, batches: int
) -> list[float]:
    """The durations of batches, in seconds; a row costs ``row_us`` microseconds times ``cost``."""
    ended, done = threading.Event(), 0

    def sink(frame: Any, _: int) -> None:
        nonlocal done
        time.sleep(frame.count() * cost(done / batches) * row_us / 1e6)
        done += 1
        if done > batches:
            ended.set()

    with tempfile.TemporaryDirectory() as folder:
        source = spark.readStream.format("flip27").option("enumerator", "sequence").options(**limit)
        source = source.option("rowsPerSplit", str(10**9))  # no limit of its own
        stream = source.option("stateLocation", str(Path(folder) / "flip27")).load()
        writer = stream.writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
        while not ended.wait(0.2) and query.isActive:
            pass
        if error := query.exception():
            raise error
        durations = [progress["batchDuration"] / 1000 for progress in query.recentProgress]
        query.stop()
    return durations[:batches]


if __name__ == "__main__":
    raise SystemExit(main())
