"""Spark's own objects behind those of PySpark."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: SparkSession) -> Any:
    """The classes of the session's JVM, as attributes by their packages."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return jvm


def query_execution(frame: DataFrame) -> Any:
    """How Spark plans and runs a frame."""
    return frame._jdf.queryExecution()  # type: ignore[operator]
