"""The text reader omits the header of each file, and says so in the comment of its column."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from flip27_source.errors import OptionError, SchemaError
from flip27_source.options import Options
from flip27_source.readers.text import TextReader
from flip27_source.schemas.column_comments import header_comment, header_in
from tests.readers.spark_reading import arrow_schema, read_batches, read_table, split_of

HEADER = {"header": "true"}


def lines(paths: list[Path], **options: str) -> list[str]:
    return read_table(TextReader(), paths, "value string", options)["value"].to_pylist()


def test_the_first_non_blank_line_of_each_file_is_left_out(tmp_path: Path) -> None:
    contents = {
        "a": b"id,name\n1,x\n\n2,y\n",
        "b": b"\xef\xbb\xbf \r\n\x01\r\nid,name\r\n3,z\r\n",
        "c": b"id,name",
        "d": b"\n \n",
        "e": b"",
    }
    paths = []
    for name, content in contents.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    paths.append(tmp_path / "f.gz")
    paths[-1].write_bytes(gzip.compress(b"id,name\n4,w\n"))
    assert lines(paths, **HEADER) == ["1,x", "", "2,y", "3,z", "4,w"]


def test_comments_are_not_taken_for_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"# one\n\n# two\nid\n# three\n1\n")
    assert lines([path], **HEADER, comment="#") == ["# three", "1"]
    assert lines([path], **HEADER) == ["", "# two", "id", "# three", "1"]


@pytest.mark.parametrize("separator", [";", "||", "\n"])
def test_a_header_ends_with_the_separator_of_the_lines(tmp_path: Path, separator: str) -> None:
    paths = []
    for name in "ab":
        paths.append(tmp_path / name)
        paths[-1].write_text(separator.join([" ", "#", "id", f"1{name}", "", "2", ""]))
    assert lines(paths, **HEADER, comment="#", lineSep=separator) == ["1a", "", "2", "1b", "", "2"]


def test_the_header_is_left_out_once_wherever_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\n# c\nid\n1\n2\n")
    schema = arrow_schema("value string")
    for cut in range(1, path.stat().st_size):
        ranges = [split_of(path, 0, cut), split_of(path, cut, path.stat().st_size)]
        for parts in (ranges, ranges[::-1]):
            read = [
                batch
                for part in parts
                for batch in read_batches(TextReader(), [part], schema, {**HEADER, "comment": "#"})
            ]
            assert sorted(pa.Table.from_batches(read, schema)["value"].to_pylist()) == ["1", "2"], cut


def test_header_and_wholetext_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"id\n1\n")
    with pytest.raises(OptionError, match="header and wholetext are both true"):
        lines([path], **HEADER, wholetext="true")
    with pytest.raises(OptionError, match="header and wholetext are both true"):
        default_schema(header="true", wholetext="true")


def default_schema(**options: str) -> pa.Schema:
    return TextReader.default_schema(Options.parse(options, TextReader.options))


def test_the_comment_of_the_column_says_that_headers_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"id\n1\n")

    def comment(**options: str) -> str | None:
        source = spark.read.format("flip27").options(enumerator="files", reader="text", **options)
        return source.load(str(tmp_path)).schema["value"].metadata.get("comment")

    assert comment() is None
    assert comment(header="false") is None
    assert comment(header="true") == "header=true"
    assert comment(header="true", comment="#") == "header=true, comment=#"
    assert header_in("header=true") == ""
    assert header_in(header_comment("#")) == "#"
    assert header_in("the header") is None


@pytest.mark.parametrize(
    ("comment", "options", "said"),
    [
        ("header=true", {}, "the option header is not set"),
        ("header=true", {"header": "false"}, "the option header is not set"),
        ("header=true", {"header": "true", "comment": "#"}, "require 'header=true, comment=#'"),
        ("header=true, comment=#", {"header": "true"}, "require 'header=true'"),
    ],
)
def test_a_column_comment_that_contradicts_the_options_is_refused(
    tmp_path: Path, comment: str, options: dict[str, str], said: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"id\n1\n")
    with pytest.raises(SchemaError, match=said):
        read_table(TextReader(), [path], with_comment(comment), options)


def with_comment(comment: str) -> StructType:
    return StructType([StructField("value", StringType(), metadata={"comment": comment})])


def test_other_column_comments_have_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"id\n1\n")
    for comment in ("the lines", "header=true"):
        assert read_table(TextReader(), [path], with_comment(comment), HEADER)["value"].to_pylist() == ["1"]
