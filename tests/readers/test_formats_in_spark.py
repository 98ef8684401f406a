"""File readers in Spark queries: the schema and the rows that Spark gets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession

from tests.readers.formats import WRITERS


def flip27(spark: SparkSession, reader: str) -> DataFrameReader:
    return spark.read.format("flip27").option("enumerator", "files").option("reader", reader)


@pytest.mark.parametrize("reader", ["avro", "orc", "arrow", "feather"])
def test_other_formats_are_read_by_name(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    WRITERS["arrow" if reader == "feather" else reader](pa.table({"id": [0, 1, 2]}), tmp_path / "a")
    rows = flip27(spark, reader).schema("id long, missing string").load(str(tmp_path)).collect()
    assert sorted(rows) == [(0, None), (1, None), (2, None)]


@pytest.mark.parametrize("reader", ["text", "binary"])
def test_metadata_is_part_of_a_default_schema(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    frame = flip27(spark, reader).option("includeMetadata", "true").load(str(tmp_path))
    [row] = frame.select("_metadata.file_name", "_metadata.file_size").collect()
    assert row == ("a.txt", 2)


def test_metadata_is_a_column_of_a_given_schema(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text('{"id": 1}\n')
    schema = "id long, _metadata struct<file_name: string>"
    frame = flip27(spark, "json").option("includeMetadata", "true").schema(schema).load(str(tmp_path))
    assert sorted(frame.select("id", "_metadata.file_name").collect()) == [(1, "a"), (1, "b")]


def test_an_option_that_only_sparks_reader_supports_is_named_and_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = flip27(spark, "json").option("locale", "de-DE").schema("id long")
    with pytest.raises(PySparkException, match="supported by Spark's reader, not by flip27"):
        frame.load(str(tmp_path)).collect()
