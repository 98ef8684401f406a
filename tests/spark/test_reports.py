"""Reports on real Spark: what needs and what shows them, and what happens if tasks do not reach their end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from flip27_source.spark.versions import PASSES_LIMITS
from tests.s3_server import S3Bucket
from tests.soak.shapes import TALKING, Places, Talking
from tests.spark.jvm import jvm_of
from tests.spark_features import needs

from .audited_soak import assert_exact
from .streams import ENDING, Folders, each_batch, file_stream, lake_lines, run_to_end, to_lake, wait_for

COUNTERS = {"counters": "8", "rows": "100", "maxRowsPerSplit": "50"}


def talkative(spark: SparkSession, state: str | None, **options: str) -> DataFrame:
    """Return a stream of the soak test's source, whose enumerator and readers exchange counted events."""
    given = TALKING | COUNTERS | ENDING | options
    reader = spark.readStream.format("flip27").options(**given, parallelism=2)
    return (reader if state is None else reader.option("stateLocation", state)).load()


@pytest.mark.long
def test_reports_on_an_object_store_keep_events_and_pages_exact(
    spark: SparkSession, tmp_path: Path, s3_bucket: S3Bucket
) -> None:
    frame = talkative(spark, f"s3://{s3_bucket.name}/state", **s3_bucket.options)
    run_to_end(to_lake(frame, Folders(tmp_path)))
    assert_exact(Talking(Places(root=tmp_path, state=tmp_path), COUNTERS).count(0))
    assert s3_bucket.file_system.glob(f"{s3_bucket.name}/state/*/reports/*.json")


@pytest.mark.slow
def test_a_batch_that_two_actions_read_delivers_its_events_once(
    spark: SparkSession, folders: Folders
) -> None:
    """The second action runs the tasks again as attempt 0: they read what the first tasks reported."""

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.count()
        batch.write.mode("overwrite").parquet(str(folders.lake / f"batch={batch_id}"))

    run_to_end(each_batch(talkative(spark, str(folders.state)), folders, write))
    rows = spark.read.parquet(str(folders.lake)).collect()
    audits = [row.words for row in rows if row.split == "audit"]
    assert len(audits) == 1
    assert audits[0].endswith("anomalies=0")
    numbers = sorted((row.split, row.number) for row in rows if row.split != "audit")
    assert numbers == [(f"counter-{c}", n) for c in range(8) for n in range(100)]


def test_a_batch_that_was_not_read_to_its_end_stops_the_query_or_is_repeated_by_policy_R6(
    spark: SparkSession, folders: Folders
) -> None:
    def start(write: Any, **options: str) -> Any:
        frame = talkative(
            spark, str(folders.state), pageMs="20", rows="2000", maxRowsPerSplit="2000", **options
        )
        return each_batch(frame, folders, write)

    with pytest.raises(StreamingQueryException, match="has not written its report"):
        run_to_end(start(lambda batch, _: batch.limit(1).collect()))
    seen: list[int] = []
    query = start(lambda batch, _: seen.append(batch.count()), onMissingReport="repeat")
    wait_for(lambda: len(seen) >= 1, query)
    query.stop()
    assert seen[0] == 8 * 2000


def test_a_source_with_events_can_be_read_as_a_batch(spark: SparkSession) -> None:
    frame = spark.read.format("flip27").options(**TALKING, **COUNTERS).load()
    assert frame.where("split <> 'audit'").count() == 800


@needs("in `latestOffset` of progress events")
def test_the_numbers_reported_by_tasks_are_in_the_progress_of_the_query(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.txt", ["x", "y"])
    frame = file_stream(spark, folders, ends=False, taskReports="always")
    query = to_lake(frame, folders, processingTime="0 seconds")
    wait_for(lambda: lake_lines(spark, folders) == ["x", "y"] if folders.lake.exists() else False, query)
    folders.land("b.txt", ["z"])
    wait_for(
        lambda: any('"lastRows": 2' in str(p.sources[0].latestOffset) for p in query.recentProgress), query
    )
    query.stop()
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [2, 1]


_SUFFIXES = ["WithAdmissionControl", "WithTriggerAvailableNow"] if PASSES_LIMITS else [""]
_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.python"


@pytest.mark.parametrize("suffix", _SUFFIXES)
def test_spark_describes_a_python_source_by_the_address_of_an_object(
    spark: SparkSession, suffix: str
) -> None:
    """``description`` is the result of ``toString``, which this class lacks.

    If this test fails, Spark has begun to name sources.
    """
    kind = jvm_of(spark).java.lang.Class.forName(f"{_PACKAGE}.PythonMicroBatchStream{suffix}")
    (to_string,) = [method for method in kind.getMethods() if method.getName() == "toString"]
    assert to_string.getDeclaringClass().getName() == "java.lang.Object"
