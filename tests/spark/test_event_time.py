"""A backlog of files behind a watermark of Spark, which drops late rows: a benchmark in short."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.event_time import compared, given_by, write_files
from tests.spark_features import needs

BACKLOG = {"files": 6, "days": 2, "hours": 48, "files-per-trigger": 1, "rows": 20}
"""Files of 48 hours, one every 8 hours and in each batch: with a watermark of an hour, rows are late."""


@needs("`Trigger.AvailableNow`, batch by batch")
def test_spark_drops_late_rows_and_none_in_event_time_order_with_the_delay_that_is_computed(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = given_by([f"--{name}={value}" for name, value in BACKLOG.items()])
    write_files(tmp_path / "in", given)
    lost = {name: found["lost"] for name, found in compared(spark, tmp_path, given).items()}
    assert lost["order of arrival"] > lost["event-time order"] > 0
    assert lost["event-time order, its delay"] == lost["buckets of an hour"] == 0
