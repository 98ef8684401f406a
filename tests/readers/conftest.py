"""Files that are read by Spark too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.readers.spark_reading import Compared


@pytest.fixture
def csv(spark: SparkSession, tmp_path: Path) -> Compared:
    return Compared(spark=spark, format="csv", path=tmp_path / "a.csv")


@pytest.fixture
def json(spark: SparkSession, tmp_path: Path) -> Compared:
    return Compared(spark=spark, format="json", path=tmp_path / "a.json")
