"""Reads CSV content with Spark and with our reader, and compares every row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

from flip27_source.readers.csv_lines.reader import CsvLinesReader
from tests.readers.spark_reading import as_dataframe, read_table


def assert_csv_same_as_spark(
    spark: SparkSession,
    path: Path,
    content: bytes,
    schema: str,
    options: Mapping[str, str] | None = None,
    time_zone: str = "UTC",
) -> DataFrame:
    """Check that our rows of ``content`` are Spark's, in the same order; return them for further checks."""
    path.write_bytes(content)
    spark.conf.set("spark.sql.session.timeZone", time_zone)
    ours = as_dataframe(spark, read_table(CsvLinesReader(), [path], schema, options, time_zone), schema)
    theirs = spark.read.schema(schema).options(**(options or {})).csv(str(path))
    assert ours.schema == theirs.schema
    our_rows, their_rows = _comparable(ours).collect(), _comparable(theirs).collect()
    assert len(our_rows) == len(their_rows)
    # Only the first rows that differ, which would be hard to find in whole tables.
    differences = [pair for pair in zip(our_rows, their_rows, strict=True) if pair[0] != pair[1]]
    assert differences[:5] == []
    return ours


def _comparable(frame: DataFrame) -> DataFrame:
    """The rows in a form that Python compares exactly: it has no years after 9999, and -0.0 equals 0.0."""
    columns = []
    for field in frame.schema:
        name = f"`{field.name}`"
        if isinstance(field.dataType, TimestampType):
            columns.append(f"unix_micros({name}) as {name}")
        elif isinstance(field.dataType, NumericType | DateType | TimestampNTZType):
            columns.append(f"cast({name} as string) as {name}")
        else:
            columns.append(name)
    return frame.selectExpr(*columns)
