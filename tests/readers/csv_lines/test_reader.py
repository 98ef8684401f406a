"""The csv reader returns the same as ``spark.read.schema(...).csv``: lines, headers, modes, errors."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flip27_source.errors import OptionError, SchemaError, SplitReadError
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from tests.readers.spark_reading import (
    Compared,
    arrow_schema,
    assert_same_as_spark,
    read_batches,
    read_table,
    split_of,
)

ROWS = "id int, name string, price decimal(8,2)"
WITH_CORRUPT = ROWS + ", _corrupt_record string"

FILES = {
    "plain": b"1,a,1.50\n2,b,2.25\n",
    "no last newline": b"1,a,1.50\n2,b,2.25",
    "crlf": b"1,a,1.50\r\n2,b,2.25\r\n",
    "lone carriage return": b"1,a,1.50\r2,b,2.25\r",
    "carriage return inside quotes": b'1,"a\rb",1.50\n',
    "byte order mark": b"\xef\xbb\xbf1,a,1.50\n",
    "byte order mark in the middle": b"1,a,1.50\n\xef\xbb\xbf2,b,1\n",
    "empty": b"",
    "only blank lines": b"\n \n\t\n\r\n",
    "blank lines between": b"\n1,a,1.50\n\n \t \n2,b,2.25\n\n",
    "newline inside quotes": b'1,"a\nb",1.50\n',
    "not utf-8": b"1,caf\xe9,1.50\n2,\xff\xfe\xc3\xa9,3\n3,\xf0\x9f\x98,1\n4,\xed\xa0\x80,\xc0\x80\n",
    "unicode": "1,héllo wörld,1.50\n2,日本語,3\n3,😀,4\n".encode(),
    "quotes": b'1,"a, b",1.50\n2,"say ""hi""",3\n3,"back\\"slash",4\n4,"open,5\n',
    "short rows": b"1,a\n2\n3,c,3.50\n",
    "only short rows": b"1,a\n2,b\n",
    "long rows": b"1,a,1.50,x\n2,b,2.25\n3,c,3.50,x,y\n",
    "only long rows": b"1,a,1.50,x\n2,b,2.25,y\n",
    "wrong types": b"x,a,1.50\n2,b,y\n3,c,3.50\n99999999999,d,123456789.00\n",
    "nulls": b',,\n1,,\n,a,\n,,1.5\n"","",""\n',
    "spaces": b" 1 , a , 1.50 \n1,a, 1.50\n",
    "nul characters": b"1,a\x00b,1.50\n\x00,x,1\n\x00\n",
}


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("schema", [ROWS, WITH_CORRUPT], ids=["rows", "corrupt"])
@pytest.mark.parametrize("name", FILES)
def test_files_give_the_rows_of_spark_in_every_mode(csv: Compared, name: str, schema: str, mode: str) -> None:
    csv.same_as_spark(FILES[name], schema, {"mode": mode})


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("schema", ["only string", "only string, _corrupt_record string", "id int"])
def test_files_read_as_a_single_column_give_the_rows_of_spark(csv: Compared, name: str, schema: str) -> None:
    csv.same_as_spark(FILES[name], schema)


@pytest.mark.parametrize("name", FILES)
def test_malformed_lines_fail_in_the_mode_failfast_when_they_do_in_spark(csv: Compared, name: str) -> None:
    options = {"mode": "FAILFAST"}
    csv.path.write_bytes(FILES[name])
    rows = csv.spark.read.schema(WITH_CORRUPT).csv(str(csv.path)).collect()
    if all(row["_corrupt_record"] is None for row in rows):
        csv.same_as_spark(FILES[name], ROWS, options)
        return
    with pytest.raises((PySparkException, Py4JJavaError), match="MALFORMED_RECORD"):
        csv.spark.read.schema(ROWS).options(**options).csv(str(csv.path)).collect()
    with pytest.raises(SplitReadError, match=r"a\.csv, byte \d+: "):
        read_table(CsvLinesReader(), [csv.path], ROWS, options)


