"""What ``flip27 check --spark`` finds with a session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.cli.check.executors import executors
from flip27_source.cli.check.on_executor import ExecutorTask
from flip27_source.cli.check.spark import spark_schema
from flip27_source.errors import SchemaError
from flip27_source.schemas.ddl import parse_columns
from flip27_source.source_checks import Finding, Status


def test_every_executor_is_compared_with_the_driver_and_looks_at_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"enumerator": "files", "reader": "text", "path": str(tmp_path)}
    task = ExecutorTask(options=options, folder="probe", state=str(tmp_path), token=b"1", needs_state=True)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "driver").write_bytes(b"1")

    def found(sees: bool) -> dict[str, Finding]:
        own: dict[str, str | None] = {"pyarrow": "0.1", "pyspark": spark.version, "not_there": None}
        findings = executors(spark, task, own, 60.0, lambda _executor: sees)
        return {item.check.rpartition(": ")[2]: item for item in findings}

    findings = found(sees=True)
    assert findings["executors"].found.startswith("1: ")
    for check in ("python", "flip27-source", "package pyspark", "clock", "source", "state location"):
        assert findings[check].status is Status.OK, check
    assert findings["package pyarrow"].status is Status.WARNING
    assert "but 0.1 on the driver" in findings["package pyarrow"].found
    assert findings["package not_there"].status is Status.FAILED
    assert "does not see a file that was written there" in found(sees=False)["state location"].found


def test_spark_parses_schemas_as_the_check_does_without_spark(spark: SparkSession) -> None:
    plain = "c timestamp, d string, e timestamp_ntz, f date, g binary, h decimal, i boolean"
    ddl = f"a long not null, b decimal(10, 2), {plain}"
    assert spark_schema(spark, ddl) == parse_columns(ddl)
    assert spark_schema(spark, "tags array<string>").field("tags").type == pa.list_(pa.string())
    with pytest.raises(SchemaError, match=r"cannot be parsed: .*WRONG"):
        spark_schema(spark, "id wrong")
