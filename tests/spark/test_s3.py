"""Files and state on S3 (a local server of moto), end to end; objects that a queue names."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.file_queues import connect, new_queue
from tests.s3_server import S3Bucket

from .streams import ENDING, Folders, lake_lines, run_to_end, running, to_lake, wait_for


def test_a_stream_finds_objects_by_the_events_of_their_bucket_in_bounded_and_continuous_runs(
    spark: SparkSession, folders: Folders, s3_bucket: S3Bucket
) -> None:
    bucket, queue = s3_bucket, new_queue(s3_bucket)
    connect(bucket, queue, "landing/")

    def stream(**options: Any) -> DataFrame:
        return (
            spark.readStream.format("flip27")
            .options(enumerator="files", reader="text", discovery="notifications", **bucket.options)
            .options(notificationQueues=queue.url, **options)
            .option("stateLocation", f"s3://{bucket.name}/state")
            .load(f"s3://{bucket.name}/landing")
        )

    bucket.file_system.pipe_file(f"{bucket.name}/landing/1.txt", b"1\n")
    run_to_end(to_lake(stream(**ENDING), folders))
    bucket.file_system.pipe_file(f"{bucket.name}/landing/2.txt", b"2\n")
    with running(to_lake(stream(), folders, processingTime="0 seconds")) as query:
        wait_for(lambda: len(lake_lines(spark, folders)) == 2, query)
        bucket.file_system.pipe_file(f"{bucket.name}/landing/3.txt", b"3\n")
        wait_for(lambda: len(lake_lines(spark, folders)) == 3 and queue.left == 0, query)
    assert lake_lines(spark, folders) == ["1", "2", "3"]
