"""Inferred schemas, compared with those that Spark infers from the same files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from flip27_source.enumerators.files.enumerator import FilesEnumerator
from flip27_source.errors import OptionError, SchemaError
from flip27_source.readers.json_lines.reader import JsonLinesReader
from flip27_source.readers.schemas.merging import hinted
from flip27_source.schemas.ddl import columns_text, parse_columns
from flip27_source.schemas.source_schema import schema_of
from flip27_source.source import Source
from tests.readers.spark_reading import read_table


def found_out(folder: Path | str, reader: str, options: Mapping[str, str] | None = None) -> str:
    """The inferred schema, as Spark writes it."""
    source = Source.resolve(
        {"path": str(folder), "reader": reader, "timeZone": "UTC", **(options or {})},
        enumerator=FilesEnumerator,
    )
    return from_arrow_schema(schema_of(source), prefer_timestamp_ntz=True).simpleString()


def by_spark(frame: DataFrame) -> str:
    return frame.schema.simpleString()


def write_lines(folder: Path, *files: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for number, lines in enumerate(files):
        (folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


FIELDS: dict[str, list[str]] = {
    "text": ['"x"'],
    "empty text": ['""'],
    "whole": ["1", "-2"],
    "fraction": ["1.5"],
    "truth": ["true", "false"],
    "nothing": ["null"],
    "whole and fraction": ["1", "2.5"],
    "number and text": ["1", '"x"'],
    "truth and number": ["true", "1"],
    "beyond long": ["12345678901234567890"],
    "longs and beyond": ["1", "12345678901234567890", "12345678901234567890123"],
    "beyond decimal": ["1" * 40],
    "beyond and fraction": ["12345678901234567890", "1.5"],
    "objects": ['{"b": 1, "a": 2, "B2": {"z": 1, "y": 2}}', '{"b": {"c": "x"}}', "null"],
    "object and text": ['{"a": 1}', '"x"'],
    "object and array": ['{"a": 1}', "[1]"],
    "array": ["[1, 2.5]", "[]"],
    "array of nothing": ["[null]"],
    "empty array": ["[]"],
    "array of arrays": ["[[1], []]"],
    "array of objects": ['[{"x": 1}, {"y": 2}]'],
    "array of all": ['[1, "x", {"a": 1}]'],
    "empty object": ["{}"],
    "object with empty object": ['{"c": {}}'],
    "single quotes": ["'x'"],
    "not a number": ["NaN", "-Infinity"],
    "time": ['"2026-01-01T00:00:00Z"'],
    "day": ['"2026-01-01"'],
    "text of a number": ['"12.50"'],
    "exponent": ["1.5e-3"],
}
"""The values of each field in successive lines."""


def json_lines(*, without: str = "") -> list[str]:
    """Lines with one field for each case in FIELDS."""
    fields = {name: values for name, values in FIELDS.items() if name != without}
    return [
        "{" + ", ".join(f'"{name}": {values[n]}' for name, values in fields.items() if n < len(values)) + "}"
        for n in range(max(map(len, fields.values())))
    ]


ROOTS = {
    "a number of too many digits": ['{"a": ' + "1" * 1001 + "}", '{"b": 1}'],
    "half a surrogate pair in a name": [r'{"\ud800": 1}', r'{"b\ud83d\ude00": 1}'],
    "a number of many digits": ['{"a": ' + "1" * 1000 + "}", '{"b": "' + "2" * 2000 + '"}'],
    "a top array": ['[{"a": 1}, {"b": "x"}]', '{"c": 1}'],
    "blank lines": ["", '{"a": 1}', "  "],
    "malformed": ['{"a": 1}', '{"a": ', "nothing"],
    "a text for a row": ['{"a": 1}', '"x"'],
    "more after the object": ['{"a": 1} {"b": 2}'],
}


@pytest.mark.parametrize("kind", ROOTS)
def test_json_lines_have_the_schema_that_spark_finds(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = write_lines(tmp_path / "in", ROOTS[kind])
    assert found_out(folder, "json") == by_spark(spark.read.json(str(folder)))


TWICE = r"in/1\.txt: an object has the field a twice"
CASE = "the fields {} of the JSON lines differ only in case"
REFUSED = {
    "twice, of one type": (['{"z": 1}'], ['{"a": 1, "a": 2}', '{"a": 3}'], TWICE),
    "twice, in a later line": (['{"z": 1}'], ['{"a": 3}', '{"a": 1, "a": 2.5}'], TWICE),
    "twice, once null": (['{"z": 1}'], ['{"a": 1, "a": null}'], TWICE),
    "twice, structs": (['{"z": 1}'], ['{"a": {"x": 1}, "a": {"y": 2}}'], TWICE),
    "twice, inside a struct": (['{"z": 1}'], ['{"s": {"a": 1, "a": true}}'], TWICE),
    "twice, inside an array": (['{"z": 1}'], ['{"s": [{"b": 1}, {"a": 1, "a": 2}]}'], TWICE),
    "twice, in single quotes": (['{"z": 1}'], ["{'a': 1, 'a': 2}"], TWICE),
    "different case": (['{"id": 1}'], ['{"ID": "x"}'], CASE.format("ID and id")),
    "different case in a struct": (['{"s": {"k": 1, "K": 2}}'], [], CASE.format(r"s\.K and s\.k")),
    "different case in an array": (
        ['{"s": [[{"x": {"k": 1, "K": 2}}]]}'], [], CASE.format(r"s\.x\.K and s\.x\.k"),
    ),
}  # fmt: skip
"""The lines of two files, and what the error says."""


@pytest.mark.parametrize("kind", REFUSED)
def test_fields_of_the_same_name_are_refused_as_by_spark(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    first, second, said = REFUSED[kind]
    folder = write_lines(tmp_path / "in", first, second)
    with pytest.raises(AnalysisException, match="COLUMN_ALREADY_EXISTS"):
        spark.read.json(str(folder))
    with pytest.raises(SchemaError, match=said):
        found_out(folder, "json")


def test_with_a_given_schema_a_field_that_occurs_twice_in_one_object_has_its_last_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_lines(tmp_path / "in", ['{"a": 1, "a": 2}', '{"a": 1, "a": null}'])
    theirs = spark.read.schema("a long").json(str(folder)).collect()
    ours = read_table(JsonLinesReader(), [folder / "0.txt"], "a long")["a"].to_pylist()
    assert ours == [row.a for row in theirs] == [2, None]


def test_nested_names_that_differ_only_in_case_are_refused_where_spark_loses_a_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_lines(tmp_path / "in", ['{"s": {"k": 1}}', '{"s": {"K": 2}}'])
    values = [row.s[0] for row in spark.read.json(str(folder)).collect()]
    assert values.count(None) == 1
    with pytest.raises(SchemaError, match=r"the fields s\.K and s\.k of the JSON lines differ only in case"):
        found_out(folder, "json")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"primitivesAsString": "true", "dropFieldIfAllNull": "true"},
        {"prefersDecimal": "true", "inferTimestamp": "true"},
        {"mode": "DROPMALFORMED", "columnNameOfCorruptRecord": "bad"},
        {"columnNameOfCorruptRecord": "bad"},
    ],
    ids=str,
)
def test_json_fields_have_the_types_that_spark_finds(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    # With prefersDecimal, a line with NaN is malformed to Spark.
    lines = json_lines(without="not a number" if "prefersDecimal" in options else "")
    folder = write_lines(tmp_path / "in", [*lines, *(['{"broken'] if "bad" in options.values() else [])])
    theirs = spark.read.options(**options).json(str(folder))
    assert found_out(folder, "json", options) == by_spark(theirs)


CSV = {
    "integers": ["1", "-2", "+3"],
    "long": ["1", "3000000000"],
    "beyond long": ["1", "12345678901234567890"],
    "beyond decimal": ["1" * 40],
    "fractions": ["1", "2.5"],
    "exponents": ["1e5", "2"],
    "words for numbers": ["NaN", "1.5", "Inf"],
    "thousands": ['"1,000"'],
    "thousands and numbers": ['"1,000"', "2"],
    "large and small": ["12345678901234567890", "2"],
    "letters behind numbers": ["1d", "2.5f"],
    "dates": ["2026-01-01", "2026-1-2"],
    "dates and times": ["2026-01-01", "2026-01-01T10:00:00"],
    "times": ["2026-01-01 10:00:00", "2026-01-01T10:00:00Z"],
    "times and dates": ["2026-01-01T10:00:00", "2026-01-01"],
    "booleans": ["true", "FALSE"],
    "booleans and numbers": ["true", "1"],
    "numbers and booleans": ["1", "true"],
    "numbers and texts": ["1", "x"],
    "numbers and dates": ["1", "2026-01-01"],
    "years": ["2026", "2026-05"],
    "nothing": ["", '""'],
    "gaps": ["1", '""', "2"],
    "blanks around": [" 1", "2 "],
}


@pytest.mark.parametrize(
    "options",
    [{"inferSchema": "true"}, {"inferSchema": "true", "preferDate": "false"}, {"inferSchema": "false"}, {}],
    ids=str,
)
def test_csv_columns_have_the_types_that_spark_infers(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    """There is one column for each case. Fields without a text do not influence its type."""
    lines = [",".join(values) for values in zip_longest(*CSV.values(), fillvalue="")]
    folder = write_lines(tmp_path / "in", [f"x,{line}" for line in lines])
    theirs = spark.read.options(**options).csv(str(folder))
    ours = found_out(folder, "csv", options)
    assert dict(zip(CSV, _types(ours)[1:], strict=True)) == dict(
        zip(CSV, _types(by_spark(theirs))[1:], strict=True)
    )


def _types(schema: str) -> list[str]:
    return re.findall(r"_c\d+:(.+?)(?=,_c\d+:|>$)", schema)


@pytest.mark.parametrize("header", ["id,,name", 'a,A,"a b",a'])
def test_csv_columns_have_the_names_that_spark_gives_them(
    spark: SparkSession, tmp_path: Path, header: str
) -> None:
    folder = write_lines(tmp_path / "in", ["#x,y", header, "1,2,3", "#z", "4,5"])
    options = {"header": "true", "inferSchema": "true", "comment": "#"}
    assert found_out(folder, "csv", options) == by_spark(spark.read.options(**options).csv(str(folder)))


def test_csv_files_with_columns_at_different_positions_are_refused(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", ["id,name", "1,x"], ["id,name,age", "2,y,3"])
    assert found_out(folder, "csv", {"header": "true"}) == "struct<id:string,name:string,age:string>"
    write_lines(folder, ["id,name", "1,x"], ["name,id", "y,2"])
    with pytest.raises(SchemaError, match=r"column 1 is called name in .*/1.txt and id in .*/0.txt"):
        found_out(folder, "csv", {"header": "true"})


def land(spark: SparkSession, folder: Path, name: str, query: str) -> None:
    spark.sql(query).coalesce(1).write.format(name).mode("append").save(str(folder))


ALL_TYPES = """
select true as b, 1Y as i8, 2S as i16, 3 as i32, 4L as i64, 1.5F as f, 2.5D as d, 1.25 as dec, 'x' as s,
  X'01' as bin, date'2026-01-01' as day, timestamp'2026-01-01 00:00:00' as ts,
  array(1, 2) as list, map('a', 1L) as m, named_struct('x', 1, 'y', array('z')) as o
