"""The error of pace of a replay: how much later than its time in the replay a row reaches the sink.

``python -m benchmarks.replay --minutes 120 --speed 60`` writes Parquet files of one second each for two
sources, replays them in one query and one group, and prints how late their rows come, in milliseconds. A file
is due when its last row is. The clock of the replay is not known outside: the row that comes earliest is the
one that is on time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SOURCES = ("orders", "payments")
BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def given_by(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay")
    parser.add_argument("--minutes", type=int, default=120, help="of event time")
    parser.add_argument("--speed", type=float, default=60)
    parser.add_argument("--every", type=int, default=6, help="seconds of event time between two files")
    parser.add_argument("--trigger", help="interval of the trigger, such as '1 second'; default: none")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Replay the files, and print one JSON object."""
    from pyspark.sql import SparkSession

    given = given_by(words)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        found = error_of_pace(spark, Path(folder), given)
    spark.stop()
    print(
        json.dumps(
            {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **vars(given)} | found, indent=1
        )
    )
    return 0


def error_of_pace(spark: Any, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """How late the rows of each source came."""
    starts_s = range(0, given.minutes * 60, given.every)
    streams = []
    for name in SOURCES:
        write_files(folder / name, starts_s)
        options = {
            "reader": "parquet", "uid": name, "stateLocation": f"{folder}/checkpoint/flip27",
            "eventTimeOrder": "true", "eventTimeColumn": "at", "alignmentGroup": "replay",
            "replaySpeed": str(given.speed),
        }  # fmt: skip
        reader = spark.readStream.format("flip27").options(**options)
        streams.append(reader.schema("at timestamp, source string").load(str(folder / name)))
    # The first batch of a session takes longer.
    spark.read.format("flip27").options(reader="parquet").load(str(folder / name)).count()
    arrived: list[tuple[str, float, float]] = []

    def arrive(frame: Any, _number: int) -> None:
        rows = frame.collect()
        now_s = time.monotonic()
        arrived.extend((row.source, row.at.timestamp() - BEGIN.timestamp(), now_s) for row in rows)

    union = streams[0].union(streams[1])
    writer = union.writeStream.foreachBatch(arrive).option("checkpointLocation", f"{folder}/checkpoint")
    writer = writer.trigger(processingTime=given.trigger) if given.trigger else writer
    query = writer.start()
    expected = 2 * len(starts_s) * len(SOURCES)
    while len(arrived) < expected and query.isActive:
        time.sleep(0.1)
    batches = query.lastProgress.batchId + 1
    query.stop()
    late_s = [(source, at_s, now_s - (at_s // 1 + 0.999) / given.speed) for source, at_s, now_s in arrived]
    on_time_s = min(late for _, _, late in late_s)
    found: dict[str, Any] = {"batches": batches}
    for name in SOURCES:
        late_ms = sorted(round(1000 * (late - on_time_s)) for source, _, late in late_s if source == name)
        found[name] = {
            "rows": len(late_ms), "median_ms": statistics.median(late_ms),
            "95%_ms": late_ms[len(late_ms) * 95 // 100], "max_ms": late_ms[-1],
        }  # fmt: skip
    return found


def write_files(folder: Path, starts_s: Sequence[int]) -> None:
    """Write a file of two rows for each second: its first and its last millisecond."""
    folder.mkdir()
    for start_s in starts_s:
        at = [BEGIN + dt.timedelta(seconds=start_s + part) for part in (0, 0.999)]
        columns = {"at": pa.array(at, pa.timestamp("us", "UTC")), "source": [folder.name] * 2}
        pq.write_table(pa.table(columns), folder / f"{start_s:06}.parquet")


if __name__ == "__main__":
    raise SystemExit(main())
