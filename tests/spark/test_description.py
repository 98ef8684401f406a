"""Why a source's name is in ``latestOffset`` of a progress event instead of ``description``."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.jvm import jvm_of

_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.python"


@pytest.mark.parametrize(
    "name", ["PythonMicroBatchStreamWithAdmissionControl", "PythonMicroBatchStreamWithTriggerAvailableNow"]
)
def test_spark_describes_a_python_source_by_the_address_of_an_object(spark: SparkSession, name: str) -> None:
    """``description`` is the result of ``toString``, which this class lacks.

    If this test fails, Spark has begun to name sources.
    """
    kind = jvm_of(spark).java.lang.Class.forName(f"{_PACKAGE}.{name}")
    (to_string,) = [method for method in kind.getMethods() if method.getName() == "toString"]
    assert to_string.getDeclaringClass().getName() == "java.lang.Object"
