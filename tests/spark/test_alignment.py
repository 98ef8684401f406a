"""Alignment on Spark: a split that is ahead moves the watermark, and rows of the others are dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.alignment import aligned_by, given_by, joined
from tests.spark.streams import UNTIL_END, run_to_end
from tests.spark_features import needs
from tests.timed_tracks import MINUTE_US

MINUTES = {"dense": 1, "sparse": 10}
"""The minutes between two records of each track; both have those of four hours."""


@needs("`Trigger.AvailableNow`, batch by batch")
@pytest.mark.parametrize(("drift", "is_whole"), [(None, False), ("20 minutes", True)])
def test_a_watermark_that_is_delayed_by_more_than_the_drift_drops_no_row(
    spark: SparkSession, tmp_path: Path, drift: str | None, is_whole: bool
) -> None:
    road = {name: [at * MINUTE_US for at in range(60, 300, step)] for name, step in MINUTES.items()}
    options = {
        "enumerator": "tests.timed_tracks:Tracks", "reader": "tests.timed_tracks:TrackReader",
        "road": json.dumps(road), "maxRowsPerTrigger": "40", "stateLocation": f"{tmp_path}/checkpoint/flip27",
    }  # fmt: skip
    aligned = {} if drift is None else {"maxEventTimeDrift": drift}
    rows = spark.readStream.format("flip27").schema("track string, number long").options(**options, **aligned)
    step = f.when(f.col("track") == "dense", MINUTES["dense"]).otherwise(MINUTES["sparse"])
    timed = rows.load().withColumn("at", f.timestamp_seconds((60 + f.col("number") * step) * 60))
    counts = timed.withWatermark("at", "21 minutes").groupBy(f.window("at", "1 minute"), "track").count()
    writer = counts.writeStream.format("memory").queryName("aligned").outputMode("append")
    query = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(**UNTIL_END).start()
    run_to_end(query)
    dropped = sum(
        one["numRowsDroppedByWatermark"]
        for batch in map(json.loads, (progress.json for progress in query.recentProgress))
        for one in batch["stateOperators"]
    )
    assert (dropped == 0) is is_whole


@pytest.mark.slow
@needs("`Trigger.AvailableNow`, batch by batch")
def test_a_join_of_two_aligned_sources_keeps_less_state_and_the_same_rows(spark: SparkSession) -> None:
    given = given_by(["--hours", "3", "--per-minute", "10", "--batch-minutes", "10", "--drift", "10 minutes"])
    free, aligned = (joined(spark, options, given) for options in ({}, aligned_by(given)))
    assert free["matches"] == aligned["matches"] == 1800
    assert free["largest state"] >= 1800
    assert aligned["largest state"] < 1000
