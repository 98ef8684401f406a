"""The text reader gives what ``spark.read.text`` gives."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError
from flip27_source.readers.text import TextReader
from tests.readers.spark_reading import arrow_schema, as_dataframe, read_batches, read_table, split_of

pytestmark = pytest.mark.usefixtures("spark")  # Spark parses the schemas

CONTENTS = {
    "ends": b"a\r\n\r\nb\rc\n\n last \n",
    "bom": b"\xef\xbb\xbfa\n\xef\xbb\xbfb",
    "not_utf8": b"caf\xe9\n\xc3\xa9\n\xff\xfe\n",
    "empty": b"",
    "only_line_ends": b"\n\r\r\n\n",
    "nul": b"a\x00b\nc",
    "unicode_line_ends_are_no_line_ends": "a\u2028b\x0bc\x0cd\x85e\n".encode(),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_lines_are_the_lines_that_spark_sees(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.txt"
    path.write_bytes(CONTENTS[name])
    ours = as_dataframe(spark, read_table(TextReader(), [path], "value string"), "value string")
    theirs = spark.read.text(str(path))
    # Compared as bytes too: decoding for Python hides what is not UTF-8.
    as_bytes = "cast(value as binary) as value"
    assert_df_equality(ours.selectExpr(as_bytes), theirs.selectExpr(as_bytes))
    assert ours.count() == {"ends": 6, "empty": 0}.get(name, theirs.count())


def test_many_files_plain_and_compressed_share_batches(spark: SparkSession, tmp_path: Path) -> None:
    paths = []
    for number in range(50):
        path = tmp_path / (f"{number:02}.txt.gz" if number % 5 == 0 else f"{number:02}.txt")
        content = b"line %d\nnext" % number
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        paths.append(path)
    table = read_table(TextReader(), paths, "value string")
    assert len(table["value"].chunks) == 1
    assert_df_equality(
        as_dataframe(spark, table, "value string"), spark.read.text(str(tmp_path)), ignore_row_order=True
    )


def test_the_schema_is_value_string_when_none_is_given() -> None:
    assert TextReader.default_schema(None) == arrow_schema("value string")  # type: ignore[arg-type]


def test_rows_of_many_short_lines_come_in_batches_that_suit_spark(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x\n" * 600_000)
    batches = read_batches(TextReader(), [split_of(path)], arrow_schema("line string"))
    assert [batch.num_rows for batch in batches] == [262_144, 262_144, 75_712]


@pytest.mark.parametrize("schema", ["value int", "a string, b string"])
def test_another_schema_than_one_string_is_refused(schema: str) -> None:
    with pytest.raises(SchemaError, match="the text reader gives one column of type string"):
        read_batches(TextReader(), [], arrow_schema(schema))
