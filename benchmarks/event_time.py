"""A backlog behind a watermark: the rows that Spark drops as late, in each order of the files.

``python -m benchmarks.event_time --files 2000`` writes Parquet files of a year in random order of arrival,
and counts their rows in windows of an hour: with Spark's own source, with ours in order of arrival, and with
ours in event-time order. ``--hours 12`` makes files of 12 hours each, which need a longer delay: they are
then also read with the delay that the source has computed, and hour by hour with ``eventTimeBucket``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

SCHEMA = "at timestamp, id long"
WAYS = ("spark", "arrival", "order")
"""Spark's own source; ours in the order of arrival; and in event-time order."""


def given_by(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_time")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=20, help="rows of a file")
    parser.add_argument(
        "--hours", type=float, default=1.0, help="the time between its first and its last row"
    )
    parser.add_argument("--days", type=int, default=365, help="the time of all files")
    parser.add_argument("--files-per-trigger", type=int, help="default: 100, or so many that 40 batches do")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="default: all")
    parser.add_argument(
        "--footers", choices=("local", "s3"), help="only find the times in footers, on disk or on moto's S3"
    )
    given = parser.parse_args(words)
    given.files_per_trigger = given.files_per_trigger or max(100, -(-given.files // 40))
    return given


def main(words: Sequence[str] | None = None) -> int:
    """Read the files in every way, and print one JSON object."""
    given = given_by(words)
    if given.footers:
        from benchmarks.footers import LATENCY_MS, measured

        print(json.dumps(vars(given) | {"latency_ms": LATENCY_MS} | measured(write_files, given), indent=1))
        return 0
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    # Spark's source packs files into tasks by their sizes: by default only 32 small ones.
    spark.conf.set("spark.sql.files.openCostInBytes", "65536")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder, "in"), given)
        found = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **vars(given)}
        if "spark" in given.ways:
            # With a cache of all files, Spark's source does not list them again for every second batch.
            own = limit_of(given) | {"maxCachedFiles": str(given.files)}
            found["Spark's source"] = lost_of(spark, "parquet", own, Path(folder), "1 hour", given)
        print(json.dumps(found | compared(spark, Path(folder), given), indent=1))
    spark.stop()
    return 0


def compared(spark: Any, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The lost rows and the seconds of each way in which our source reads the files."""
    ours = limit_of(given) | {"enumerator": "files", "reader": "parquet"}
    in_order = ours | {"eventTimeOrder": "true", "eventTimeColumn": "at"}
    found = {}
    if "arrival" in given.ways:
        found["order of arrival"] = lost_of(spark, "flip27", ours, folder, "1 hour", given)
    if "order" not in given.ways:
        return found
    found["event-time order"] = lost_of(spark, "flip27", in_order, folder, "1 hour", given)
    needed_ms = found["event-time order"]["smallest_delay_ms"]
    if needed_ms > 3_600_000:
        delay = f"{needed_ms} milliseconds"
        found["event-time order, its delay"] = lost_of(spark, "flip27", in_order, folder, delay, given)
        # Each bucket of a file counts as a file.
        files = round(given.files_per_trigger * given.hours)
        cut = in_order | {"eventTimeBucket": "1h", "maxFilesPerTrigger": str(files)}
        found["buckets of an hour"] = lost_of(spark, "flip27", cut, folder, "1 hour", given)
    return found


def limit_of(given: argparse.Namespace) -> dict[str, str]:
    return {"maxFilesPerTrigger": str(given.files_per_trigger)}


def write_files(folder: Path, given: argparse.Namespace, kind: str = "parquet") -> None:
    """Write files whose times are spread over the days, and which arrived in random order."""
    folder.mkdir()
    chance, files, rows = random.Random(given.seed), given.files, given.rows
    arrivals = list(range(files))
    chance.shuffle(arrivals)
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    # A file is all of an hour, and several files may be of the same one.
    starts_s = [number * given.days * 24 // files * 3600 for number in range(files)]
    now_s = int(time.time())
    for number, start_s in enumerate(starts_s):
        seconds = sorted(chance.uniform(0, given.hours * 3600 - 0.001) for _ in range(rows))
        at = pa.array([begin + dt.timedelta(seconds=start_s + s) for s in seconds], pa.timestamp("us", "UTC"))
        path = folder / f"{number:06}.{kind}"
        table = pa.table({"at": at, "id": pa.array([number] * rows, pa.int64())})
        pq.write_table(table, path) if kind == "parquet" else orc.write_table(table, path)
        os.utime(path, (now_s - arrivals[number], now_s - arrivals[number]))


def lost_of(
    spark: Any, source: str, options: dict[str, str], folder: Path, delay: str, given: argparse.Namespace
) -> dict[str, Any]:
    """Count the rows in windows of an hour, and return how many of them are in none."""
    from pyspark.sql import functions as f

    started_s = time.monotonic()
    checkpoint = tempfile.mkdtemp(dir=folder)
    state = {"stateLocation": f"{checkpoint}/flip27"} if source == "flip27" else {}
    stream = spark.readStream.format(source).schema(SCHEMA).options(**options, **state)
    rows = stream.load(str(folder / "in"))
    counts = rows.withWatermark("at", delay).groupBy(f.window("at", "1 hour")).count()
    writer = counts.writeStream.format("memory").queryName("counts").outputMode("update")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    newest = spark.table("counts").groupBy("window").agg(f.max("count").alias("count"))
    counted = newest.agg(f.sum("count"), f.count("count")).first()
    all_rows = given.files * given.rows
    found = {"lost": all_rows - counted[0], "of": all_rows, "windows": counted[1]}
    if "eventTimeOrder" in options:
        ends = (json.loads(batch.json)["sources"][0]["endOffset"] for batch in query.recentProgress)
        found["smallest_delay_ms"] = max(end["summary"]["smallestWatermarkDelayMs"] for end in ends)
    return found | {"seconds": round(time.monotonic() - started_s, 1)}


if __name__ == "__main__":
    raise SystemExit(main())
