"""The text reader returns the same as ``spark.read.text``."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import SchemaError
from flip27_source.options import Options
from flip27_source.readers.files import separated_text
from flip27_source.readers.files.input import CorruptFileError
from flip27_source.readers.text import TextReader
from tests.readers.spark_reading import arrow_schema, assert_same_as_spark, read_batches, read_table

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
def test_lines_equal_those_of_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.txt"
    path.write_bytes(CONTENTS[name])
    ours = assert_same_as_spark(spark, "text", path, "value string")
    assert ours.num_rows == {"ends": 6, "empty": 0}.get(name, ours.num_rows)


def test_many_files_plain_and_compressed_share_batches(spark: SparkSession, tmp_path: Path) -> None:
    paths = []
    for number in range(50):
        path = tmp_path / (f"{number:02}.txt.gz" if number % 5 == 0 else f"{number:02}.txt")
        content = b"line %d\nnext" % number
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        paths.append(path)
    table = assert_same_as_spark(spark, "text", paths, "value string", any_order=True)
    assert len(table["value"].chunks) == 1


def test_the_default_schema_is_value_string() -> None:
    assert TextReader.default_schema(Options.parse({}, ())) == arrow_schema("value string")


def test_the_column_may_have_another_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert read_table(TextReader(), [tmp_path / "a"], "line string").to_pylist() == [{"line": "x"}]


@pytest.mark.parametrize("schema", ["value int", "a string, b string"])
def test_a_schema_other_than_one_string_is_refused(schema: str) -> None:
    with pytest.raises(SchemaError, match="the text reader returns one column of type string"):
        read_batches(TextReader(), [], arrow_schema(schema))


SEPARATED = {
    "plain": (b"a|b||c", "|"),
    "ends with it": (b"a|b|", "|"),
    "several characters": (b"a<>b<c><>\n<>", "<>"),
    "not ascii": ("a\u00a7b\u00a7".encode(), "\u00a7"),
    "newline only": (b"a\r\nb\rc\n", "\n"),
    "byte order mark": (b"\xef\xbb\xbfa|b", "|"),
    "not utf8": (b"\xff|\xe9", "|"),
    "only it": (b"|||", "|"),
    "one that begins as it ends": (b"a|||b||||c|||||", "||"),
    "the half of one": (b"|", "||"),
    "one that repeats itself": (b"xabababxababababx", "abab"),
    **{f"overlaps: {text}": (text.encode(), "aa")
       for text in ("aaa", "aaaa", "aaa\n", "xaaay", "aaaaa", "aa", "a")},
}  # fmt: skip


@pytest.mark.parametrize("name", SEPARATED)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_end_at_line_sep_as_in_spark(
    spark: SparkSession, tmp_path: Path, name: str, suffix: str
) -> None:
    content, separator = SEPARATED[name]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    options = {"lineSep": separator}
    assert assert_same_as_spark(spark, "text", [path, path], "value string", options, any_order=True).num_rows


def test_lines_that_span_chunks_are_read_completely(tmp_path: Path) -> None:
    lines = [f"{number}" * 1000 for number in range(10_000)]
    (tmp_path / "a").write_text("<>".join(lines))
    table = read_table(TextReader(), [tmp_path / "a"], "value string", {"lineSep": "<>"})
    assert table["value"].to_pylist() == lines


@pytest.mark.parametrize("separator", ["|", "||", "|x|", "|x|x"])
def test_lines_are_the_same_wherever_the_chunks_of_a_file_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    chance = random.Random(separator)
    path = tmp_path / "a"
    for size in (1, 2, 3, 5, 1000):
        monkeypatch.setattr(separated_text, "_CHUNK_BYTES", size)
        for _ in range(100):
            content = "".join(chance.choices("||xa", k=chance.randrange(30)))
            path.write_text(content)
            table = read_table(TextReader(), [path], "value string", {"lineSep": separator})
            expected = content.split(separator)
            assert table["value"].to_pylist() == (expected if expected[-1] else expected[:-1]), content


def test_a_line_that_is_too_long_with_line_sep_is_an_error_with_its_position(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc|defgh|" + b"x" * 30)
    for longest, position in (("4", 4), ("5", 10), ("29", 10)):
        with pytest.raises(
            CorruptFileError, match=rf"/a, byte {position}: the line is longer than {longest}"
        ):
            read_table(
                TextReader(), [tmp_path / "a"], "value string", {"lineSep": "|", "maxLineBytes": longest}
            )


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_is_one_row_with_wholetext_as_in_spark(
    spark: SparkSession, tmp_path: Path, suffix: str
) -> None:
    for number, content in enumerate((b"a\nb\r\n", b"\xef\xbb\xbfx", b"", b"\xff")):
        path = tmp_path / f"{number}.txt{suffix}"
        path.write_bytes(gzip.compress(content) if suffix and content else content)
    paths, options = sorted(tmp_path.iterdir()), {"wholetext": "true"}
    assert assert_same_as_spark(spark, "text", paths, "value string", options, any_order=True).num_rows == 3
