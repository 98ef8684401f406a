"""CSV files whose records contain line ends in quotes, compared with Spark's reader."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.csv_lines import ranges_and_quotes
from flip27_source.readers.csv_lines.reader import CsvLinesReader
from tests.readers.schemas.test_inference import by_spark, found_out
from tests.readers.spark_reading import arrow_schema, read_batches, read_table, split_of

SCHEMA = "a int, b string, c string, _corrupt_record string"
MULTI_LINE = {"multiLine": "true"}
CHARACTERS = [
    "a", "1", '"', '"', ",", ",", "\\", " ", "\n", "\n", "\r\n", "\r", '"a\nb"', '"x",', '1,"y\n",z\n',
]  # fmt: skip
DIALECTS: dict[str, dict[str, str]] = {
    "default": {},
    "doubled quotes": {"escape": '"'},
    "header": {"header": "true"},
    "comment": {"comment": "a"},
    "no quote": {"quote": ""},
    "white space": {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    "words": {"nullValue": "a", "emptyValue": "E"},
}


def documents(name: str) -> list[bytes]:
    """Random documents, most of them with one kind of line end."""
    chance = random.Random(name)
    found = [b"\xef\xbb\xbf1,x,y\n", b"", b"\n", b"1,x,\xff\n", b'1,"\xc3\xa9\n",z']
    for _ in range(150):
        end = chance.choice(["\n", "\n", "\r\n", "\r", None])
        text = "".join(chance.choices(CHARACTERS, k=chance.randrange(1, 14)))
        if end is not None:
            text = end.join(text.splitlines()) + end
        found.append(text.encode())
    regular = "".join(f'{n},"x{n}\ny, z",{n % 3}\n' for n in range(50))
    found = [one for one in found if not 0 < len(one) < 5]  # Spark reads their line ends as text
    return [*found, regular.encode(), regular.replace("\n", "\r\n").encode(), f"1,x\n{regular}".encode()]


@pytest.mark.parametrize("name", DIALECTS)
def test_documents_give_the_rows_that_spark_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    options = {**MULTI_LINE, **DIALECTS[name]}
    found = documents(name)
    if name == "white space":  # Spark fails for these files
        found = [one for one in found if not one[:1].isspace()]
    paths = [tmp_path / f"{number:03}.csv" for number in range(len(found))]
    for path, document in zip(paths, found, strict=True):
        path.write_bytes(document)
    frame = spark.read.schema(SCHEMA).options(**options).csv(str(tmp_path))
    rows = frame.selectExpr("_metadata.file_name as file", "*").toArrow().to_pylist()
    said: dict[str, list[object]] = {}
    for row in rows:
        said.setdefault(row.pop("file"), []).append(row)
    differences = []
    for path, document in zip(paths, found, strict=True):
        ours = read_table(CsvLinesReader(), [path], SCHEMA, options).to_pylist()
        if ours != said.get(path.name, []):
            differences.append((document, ours, said.get(path.name, [])))
    assert differences[:3] == []


def test_a_regular_document_is_read_without_inspecting_each_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges_and_quotes, "records_of", None)
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,"the\r\ntext"\r\n1,"a\r\nb"\r\n2,"c, d"\r\n')
    options = {**MULTI_LINE, "header": "true"}
    rows = read_table(CsvLinesReader(), [path], "id int, t string", options).to_pylist()
    assert rows == [{"id": 1, "t": "a\nb"}, {"id": 2, "t": "c, d"}]


def test_documents_give_the_schema_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,"the\nname"\n1,"a\nb"\n2,2024-02-29\n')
    options = {**MULTI_LINE, "header": "true", "inferSchema": "true"}
    assert found_out(tmp_path, "csv", options) == by_spark(spark.read.options(**options).csv(str(tmp_path)))


@pytest.mark.usefixtures("spark")
def test_a_compressed_document_is_read_and_a_malformed_record_fails_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress('1,"é\nb"\nx,"c\nd"\n'.encode()))
    options = {**MULTI_LINE, "mode": "FAILFAST"}
    with pytest.raises(SplitReadError, match=r"a.csv.gz, byte 9: column id of type int32 cannot hold 'x'"):
        read_batches(CsvLinesReader(), [split_of(path)], arrow_schema("id int, t string"), options)


@pytest.mark.usefixtures("spark")
def test_surplus_fields_of_a_record_are_rescued(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('1,"a\nb","more\nand"\n')
    options = {**MULTI_LINE, "rescuedDataColumn": "left"}
    (row,) = read_table(CsvLinesReader(), [path], "id int, t string, left string", options).to_pylist()
    assert row["left"] == f'{{"_c2": "more\\nand", "_file_path": "{path}"}}'


def test_documents_are_not_cut_into_ranges() -> None:
    for given, cut in (MULTI_LINE, False), ({}, True):
        options = Options.parse(given, CsvLinesReader.options)
        assert CsvLinesReader.can_read_ranges("/a.csv", options) is cut


@pytest.mark.parametrize(
    "options", [{}, MULTI_LINE, {"encoding": "ISO-8859-1"}, MULTI_LINE | {"encoding": "US-ASCII"}]
)
def test_a_file_with_only_a_byte_order_mark_has_no_rows(tmp_path: Path, options: dict[str, str]) -> None:
    """With multiLine, Spark returns a row with a NUL character for such a file."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf")
    assert read_batches(CsvLinesReader(), [split_of(path)], arrow_schema("a string"), options) == []
    path.write_bytes(b"\xef\xbb\xbfx\n")
    assert read_table(CsvLinesReader(), [path], "a string", options).to_pylist() == [{"a": "x"}]
