"""Options of Spark's reader that allow more or less than JSON have the same effect as in Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from flip27_source.readers.json_lines.reader import JsonLinesReader
from tests.readers.json_lines.json_documents import VALUES
from tests.readers.schemas.test_inference import by_spark, found_out
from tests.readers.spark_reading import assert_same_as_spark, read_table

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
LINES = [around.replace(b"%s", value) for value in [*VALUES[::11], *ODD] for around in AROUND]
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
SCHEMA = "k int, c %s, z int, _corrupt_record string"


@pytest.mark.parametrize(
    ("kind", "names"), [("string", list(DIALECTS)), ("double", ["leading zeros", "no words"])]
)
def test_lines_are_read_as_spark_reads_them_by_its_options(
    spark: SparkSession, tmp_path: Path, kind: str, names: list[str]
) -> None:
    path, schema = tmp_path / "a.json", SCHEMA % kind
    path.write_bytes(b"\n".join(LINES))
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
