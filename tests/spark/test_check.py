"""What ``flip27 check --spark`` finds with a session."""

from __future__ import annotations

import platform

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.cli.check.machine import installed_version
from flip27_source.cli.check.spark import executors, spark_schema
from flip27_source.errors import SchemaError
from flip27_source.schemas.ddl import parse_columns
from flip27_source.source_checks import Status


def test_executors_are_compared_with_the_driver(spark: SparkSession) -> None:
    own = {"flip27-source": installed_version("flip27-source"), "pyarrow": "0.1", "not-there": None}
    found = {item.check.partition(": ")[2]: item for item in executors(spark, own, platform.python_version())}
    assert found["python"].status is Status.OK
    assert found["package flip27-source"].status is Status.OK
    assert found["package pyarrow"].status is Status.WARNING
    assert "but 0.1 on the driver" in found["package pyarrow"].found
    assert found["package not-there"].status is Status.FAILED


def test_spark_parses_schemas_as_the_check_does_without_spark(spark: SparkSession) -> None:
    plain = "c timestamp, d string, e timestamp_ntz, f date, g binary, h decimal, i boolean"
    ddl = f"a long not null, b decimal(10, 2), {plain}"
    assert spark_schema(spark, ddl) == parse_columns(ddl)
    assert spark_schema(spark, "tags array<string>").field("tags").type == pa.list_(pa.string())
    with pytest.raises(SchemaError, match=r"cannot be parsed: .*WRONG"):
        spark_schema(spark, "id wrong")
