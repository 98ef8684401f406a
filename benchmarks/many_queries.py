"""Many queries of the files source on one driver: do they all start, and what do they use?

``python -m benchmarks.many_queries --queries 30`` starts them in turn; with ``--at-once 30`` all together.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ROWS_DEADLINE_S = 900.0


def main(words: Sequence[str] | None = None) -> int:
    """Start the queries, wait for their first batch, and print one JSON object; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_queries")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=None, help="by default the cores of the machine")
    parser.add_argument("--attempts", type=int, default=None, help="starts of one query; 1: no second start")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), given.queries, given.at_once, given.attempts, given.conf)
    print(json.dumps(found))
    return int(found["started"] < given.queries)


def measured(
    folder: Path, count: int, at_once: int | None, attempts: int | None, conf: Sequence[str]
) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    from flip27_source import start_in_turn

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    for item in conf:
        builder = builder.config(*item.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    writers = []
    for number in range(count):
        landing = folder / f"landing-{number}"
        landing.mkdir()
        (landing / "a.txt").write_text("one row\n")
        source = spark.readStream.format("flip27").option("enumerator", "files").option("reader", "text")
        stream = source.option("stateLocation", str(folder / f"checkpoint-{number}" / "flip27"))
        writer = stream.load(str(landing)).writeStream.format("noop").trigger(processingTime="5 seconds")
        writers.append(writer.option("checkpointLocation", str(folder / f"checkpoint-{number}")))
    load_before, began = os.getloadavg()[0], time.monotonic()
    more = {} if attempts is None else {"attempts": attempts}
    queries = start_in_turn([writer.start for writer in writers], at_once=at_once, **more)
    started_s = time.monotonic() - began
    while any(query.isActive and not _has_rows(query) for query in queries):
        if time.monotonic() - began > _ROWS_DEADLINE_S:
            break
        time.sleep(0.2)
    errors = [str(query.exception()).strip().splitlines()[0][:200] for query in queries if not query.isActive]
    found = {
        "queries": count,
        "started": sum(query.isActive and _has_rows(query) for query in queries),
        "cores": os.cpu_count(),
        "load_before": round(load_before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "until_started_s": round(started_s, 1),
        "until_all_have_rows_s": round(time.monotonic() - began, 1),
        "mb_of_a_coordinator": _mb("python_streaming_source_runner"),
        "mb_of_planning_workers": _mb("pyspark.daemon"),
        "errors": sorted(set(errors)),
    }
    for query in queries:
        query.stop()
    spark.stop()
    return found


def _has_rows(query: Any) -> bool:
    return any(progress["numInputRows"] for progress in query.recentProgress)


def _mb(words: str) -> dict[str, float]:
    """The number of processes with these words in their command line, and their proportional memory in MB."""
    sizes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if words in (process / "cmdline").read_text().replace("\0", " "):
                rollup = (process / "smaps_rollup").read_text()
                sizes.append(int(rollup.partition("Pss:")[2].split()[0]) / 1024)
        except (OSError, IndexError):
            continue  # ended meanwhile, or of another user
    return {"processes": len(sizes), "mean_mb": round(sum(sizes) / max(1, len(sizes)), 1)}


if __name__ == "__main__":
    raise SystemExit(main())
