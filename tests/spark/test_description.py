"""Why the name of a source is in ``latestOffset`` of a progress event, and not in ``description``."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.python"


@pytest.mark.parametrize(
    "name", ["PythonMicroBatchStreamWithAdmissionControl", "PythonMicroBatchStreamWithTriggerAvailableNow"]
)
def test_spark_describes_a_python_source_by_the_address_of_an_object(spark: SparkSession, name: str) -> None:
    """``description`` is ``toString`` of this class, which has none. When this fails, Spark names sources."""
    kind = spark._jvm.java.lang.Class.forName(f"{_PACKAGE}.{name}")  # type: ignore[union-attr]
    (to_string,) = [method for method in kind.getMethods() if method.getName() == "toString"]
    assert to_string.getDeclaringClass().getName() == "java.lang.Object"