def test_failfast_names_file_byte_column_and_value(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_bytes(b"1,a,1\n")
    (tmp_path / "bad.csv").write_bytes(b"\xef\xbb\xbf1,a,1\r\n\r\n2,b,2\r\n3x,c,3\r\n")
    paths = [tmp_path / "good.csv", tmp_path / "bad.csv"]
    with pytest.raises(
        SplitReadError, match=r"bad\.csv, byte 19: column id of type int32 cannot hold '3x': '3x,c,3'"
    ):
        read_table(CsvLinesReader(), paths, ROWS, {"mode": "failfast"})
    (tmp_path / "bad.csv").write_bytes(b"1,a,1\n2,b\n")
    with pytest.raises(SplitReadError, match=r"bad\.csv, byte 6: the line does not have 3 fields: '2,b'"):
        read_table(CsvLinesReader(), paths, ROWS, {"mode": "failfast"})


HEADERS = {
    "plain": b"id,name,price\n1,a,1.50\n",
    "blank lines before": b"\n  \nid,name,price\n1,a,1.50\n",
    "byte order mark": b"\xef\xbb\xbfid,name,price\r\n1,a,1.50\r\n",
    "only a header": b"id,name,price",
    "fewer columns": b"id,name\n1,a,1.50\n",
    "empty": b"",
    "byte order mark after it": b"id,name,price\n\xef\xbb\xbf1,a,1.50\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_header_is_left_out_whatever_it_contains(csv: Compared, name: str) -> None:
    csv.same_as_spark(HEADERS[name], WITH_CORRUPT, {"header": "true"})


def test_many_small_files_plain_and_compressed_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    paths = []
    for number in range(60):
        path = tmp_path / (f"{number}.csv.gz" if number % 3 == 0 else f"{number}.csv")
        content = b"id,name,price\n%d,x,1.5\n%d,y" % (number, number)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        paths.append(path)
    options = {"header": "true"}
    table = assert_same_as_spark(spark, "csv", paths, WITH_CORRUPT, options, any_order=True)
    assert len(table["name"].chunks) == 1


def test_the_column_for_malformed_lines_may_be_anywhere_and_have_another_name(csv: Compared) -> None:
    content, schema = FILES["wrong types"], "id int, broken string, name string, price decimal(8,2)"
    options = {"columnNameOfCorruptRecord": "broken"}
    rows = csv.same_as_spark(content, schema, options)
    assert rows["broken"].to_pylist()[1:3] == ["2,b,y", None]


@pytest.mark.parametrize(
    ("content", "schema", "separator"),
    [
        (b"a\n \n\t\nb\n", "a string", ","),
        (b"a\tb\n\t\n \t \nc\td\n", "a string, b string", "\t"),
        (b" \na b\n \n", "a string, b string", " "),
    ],
)
def test_blank_lines_are_not_rows_even_if_white_space_separates_fields(
    csv: Compared, content: bytes, schema: str, separator: str
) -> None:
    rows = csv.same_as_spark(content, schema, {"sep": separator})
    assert rows.num_rows == (1 if separator == " " else 2)


@pytest.mark.parametrize("separator", [";", "|", "\t", "\\t", " ", "\x01", ":"])
@pytest.mark.parametrize("name", ["sep", "delimiter"])
def test_separators_are_interpreted_as_in_spark(csv: Compared, name: str, separator: str) -> None:
    char = "\t" if separator == "\\t" else separator
    lines = ["1,a,1.50", ",,", ',"x, y",2', '"3","",', "4,b", " ,,", ""]
    content = "\n".join(line.replace(",", char) for line in lines).encode()
    csv.same_as_spark(content, WITH_CORRUPT, {name: separator})


def test_a_large_block_of_all_kinds_of_rows_gives_the_rows_of_spark(csv: Compared) -> None:
    chance = random.Random(3)
    pools = [
        [str(n) for n in range(500)] + ["", "+7", " 8", "x"],
        ["a", "", '"q"', '"q, r"', "é", '"\\""', '"""'] + ["word"] * 40,
        ["1.5", "-2", "", "1e3", "NaN", "z"] + ["3.25"] * 40,
        ["2024-01-02", "", "2024-1-2", "soon"] + ["2020-02-29"] * 40,
        ["2024-03-31 02:30:00", "", "2024-01-01T00:00:00Z"] + ["2024-05-06 07:08:09.123"] * 40,
        ["true", "", "FALSE", "0"] + ["false"] * 40,
    ]
    lines = [",".join(chance.choice(pool) for pool in pools) for _ in range(20_000)]
    content = "\n".join(lines).encode()
    schema = "a int, b string, c double, d date, e timestamp, f boolean, _corrupt_record string"
    rows = csv.same_as_spark(content, schema, time_zone="Europe/Berlin")
    assert 1000 < rows["_corrupt_record"].null_count < 19_000


@pytest.mark.parametrize(
    ("options", "content", "said"),
    [
        (
            {"mode": "PERMISSIVE"},
            b"1\n\n,\n",
            "byte 3: the column a is NOT NULL, but the record has no value for it: ','",
        ),
        ({"mode": "DROPMALFORMED"}, b"1,x\n2\n,y\n", "byte 6: the column a is NOT NULL"),
        ({"mode": "FAILFAST", "comment": "#"}, b"#one\n\n1,a\n#two\nx,b\n", "byte 15: column a .*'x'"),
    ],
)
def test_an_error_in_a_column_that_is_not_null_has_the_position_of_the_line(
    tmp_path: Path, options: dict[str, str], content: bytes, said: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SplitReadError, match=f"/a.csv, {said}"):
        read_table(CsvLinesReader(), [tmp_path / "a.csv"], "a int not null, b string", options)


ONLY_IN_SPARK = "option {name} has the value .*supported by Spark's reader, not by flip27"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sep", "||", "option sep has the value"),
        ("sep", "", "option sep has the value"),
        ("sep", "é", "option sep has the value"),
        ("sep", '"', "which is also the quote"),
        ("quote", "''", "option quote has the value"),
        ("escape", "ab", "option escape has the value"),
        ("mode", "LENIENT", "option mode has the value"),
        ("comment", "//", "option comment has the value"),
        ("comment", '"', "option comment is '\"', which is also the quote character"),
        ("encoding", "UTF-16", "option encoding has the value"),
        *((name, "true", ONLY_IN_SPARK.format(name=name)) for name in ("lineSep", "locale", "maxColumns")),
    ],
)
def test_unsupported_options_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_batches(CsvLinesReader(), [], arrow_schema(ROWS), {name: value})


