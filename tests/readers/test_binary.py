"""The binary reader returns the same as ``spark.read.format("binaryFile")``."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.binary import BinaryReader
from tests.readers.spark_reading import arrow_schema, as_dataframe, read_batches, read_table, split_of

SCHEMA = "path string, modificationTime timestamp, length long, content binary"


def test_rows_equal_those_of_spark_including_path_and_time(spark: SparkSession, tmp_path: Path) -> None:
    contents = {"a b.bin": b"\x00\xff", "b%20c.gz": gzip.compress(b"x"), "empty": b"", "c": bytes(10)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    os.utime(tmp_path / "c", ns=(0, 1_700_000_000_123_456_789))
    paths = [tmp_path / name for name in contents]
    ours = as_dataframe(spark, read_table(BinaryReader(), paths, SCHEMA), SCHEMA)
    theirs = spark.read.format("binaryFile").load(str(tmp_path))
    assert_df_equality(ours, theirs, ignore_row_order=True)
    assert arrow_schema(theirs.schema) == BinaryReader.default_schema(Options.parse({}, ()))


def test_columns_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert read_table(BinaryReader(), [tmp_path / "a"], "length long, content binary").to_pylist() == [
        {"length": 3, "content": b"abc"}
    ]
    assert read_table(BinaryReader(), [tmp_path / "a"], "length long").to_pylist() == [{"length": 3}]


def test_small_files_share_batches_and_large_files_do_not(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 20), ("c", 17 << 20), ("d", 30)):
        (tmp_path / name).write_bytes(bytes(size))
    splits = [split_of(tmp_path / name) for name in "abcd"]
    batches = read_batches(BinaryReader(), splits, arrow_schema(SCHEMA))
    assert [batch["length"].to_pylist() for batch in batches] == [[10, 20], [17 << 20], [30]]


def test_other_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="does not have a column size of type int64"):
        read_batches(BinaryReader(), [], arrow_schema("size long"))


def test_a_file_larger_than_any_value_is_refused_before_it_is_read(tmp_path: Path) -> None:
    huge = FileSplit(path=str(tmp_path / "none"), length=1 << 31, modified_us=0)
    with pytest.raises(SplitReadError, match="has more than 2147483647 bytes, the maximum for one value"):
        read_batches(BinaryReader(), [huge], arrow_schema(SCHEMA))
