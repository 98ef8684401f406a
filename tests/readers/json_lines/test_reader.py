"""JSON Lines files have the same rows as with Spark's own JSON source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.readers.json_lines.reader import JsonLinesReader
from tests.readers.json_lines.json_documents import LINES, LINES_SCHEMA, documents
from tests.readers.spark_reading import (
    Compared,
    arrow_schema,
    as_dataframe,
    assert_same_as_spark,
    exact_rows,
    read_batches,
    read_table,
    split_of,
)

GOOD = b"".join(
    b'{"k":%d,"s":"name %d","d":%d.5,"t":"2024-01-%02dT10:00:00Z","b":true}\n' % (n, n, n, n % 28 + 1)
    for n in range(1000)
)
GOOD_SCHEMA = "k int, s string, d double, t timestamp, b boolean"


def write(folder: Path, content: bytes, name: str = "a.json") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def our_rows(path: Path, ddl: str, **options: str) -> list[tuple[Any, ...]]:
    return exact_rows(read_table(JsonLinesReader(), [path], ddl, options))


def test_a_good_file_gives_the_same_data_frame_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    ours = assert_same_as_spark(spark, "json", path, GOOD_SCHEMA)
    assert_df_equality(as_dataframe(spark, ours, GOOD_SCHEMA), spark.read.schema(GOOD_SCHEMA).json(str(path)))


SCHEMAS = {
    "every type": LINES_SCHEMA,
    "without a column for malformed lines": LINES_SCHEMA.replace(", _corrupt_record string", ""),
    "types that pyarrow supports": f"{GOOD_SCHEMA}, c struct<x:int,y:string,e:date>, "
    "l array<struct<x:int,w:array<int>>>, _corrupt_record string",
}


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("ddl", SCHEMAS.values(), ids=SCHEMAS)
def test_broken_lines_among_good_lines_are_read_as_in_spark(json: Compared, mode: str, ddl: str) -> None:
    content = b"".join(GOOD[:5000].rpartition(b"\n")[0] + b"\n" + line + b"\n" for line in LINES)
    json.same_as_spark(content, ddl, {"mode": mode})


@pytest.mark.parametrize("bad_each", [2, 7, 300])
def test_the_order_of_lines_is_kept_whatever_the_share_of_bad_lines(json: Compared, bad_each: int) -> None:
    bad = [
        b'{"k":"x"}', b'{"k":1.5,"s":"y"}', b"nonsense", b'{"t":"2024-1-1","k":5}', b'[{"k":1},{"k":2}]',
        b"",
    ]  # fmt: skip
    lines = GOOD.split(b"\n")[:-1]
    mixed = [bad[n // bad_each % len(bad)] if n % bad_each == 0 else line for n, line in enumerate(lines)]
    ddl = f"{GOOD_SCHEMA}, _corrupt_record string"
    json.same_as_spark(b"\n".join(mixed), ddl)


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(documents(), min_size=30, max_size=80))
def test_random_documents(json: Compared, lines: list[bytes]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    json.same_as_spark(content, LINES_SCHEMA)
    without_map = LINES_SCHEMA.replace("m map<string,int>, ", "")
    json.same_as_spark(content, without_map)


def test_many_small_files_are_read_in_order_and_together(spark: SparkSession, tmp_path: Path) -> None:
    paths = [write(tmp_path, b'{"k":%d}' % n, f"{n:04}.json") for n in range(300)]
    batches = read_batches(JsonLinesReader(), map(split_of, paths), arrow_schema("k int"))
    assert [batch.num_rows for batch in batches] == [300]
    assert batches[0]["k"].to_pylist() == list(range(300))


def test_timestamps_without_a_zone_are_in_the_time_zone_of_the_option_or_session(json: Compared) -> None:
    content = b'{"t":"2020-03-29T02:30:00","n":"2020-03-29T02:30:00"}\n{"t":"2020-6-1"}\n'
    ddl = "t timestamp, n timestamp_ntz"
    json.same_as_spark(content, ddl, {}, "Europe/Berlin")
    option = {"timeZone": "America/New_York"}
    json.same_as_spark(content, ddl, option, "Europe/Berlin")


def test_the_column_for_malformed_lines_may_have_any_name_and_position(json: Compared) -> None:
    ddl = "k int, bad string, s string"
    option = {"columnNameOfCorruptRecord": "bad"}
    json.same_as_spark(b'{"k":1}\n{"k":"x","s":"y"}\nnot \xff UTF-8\n', ddl, option)


def test_failfast_names_the_file_the_position_and_the_line(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, b'{"k":1}\n{"k":"x"}\n{"k":2}\n')
    with pytest.raises(
        SplitReadError, match=r"a\.json, byte 8: the record is malformed.*: '\{\"k\":\"x\"\}'"
    ):
        our_rows(path, "k int", mode="FAILFAST")
    assert our_rows(write(tmp_path, GOOD), GOOD_SCHEMA, mode="FAILFAST") != []


def test_a_long_malformed_line_is_shortened_in_the_error(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, b'{"k":"' + b"x" * 5000 + b'"}\n')
    with pytest.raises(SplitReadError, match=r"x'\.\.\. \(5008 bytes\)"):
        our_rows(path, "k int", mode="failfast")


def not_null(name: str) -> pa.Field:
    return pa.field(name, pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("column", "content", "position"),
    [
        (not_null("k"), b'{"k":1}\n{}\n', 8),
        (not_null("k"), b'{"k":1}\n{"k":"x"}\n', 8),
        (pa.field("c", pa.struct([not_null("x")])), b'{"c":{"x":1}}\n{"c":null}\n{"c":{}}\n', 25),
        (
            pa.field("l", pa.list_(not_null("element"))),
            b'{"l":[1]}\n{"l":null}\n{"l":[]}\n{"l":[1,null]}\n',
            30,
        ),
        (pa.field("m", pa.map_(pa.string(), not_null("value"))), b'{"m":{"a":1}}\n{"m":{"a":null}}\n', 14),
    ],
)
def test_a_null_in_a_column_that_is_not_null_is_an_error_with_the_position_of_the_line(
    tmp_path: Path, column: pa.Field, content: bytes, position: int
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SplitReadError, match=f"byte {position}: the column {column.name} is NOT NULL"):
        read_table(JsonLinesReader(), [path], pa.schema([column]))


def test_columns_that_are_not_null_are_declared_not_null_in_the_batches(tmp_path: Path) -> None:
    schema = pa.schema([not_null("k"), pa.field("c", pa.struct([not_null("x")]))])
    path = write(tmp_path, b'{"k":1,"c":{"x":1}}\n{"k":2,"c":null}\n')
    table = read_table(JsonLinesReader(), [path], schema)
    assert table.schema.equals(schema)
    assert table.to_pylist() == [{"k": 1, "c": {"x": 1}}, {"k": 2, "c": None}]


def test_the_column_for_malformed_lines_must_be_a_nullable_string(tmp_path: Path) -> None:
    path = write(tmp_path, b"{}")
    with pytest.raises(SchemaError, match="for malformed records has the type int32"):
        read_table(JsonLinesReader(), [path], pa.schema([("_corrupt_record", pa.int32())]))


def test_a_schema_may_consist_of_only_the_column_for_malformed_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write(tmp_path, b'{"k":1}\nx\n\n[{},{}]\n')
    assert our_rows(path, "_corrupt_record string") == [(None,), (b"x",), (None,), (None,)]


WORDS = ["-Inf", "+Inf", "-Infinit", "+Infinit", "Infinit", "-NaN", "0e99999999999"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("place", ['{"m":%s}', '{"m":{"a":%s,"b":1}}', '{"m":{"a":{"x":%s}}}'])
def test_a_line_with_a_word_for_a_number_is_malformed_but_adjacent_lines_are_not(
    spark: SparkSession, tmp_path: Path, word: str, place: str
) -> None:
    """Which fields of the malformed line are kept is a documented difference from Spark."""
    ddl = "k int, s struct<m:map<string,struct<x:decimal(9,2)>>>, _corrupt_record string"
    bad = b'{"k":2,"s":%s}' % (place % word).encode()
    path = write(tmp_path, b'{"k":1,"s":{"m":{"a":{"x":1.5}}}}\n%s\n{"k":3,"s":{"m":{}}}\n' % bad)
    ours = our_rows(path, ddl)
    theirs = exact_rows(spark.read.schema(ddl).json(str(path)).coalesce(1).toArrow())
    assert [row[-1] for row in ours] == [row[-1] for row in theirs] == [None, bad, None]
    assert (ours[0], ours[2]) == (theirs[0], theirs[2])


@pytest.mark.parametrize("kind", ["decimal(38,18)", "decimal(38,38)", "decimal(38,0)", "decimal(9,2)"])
@pytest.mark.parametrize(
    "number",
    [
        "123456789012345678901234567890", "4", "-7", "1e25", "1E+20",
        "9.316989393092496535264159604956020129809",
    ],
)  # fmt: skip
def test_a_number_too_large_for_its_decimal_is_malformed_in_a_block_of_good_lines(
    json: Compared, kind: str, number: str
) -> None:
    good = [b'{"n":0.%d,"s":{"n":".5"}}' % n for n in range(50)]
    bad = [b'{"n":%s}' % number.encode(), b'{"s":{"n":"%s"}}' % number.encode()]
    ddl = f"n {kind}, s struct<n:{kind}>, _corrupt_record string"
    json.same_as_spark(b"\n".join([*good, *bad, b""]), ddl)