COMMENTS = b"""# made on Monday

  # not at its begin: a header
1,a
#2,b
3,#c
"#4",d
,
#5,"e
6,f,#
x,# g
"""


@pytest.mark.parametrize("options", [{}, {"header": "true"}, {"header": "true", "quote": ""}], ids=str)
def test_comment_lines_are_left_out_as_in_spark(csv: Compared, options: dict[str, str]) -> None:
    given = {"comment": "#", **options}
    schema = "n int, t string, _corrupt_record string"
    ours = csv.same_as_spark(COMMENTS, schema, given)
    assert ours.num_rows == (6 if "header" in options else 7)


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "US-ASCII", "UTF-8"])
def test_files_in_other_encodings_are_read_as_in_spark(csv: Compared, encoding: str) -> None:
    content = "1,caf\xe9\n\xa32,\xa0x\n3,plain\n".encode("latin-1")
    schema = "n int, t string, _corrupt_record string"
    name = "charset" if encoding == "UTF-8" else "encoding"
    csv.same_as_spark(content, schema, {name: encoding})


@pytest.mark.parametrize(
    "words",
    [
        {"nanValue": "-", "positiveInf": "much", "negativeInf": "-much"},
        {"nanValue": "0", "positiveInf": "-999", "negativeInf": "0"},
    ],
    ids=str,
)
def test_the_options_set_the_words_for_special_numbers_as_in_spark(
    csv: Compared, words: dict[str, str]
) -> None:
    texts = ["-", "much", "-much", "0", "-999", "NaN", "Inf", "-Inf", "Infinity", "1.5", "", "x", " 2", "1d"]
    content = "".join(f"{text},{text},{text}\n" for text in texts).encode()
    schema = "d double, f float, n int, _corrupt_record string"
    csv.same_as_spark(content, schema, words)


@pytest.mark.parametrize("header", ["N,t", "t,n", "n", "n,t,more"])
def test_headers_are_checked_as_in_spark_if_the_schema_is_not_enforced(csv: Compared, header: str) -> None:
    schema = "n int, t string"
    csv.path.write_text(f"{header}\n1,a\n")
    options = {"header": "true", "enforceSchema": "false"}
    if header == "N,t":
        csv.same_as_spark(csv.path.read_bytes(), schema, options)
        return
    with pytest.raises((PySparkException, Py4JJavaError)):
        csv.spark.read.schema(schema).options(**options).csv(str(csv.path)).collect()
    with pytest.raises(SchemaError, match=r"a.csv: the header names the columns .* but the schema has n, t"):
        read_table(CsvLinesReader(), [csv.path], schema, options)
    assert read_table(CsvLinesReader(), [csv.path], schema, {"header": "true"}).num_rows == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("_corrupt_record string", "no column that a CSV file could fill"),
        ("a int, _corrupt_record int", "the column _corrupt_record for malformed records has the type"),
    ],
)
def test_a_schema_that_no_file_could_fill_is_refused(schema: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        read_batches(CsvLinesReader(), [], arrow_schema(schema))


def test_a_dropped_line_may_lack_a_value_that_is_not_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1,a\nx,b\n3,c\n")
    options = {"mode": "DROPMALFORMED"}
    table = read_table(CsvLinesReader(), [tmp_path / "a.csv"], "a int not null, b string", options)
    assert table["a"].to_pylist() == [1, 3]


@pytest.mark.parametrize("comment", [{}, {"comment": "#"}], ids=["blank lines", "comments"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
def test_a_header_is_left_out_whichever_range_of_the_file_it_is_in(
    tmp_path: Path, comment: dict[str, str], end: bytes
) -> None:
    passed = [b"# id,name", b"#"] if comment else [b"", b"  "]
    lines = [b"\xef\xbb\xbf" + passed[0], *passed * 3, b"id,name", b"1,a", b"2,b"]
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(line + end for line in lines))
    schema, options = arrow_schema("id int, name string"), {"header": "true", **comment}
    for cut in range(1, path.stat().st_size):
        ranges = [split_of(path, 0, cut), split_of(path, cut, path.stat().st_size)]
        rows = [
            row
            for batch in read_batches(CsvLinesReader(), ranges, schema, options)
            for row in batch.to_pylist()
        ]
        assert rows == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], cut
