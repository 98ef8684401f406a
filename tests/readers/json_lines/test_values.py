"""Each line has the rows that Spark returns for it, however broken it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.values import JsonLineParser
from flip27_source.time_zones import java_zone
from tests.readers.json_lines.json_documents import LINES, LINES_SCHEMA, TYPES, VALUES
from tests.readers.spark_reading import arrow_schema, exact_rows

SURROUNDINGS = [
    b'{"c":%s,"z":7}',
    b'{ "k" : 3 , "c" : %s }',
    b'{"z":[%s],"k":2}',
    b'{"u":%s,"z":8}',
    b'{%s:5,"k":9}',
]


def our_table(lines: list[bytes], ddl: str) -> pa.Table:
    schema = arrow_schema(ddl)
    data_schema = pa.schema([field for field in schema if field.name != "_corrupt_record"])
    parser = JsonLineParser(data_schema, java_zone("UTC"))
    rows, records = [], []
    for line in lines:
        parsed = parser.parse(line)
        found = parsed.rows or ([[None] * len(data_schema)] if parsed.malformed else [])
        rows += found
        records += [line if parsed.malformed else None] * len(found)
    arrays = [*arrays_of_rows(rows, data_schema), pa.array(records, pa.binary())]
    return pa.table(arrays, names=schema.names)


def spark_table(spark: SparkSession, folder: Path, lines: list[bytes], ddl: str) -> pa.Table:
    path = folder / "lines.json"
    path.write_bytes(b"\n" + b"".join(line + b"\n" for line in lines))
    return spark.read.schema(ddl).json(str(path)).coalesce(1).toArrow()


def assert_as_spark(spark: SparkSession, folder: Path, lines: list[bytes], ddl: str) -> None:
    said = exact_rows(spark_table(spark, folder, lines, ddl))
    ours = exact_rows(our_table(lines, ddl))
    assert [pair for pair in zip(ours, said, strict=False) if pair[0] != pair[1]] == []
    assert len(ours) == len(said)


def test_every_value_for_every_type_of_column(spark: SparkSession, tmp_path: Path) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    lines = [
        b"{%s}" % b",".join(b'"c%d":%s' % (number, value) for number in range(len(TYPES))) for value in VALUES
    ]
    assert_as_spark(spark, tmp_path, lines, f"{columns}, _corrupt_record string")


@pytest.mark.parametrize(
    "kind", ["int", "string", "binary", "double", "array<int>", "struct<x:int,y:string>", "map<string,int>"]
)
def test_values_after_a_broken_value_are_read_as_far_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lines = [around.replace(b"%s", value) for value in VALUES for around in SURROUNDINGS]
    assert_as_spark(spark, tmp_path, lines, f"k int, c {kind}, z int, _corrupt_record string")


def test_lines_that_are_not_exactly_one_object_are_read_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert_as_spark(spark, tmp_path, LINES, LINES_SCHEMA)


def test_a_map_keeps_both_entries_of_a_repeated_key() -> None:
    parsed = JsonLineParser(arrow_schema("m map<string,int>"), java_zone("UTC")).parse(b'{"m":{"a":1,"a":2}}')
    assert parsed.rows == [[[(b"a", 1), (b"a", 2)]]]


def test_a_type_that_json_cannot_be_read_as_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"columns of type duration\[us\]"):
        JsonLineParser(pa.schema([("i", pa.duration("us"))]), java_zone("UTC"))
