"""JSON files that are one document each, compared with Spark's reader."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import SplitReadError
from flip27_source.readers.json_lines.reader import JsonLinesReader
from tests.readers.schemas.test_inference import by_spark, found_out
from tests.readers.spark_reading import read_batches, read_table, split_of

DOCUMENTS = {
    "object": '{\n  "id": 1,\n  "o": {\n    "x": [1,\n 2]}}\n',
    "array": '[\n  {"id": 2},\n  {"id": 3, "o": {"x": []}}\n]',
    "empty array": "[\n]",
    "two documents": '{"id": 4}\n{"id": 5}',
    "cut off": '{\n "id": 6,\n "o": ',
    "text": '"x"',
    "blank": " \n\n",
    "misfit": '{"id":\n "many", "o": {"x": [7]}}',
    "byte order mark": '\ufeff{"id": 8}',
    "carriage returns": '{"id":\r\n 9}\r\n',
    "empty": "",
}
SCHEMA = "id long, o struct<x: array<long>>, _corrupt_record string"


def test_documents_give_the_rows_that_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    for name, text in DOCUMENTS.items():
        (tmp_path / name).write_text(text, newline="")
    theirs = spark.read.schema(SCHEMA).option("multiLine", "true").json(str(tmp_path)).collect()
    paths = [tmp_path / name for name in DOCUMENTS]
    ours = read_table(JsonLinesReader(), paths, SCHEMA, {"multiLine": "true"})
    assert sorted(map(str, ours.to_pylist())) == sorted(str(row.asDict(recursive=True)) for row in theirs)


def test_documents_give_the_schema_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("object", "array", "two documents"):
        (tmp_path / name).write_text(DOCUMENTS[name])
    theirs = spark.read.option("multiLine", "true").json(str(tmp_path))
    assert found_out(tmp_path, "json", {"multiLine": "true"}) == by_spark(theirs)


def test_a_compressed_document_is_read_and_a_malformed_one_fails_by_mode(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(DOCUMENTS["array"].encode()))
    (tmp_path / "b.json").write_text(DOCUMENTS["cut off"])
    options = {"multiLine": "true", "mode": "FAILFAST"}
    schema = pa.schema([("id", pa.int64())])
    (batch,) = read_batches(JsonLinesReader(), [split_of(tmp_path / "a.json.gz")], schema, options)
    assert batch.column(0).to_pylist() == [2, 3]
    with pytest.raises(SplitReadError, match=r"/b.json, byte 0: the line is malformed"):
        read_batches(JsonLinesReader(), [split_of(tmp_path / "b.json")], schema, options)


def test_any_number_of_comments_may_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("// c\n" * 100_000 + '{"id": ' + "/* c */" * 100_000 + "1}")
    options = {"multiLine": "true", "allowComments": "true"}
    schema = pa.schema([("id", pa.int64())])
    assert read_table(JsonLinesReader(), [tmp_path / "a"], schema, options).to_pylist() == [{"id": 1}]
