"""Streams of partitioned folders have the rows and columns of Spark's own source."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from .streams import Folders, run_files

SCHEMA = "id long, name string, year int, region string"


def test_partition_columns_are_the_same_as_in_sparks_own_source(
    spark: SparkSession, folders: Folders
) -> None:
    rows = [(1, "a", 2025, "eu north"), (2, "b", 2026, "us"), (3, None, 2026, None), (4, "d", 2026, "us")]
    frame = spark.createDataFrame(rows, SCHEMA)
    frame.write.partitionBy("year", "region").json(str(folders.landing))
    run_files(spark, folders, reader="json", schema=SCHEMA)
    found = spark.read.schema(SCHEMA).parquet(str(folders.lake))
    expected = spark.read.schema(SCHEMA).json(str(folders.landing))
    assert_df_equality(found, expected, ignore_row_order=True)
    assert found.count() == 4
