"""A trigger longer than the minute after which Spark ends idle Python workers."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from .streams import Folders, committed_batches, file_stream, lake_lines, running, to_lake, wait_for

INTERVAL = "61 seconds"


@pytest.mark.long
def test_a_query_that_sleeps_for_a_minute_continues(spark: SparkSession, folders: Folders) -> None:
    folders.land("a.txt", ["1"])
    with running(to_lake(file_stream(spark, folders), folders, processingTime=INTERVAL)) as query:
        wait_for(lambda: committed_batches(folders) == [0], query)
        folders.land("b.txt", ["2"])
        wait_for(lambda: committed_batches(folders) == [0, 1], query, deadline_s=150.0)
    assert lake_lines(spark, folders) == ["1", "2"]
