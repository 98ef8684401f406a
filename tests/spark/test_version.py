"""The tests run on the requested version of Spark."""

from __future__ import annotations

import os

import pyspark
from pyspark.sql import SparkSession


def test_python_and_jvm_have_the_requested_version(spark: SparkSession) -> None:
    wanted = os.environ.get("FLIP27_TEST_SPARK_VERSION", pyspark.__version__)
    assert (pyspark.__version__, spark.version) == (wanted, wanted)