"""


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_columnar_files_written_by_spark_have_the_schema_that_spark_finds(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    land(spark, tmp_path / "in", name, ALL_TYPES + ", timestamp_ntz'2026-01-01 00:00:00' as ntz")
    theirs = spark.read.format(name).load(str(tmp_path / "in"))
    assert found_out(tmp_path / "in", name) == by_spark(theirs)


TIMES = """struct(timestamp'2026-01-01 00:00:00' as ts, timestamp_ntz'2026-01-01 00:00:00' as ntz) as s,
  timestamp'2026-01-01 00:00:00' as `a.b`, struct(timestamp_ntz'2026-01-01 00:00:00' as x) as a,
  map(timestamp'2026-01-01 00:00:00', timestamp_ntz'2026-01-01 00:00:00') as m"""


def test_int96_timestamps_are_instants_and_other_timestamps_keep_their_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    kind = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(kind, "INT96")
    try:
        land(spark, tmp_path / "in", "parquet", f"select {TIMES}, 1 as i")
    finally:
        spark.conf.unset(kind)
    theirs = spark.read.parquet(str(tmp_path / "in"))
    assert found_out(tmp_path / "in", "parquet") == by_spark(theirs)
    assert "a.b:timestamp,a:struct<x:timestamp_ntz>,m:map<timestamp,timestamp_ntz>" in by_spark(theirs)


def test_intervals_and_variants_in_parquet_files_are_inferred_as_they_are_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    shredding = "spark.sql.variant.writeShredding.enabled"
    spark.conf.set(shredding, "false")
    try:
        intervals = "interval '1-2' year to month as ym, interval '1 2' day to hour as dt"
        land(spark, tmp_path / "spark", "parquet", f"select {intervals}, parse_json('1') as v")
    finally:
        spark.conf.unset(shredding)
    found = found_out(tmp_path / "spark", "parquet")
    assert found == "struct<ym:int,dt:bigint,v:struct<value:binary,metadata:binary>>"
    for name in ("duckdb", "pyarrow"):
        (tmp_path / name).mkdir()
    duckdb.sql(f"copy (select interval 1 month as i) to '{tmp_path}/duckdb/a.parquet'")
    assert found_out(tmp_path / "duckdb", "parquet") == "struct<i:binary>"
    pq.write_table(pa.table({"i": pa.array([1], pa.duration("us"))}), tmp_path / "pyarrow" / "a.parquet")
    with pytest.raises(SchemaError, match=r"column i: Spark has no type for duration\[us\]"):
        found_out(tmp_path / "pyarrow", "parquet")


def test_a_parquet_column_of_the_null_type_is_an_int_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"id": [1], "n": pa.nulls(1), "s": [{"x": None, "y": [None]}]})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    theirs = spark.read.parquet(str(tmp_path / "in"))
    assert found_out(tmp_path / "in", "parquet") == by_spark(theirs)
    assert by_spark(theirs) == "struct<id:bigint,n:int,s:struct<x:int,y:array<int>>>"


def test_a_column_of_the_null_type_takes_its_type_from_other_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.nulls(1), "s": [{"x": None}]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": ["text"], "s": [{"x": 1.5}]}), tmp_path / "b.parquet")
    assert found_out(tmp_path, "parquet") == "struct<n:string,s:struct<x:double>>"


def test_an_arrow_column_of_the_null_type_is_a_string(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"n": pa.nulls(1)}), tmp_path / "a.arrow")
    assert found_out(tmp_path, "arrow") == "struct<n:string>"


def test_files_of_other_writers_have_types_that_spark_knows(tmp_path: Path) -> None:
    table = pa.table(
        {
            "u8": pa.array([1], pa.uint8()),
            "u64": pa.array([1], pa.uint64()),
            "word": pa.array(["a"]).dictionary_encode(),
            "large": pa.array(["a"], pa.large_string()),
            "ns": pa.array([0], pa.timestamp("ns")),
            "instant": pa.array([0], pa.timestamp("ms", "Europe/Berlin")),
            "items": pa.array([[1]], pa.large_list(pa.int16())),
        }
    )
    (tmp_path / "in").mkdir()
    feather.write_feather(table, tmp_path / "in" / "a.arrow")
    assert found_out(tmp_path / "in", "arrow") == (
        "struct<u8:smallint,u64:decimal(20,0),word:string,large:string,ns:timestamp_ntz,"
        "instant:timestamp,items:array<smallint>>"
    )


def test_the_schema_of_avro_files_is_found(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "maybe", "type": ["null", "string"]},
    ]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [])
    assert found_out(tmp_path, "avro") == "struct<id:bigint,at:timestamp,maybe:string>"


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1], pa.duration("s")), r"Spark has no type for duration\[s\]"),
        (pa.array([[{"metadata": b"", "value": None, "typed_value": 1}]]), "it is a shredded variant"),
    ],
)
def test_a_type_that_spark_does_not_have_is_an_error_with_file_and_column(
    tmp_path: Path, column: pa.Array, said: str
) -> None:
    feather.write_feather(pa.table({"t": column}), tmp_path / "a")
    with pytest.raises(SchemaError, match=f"/a: column t: {said}"):
        found_out(tmp_path, "arrow")


def test_columns_of_all_sampled_files_are_found_and_types_are_widened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "x": [1.5]}), tmp_path / "a")
    pq.write_table(
        pa.table({"ID": pa.array([1], pa.int64()), "o": [{"a": 1}], "x": pa.array([1], pa.int32())}),
        tmp_path / "b",
    )
    pq.write_table(pa.table({"o": [{"B": "x"}]}), tmp_path / "c")
    assert found_out(tmp_path, "parquet") == "struct<id:bigint,x:double,o:struct<a:bigint,B:string>>"


def test_incompatible_types_are_an_error_unless_a_hint_gives_the_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b")
    with pytest.raises(SchemaError, match=r"column id is int64 in .*/a and string in .*/b") as caught:
        found_out(tmp_path, "parquet")
    assert '"schemaHints", "id string"' in str(caught.value)
    assert found_out(tmp_path, "parquet", {"schemaHints": "id string"}) == "struct<id:string>"


def test_hints_override_inferred_columns_and_add_others(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", ['{"id": 1, "at": "2026-01-01"}'])
    hints = {"schemaHints": "AT date, tags array<struct<k: string, `v w`: decimal(10,2)>>"}
    assert found_out(folder, "json", hints) == (
        "struct<AT:date,id:bigint,tags:array<struct<k:string,v w:decimal(10,2)>>>"
    )


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("o.x int", "o struct<x: int, y: string>"),
        ("O.X int, o.z date", "o struct<x: int, y: string, z: date>"),
        ("o int", "o int"),
        ("o.l.element.a int", "o struct<x: bigint, y: string, l: array<struct<a: int>>>"),
        ("new.a.b int", "o struct<x: bigint, y: string>, new struct<a: struct<b: int>>"),
    ],
)
def test_hints_apply_to_fields_of_structs(hint: str, expected: str) -> None:
    inferred = parse_columns("o struct<x: bigint, y: string>")
    if "element" in hint:
        with pytest.raises(SchemaError, match=r"o\.l\.element\.a, but element cannot be a part of int32"):
            hinted(parse_columns("o struct<l: int>"), parse_columns(hint))
        inferred = parse_columns("o struct<x: bigint, y: string, l: array<struct<a: bigint>>>")
    assert columns_text(hinted(inferred, parse_columns(hint))) == expected


def test_hints_apply_to_maps_and_a_column_with_a_dot_in_its_name_takes_precedence() -> None:
    inferred = parse_columns("m map<string, bigint>, `a.b` int, a struct<b: int>")
    hints = parse_columns("m.value double, m.key int, a.b string")
    assert columns_text(hinted(inferred, hints)) == "m map<int, double>, `a.b` string, a struct<b: int>"


def test_the_error_for_a_malformed_hint_says_where_it_is_and_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"a type such as bigint or string is expected at character 3"):
        found_out(tmp_path, "json", {"schemaHints": "id bigg"})


PARTITIONS = {
    "whole": ["1", "2"], "long": ["1", "3000000000"], "beyond long": ["1", "12345678901234567890"],
    "fraction": ["1", "2.5"], "long and fraction": ["3000000000", "2.5"],
    "day": ["2026-01-01", "2026-01-02"], "no day": ["2026-02-30", "2026-01-01"],
    "time": ["2026-01-01 10%3A00%3A00", "2026-01-01"], "text and number": ["a", "1"],
    "null": ["__HIVE_DEFAULT_PARTITION__", "1"], "padded": ["01", "12"], "id": ["7", "8"],
    "exponent": ["1e5", "-1.0E2"], "exponent of a fraction": ["1e-3", "1e5"], "large exponent": ["1e38", "1"],
    "a%20b": ["x%2Fy", "1,000"],
}  # fmt: skip
"""Values of a partition column in two directories."""


def test_partition_columns_have_the_types_that_spark_infers(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / "in" / "/".join(f"{key}={both[number]}" for key, both in PARTITIONS.items())
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": 1, "z": "x"}\n')
    assert found_out(tmp_path / "in", "json") == by_spark(spark.read.json(str(tmp_path / "in")))


def test_a_partition_column_that_is_always_null_is_a_string(tmp_path: Path) -> None:
    folder = tmp_path / "x=__HIVE_DEFAULT_PARTITION__"
    write_lines(folder, ['{"id": 1}'])
    assert found_out(tmp_path, "json") == "struct<id:bigint,x:string>"


def test_partitions_of_files_outside_the_sample_count_too(tmp_path: Path) -> None:
    for number in (1, 2, 3_000_000_000, 4):
        (tmp_path / f"n={number}").mkdir()
        (tmp_path / f"n={number}" / "a.json").write_text('{"a": 1}\n')
    assert found_out(tmp_path, "json", {"samplingFiles": "1"}) == "struct<a:bigint,n:bigint>"


def test_the_sample_is_spread_over_all_files_and_skips_empty_ones(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.json").write_text(json.dumps({f"c{number}": 1}) + "\n")
    (tmp_path / "4.json").write_text("")
    assert found_out(tmp_path, "json", {"samplingFiles": "1"}) == "struct<c0:bigint>"
    assert found_out(tmp_path, "json", {"samplingFiles": "2"}) == "struct<c0:bigint,c8:bigint>"
    assert found_out(tmp_path, "json", {"samplingFiles": "3"}) == "struct<c0:bigint,c1:bigint,c8:bigint>"
    glob = {"samplingFiles": "9", "pathGlobFilter": "[2-5].json"}
    assert found_out(tmp_path, "json", glob) == "struct<c2:bigint,c3:bigint,c5:bigint>"


@pytest.mark.parametrize("reader", ["json", "csv", "parquet"])
def test_a_folder_without_rows_has_no_schema_and_the_error_has_a_remedy(tmp_path: Path, reader: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(SchemaError, match="there is no file yet to infer it from") as caught:
        found_out(tmp_path, reader)
    assert ".schema(" in str(caught.value)
    assert "schemaHints" in str(caught.value)
    assert found_out(tmp_path, reader, {"schemaHints": "a int"}) == "struct<a:int>"


def test_the_metadata_column_is_added_on_request(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "in", ['{"id": 1}'])
    found = found_out(folder, "json", {"includeMetadata": "true"})
    assert found.startswith("struct<id:bigint,_metadata:struct<file_path:string,")


@pytest.mark.parametrize("levels", [101, 400, 1500])
def test_values_nested_too_deeply_are_strings(tmp_path: Path, levels: int) -> None:
    nested = f"{'[' * levels}1{']' * levels}"
    folder = write_lines(tmp_path / "in", [f'{{"a": 1, "u": {nested}}}', '{"a": 2}'])
    kind = "array<" * 99 + "string" + ">" * 99
    expected = f"struct<a:bigint,u:{kind}>" if levels <= 1000 else "struct<_corrupt_record:string,a:bigint>"
    assert found_out(folder, "json") == expected
