"""Lines, however broken, and documents have the rows of Spark's reader, also with options that allow more."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.readers.json_lines.arrays import arrays_of_rows
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.json_lines.values import JsonLineParser
from flip27_source.time_zones import java_zone
from tests.readers.json_lines.json_documents import LINES, LINES_SCHEMA, TYPES, VALUES
from tests.readers.schemas.test_inference import by_spark, found_out
from tests.readers.spark_reading import (
    arrow_schema,
    assert_same_as_spark,
    exact_rows,
    read_batches,
    read_table,
    split_of,
)

AROUND = [
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


def assert_as_spark(spark: SparkSession, folder: Path, lines: list[bytes], ddl: str) -> None:
    path = folder / "lines.json"
    path.write_bytes(b"\n" + b"".join(line + b"\n" for line in lines))
    said = exact_rows(spark.read.schema(ddl).json(str(path)).coalesce(1).toArrow())
    ours = exact_rows(our_table(lines, ddl))
    assert [pair for pair in zip(ours, said, strict=False) if pair[0] != pair[1]] == []
    assert len(ours) == len(said)


def test_every_value_for_every_type_of_column(spark: SparkSession, tmp_path: Path) -> None:
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    lines = [b"{%s}" % b",".join(b'"c%d":%s' % (n, value) for n in range(len(TYPES))) for value in VALUES]
    assert_as_spark(spark, tmp_path, lines, f"{columns}, _corrupt_record string")


@pytest.mark.parametrize(
    "kind", ["int", "string", "binary", "double", "array<int>", "struct<x:int,y:string>", "map<string,int>"]
)
def test_values_after_a_broken_value_are_read_as_far_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lines = [around.replace(b"%s", value) for value in VALUES for around in AROUND]
    assert_as_spark(spark, tmp_path, lines, f"k int, c {kind}, z int, _corrupt_record string")


def test_lines_that_are_not_exactly_one_object_are_read_as_in_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert_as_spark(spark, tmp_path, LINES, LINES_SCHEMA)


def test_a_map_keeps_both_entries_of_a_repeated_key() -> None:
    parsed = JsonLineParser(arrow_schema("m map<string,int>"), java_zone("UTC")).parse(b'{"m":{"a":1,"a":2}}')
    assert parsed.rows == [[[(b"a", 1), (b"a", 2)]]]


NOT_BY_NAME = pa.map_(pa.int32(), pa.string())


@pytest.mark.parametrize("around", [pa.list_, lambda kind: pa.struct({"a": kind}), lambda kind: kind])
@pytest.mark.parametrize("kind", [pa.duration("us"), NOT_BY_NAME], ids=str)
def test_a_type_that_json_cannot_be_read_as_is_refused(
    kind: pa.DataType, around: Callable[[pa.DataType], pa.DataType]
) -> None:
    with pytest.raises(SchemaError, match=re.escape(f"columns of type {kind} cannot be read from JSON")):
        JsonLineParser(pa.schema({"i": around(kind)}), java_zone("UTC"))


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
    with pytest.raises(SplitReadError, match=r"/b.json, byte 0: the record is malformed"):
        read_batches(JsonLinesReader(), [split_of(tmp_path / "b.json")], schema, options)


def test_any_number_of_comments_may_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("// c\n" * 100_000 + '{"id": ' + "/* c */" * 100_000 + "1}")
    options = {"multiLine": "true", "allowComments": "true"}
    schema = pa.schema([("id", pa.int64())])
    assert read_table(JsonLinesReader(), [tmp_path / "a"], schema, options).to_pylist() == [{"id": 1}]


ODD = [
    b"/*c*/1", b"1/*c*/", b"/**/ 1 /* } , */", b"/*", b"/*/", b"/*\xff*/1", b"/x/1", b"1//c", b"//c",
    b"/*\xc3\xa9*/1",
    b"007", b"-007", b"00", b"-00", b"00.5", b"01e2", b"0x1", b"000", b"-0012.50", b"0-1", b"00]",
    b"[007, 08]", b"{'a\tb':1}",
    b'"\\q"', b'"\\\xc3\xa9x"', b'"\\\xf0\x9f\x98\x80"', b'"\\\xff"', b'"\\\\q"', b'"a\\', b'"\\u12"',
    b'"\\\'"',
    b'"\ttab"', b'"\x00\x1f"', b"'\t'", b'"\x0b\xc3\xa9"', b"'x'", b"'x\\'y'", b"'\\\"'", b"''",
    b"NaN", b"-Infinity", b"+INF", b"Infinity", b'"NaN"', b'"-INF"', b"[NaN, 1]", b'{"x":NaN}', b"Infinit",
    b"{x:1}", b"{x :'y'}", b"{$x-y+z@#*:1}", b"{1x:1}", b"{'x':1}", b"{x", b"{x:", b"{-:1}", b"{.x:1}",
    b"{\xc3\xa9:1}",
    b"{\xff:1}", b"{x.y:1}", b"{x\ty:1}", b'{"a\tb":1}', b"{/*c*/x/*d*/:/*e*/1/*f*/}", b"[1/*c*/,/*d*/2]",
]  # fmt: skip
AROUND = [
    b'{"c":%s,"z":7}', b'{"z":[%s],"k":2}', b'{"u":%s,"k":8}', b'{%s:5,"k":9}', b'{k:1,c:%s,z:2}',
    b"{'k':1,'c':%s}",
    b'{"k":1,"c":%s}//', b'/* */{"c":%s /* */ , "k":3}', b'{"k\t":1,"c":%s,"k":4}',
]  # fmt: skip
ODD_LINES = [around.replace(b"%s", value) for value in [*VALUES[::11], *ODD] for around in AROUND]
DIALECTS: dict[str, dict[str, str]] = {
    "comments": {"allowComments": "true"},
    "unquoted names": {"allowUnquotedFieldNames": "true"},
    "no single quotes": {"allowSingleQuotes": "false"},
    "leading zeros": {"allowNumericLeadingZeros": "true"},
    "no words": {"allowNonNumericNumbers": "false"},
    "any escape": {"allowBackslashEscapingAnyCharacter": "true"},
    "control characters": {"allowUnquotedControlChars": "true"},
}
DIALECTS["all that is more"] = {
    name: "true" for options in DIALECTS.values() for name, given in options.items() if given == "true"
}
ODD_SCHEMA = "k int, c %s, z int, _corrupt_record string"


@pytest.mark.parametrize(
    ("kind", "names"), [("string", list(DIALECTS)), ("double", ["leading zeros", "no words"])]
)
def test_lines_are_read_as_spark_reads_them_by_its_options(
    spark: SparkSession, tmp_path: Path, kind: str, names: list[str]
) -> None:
    path, schema = tmp_path / "a.json", ODD_SCHEMA % kind
    path.write_bytes(b"\n".join(ODD_LINES))
    for name in names:
        assert_same_as_spark(spark, "json", path, schema, DIALECTS[name])


def test_the_options_apply_to_inferred_schemas_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{k: 007, /* c */ 'n': NaN}\n{'k': 1}\n{\"t\": \"\\q\"}\n")
    for options in ({}, DIALECTS["no single quotes"], DIALECTS["all that is more"]):
        frame = spark.read.options(**options).json(str(tmp_path))
        assert found_out(tmp_path, "json", options) == by_spark(frame)


@pytest.mark.usefixtures("spark")
def test_words_for_numbers_are_malformed_in_unread_fields_too(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"k":1}\n{"k":2,"u":NaN}\n{"k":3}\n')
    options = {"allowNonNumericNumbers": "false", "mode": "DROPMALFORMED"}
    rows = read_table(JsonLinesReader(), [path], "k int", options)
    assert rows.column("k").to_pylist() == [1, 3]
    assert rows.schema.field("k").type == pa.int32()
