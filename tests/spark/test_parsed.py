"""``flip27_source.parsed`` returns the same rows as Spark's own CSV and JSON readers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, StructField, StructType

from flip27_source import parsed
from flip27_source.errors import Flip27Error, OptionError, SchemaError
from flip27_source.spark.line_options import FORMATS, TAKEN, line_options
from tests.spark.jvm import jvm_of, query_execution
from tests.spark_features import needs

from .streams import Folders, file_stream, run_to_end, to_lake

ORDERS = "id int, name string, at timestamp, _corrupt_record string"
CSV = """\
# orders
 \t

id;name;at
1;"a;""b"";";2026-03-29 01:30:00
# 2 was lost
3;NULL;2026-03-29T04:30:00+01:00

x;d;2026-01-01
5;e
6;f;2026-01-01;7
7;"open;2026-01-01
\ufeff8;h;2026-01-01
"""
CSV_OPTIONS: dict[str, Any] = {
    "header": True, "comment": "#", "sep": ";", "nullValue": "NULL", "escape": '"',
}  # fmt: skip
JSON = """\
{"id": 1, "name": "a", "at": "2026-03-29 01:30:00"}

  \t
{"id": "x", "name": "b", "more": [{}]}
{"id": 3, "name": "c"
[{"id": 4, "name": "d"}, {"id": 5}]
 [ {"id": 6}, {"id": "y", "name": "e"} ]
[]
[{"id": 7}, null]
[1]
null
\ufeff{"id": 8}
not json
{'id': 9, 'name': "\\ud83d\\ude00"}
"""


def lines(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    source = spark.read.format("flip27").options(enumerator="files", reader="text", **options)
    return source.load(str(folder))


def both(
    spark: SparkSession, folder: Path, format_name: str, schema: str, **options: Any
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of ``parsed``, and those of Spark's own reader."""
    has_header = options.get("header")
    of_stream = [name for name in ("header", "comment") if has_header and name in options] + ["lineSep"]
    stream = lines(spark, folder, **{name: options[name] for name in of_stream if name in options})
    ours = {name: value for name, value in options.items() if name != "lineSep"}
    theirs = spark.read.format(format_name).schema(schema).options(**options).load(str(folder))
    return parsed(stream, format_name, schema, **ours), theirs


def written(folder: Path, **contents: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_csv_is_parsed_as_by_sparks_own_reader(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    folder = written(tmp_path / "in", a=CSV, b=CSV.replace("\n", "\r\n"), c="", d="\ufeffid\n11;k;2026-01-01")
    ours, theirs = both(spark, folder, "csv", ORDERS, **CSV_OPTIONS, mode=mode)
    assert len(theirs.collect()) == {"PERMISSIVE": 15, "DROPMALFORMED": 5}[mode]
    assert_df_equality(ours, theirs, ignore_row_order=True)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_json_is_parsed_as_by_sparks_own_reader(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    folder = written(tmp_path / "in", a=JSON, b=JSON.replace("\n", "\r"), c="", d='\ufeff{"id": 11}')
    ours, theirs = both(spark, folder, "json", ORDERS, mode=mode)
    assert len(theirs.collect()) == {"PERMISSIVE": 27, "DROPMALFORMED": 11}[mode]
    assert_df_equality(ours, theirs, ignore_row_order=True)


def test_malformed_lines_give_nulls_if_the_schema_has_no_column_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id int NOT NULL, name string"
    csv = written(tmp_path / "csv", a="1,a\nx,b\n3\n")
    assert_df_equality(*both(spark, csv, "csv", schema))
    assert_df_equality(*both(spark, csv, "csv", schema, mode="DROPMALFORMED"))
    json = written(tmp_path / "json", a='{"id":1}\n{"id":"x","name":"b"}\n{\n')
    assert_df_equality(*both(spark, json, "json", schema))
    assert_df_equality(*both(spark, json, "json", schema, mode="DROPMALFORMED"))


def test_the_column_of_malformed_lines_has_the_name_from_the_option_or_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = written(tmp_path / "in", a="1\nx\n")
    schema = "bad string, id int"
    assert_df_equality(*both(spark, folder, "csv", schema, columnNameOfCorruptRecord="bad"))
    session = spark.newSession()
    session.conf.set("spark.sql.columnNameOfCorruptRecord", "bad")
    ours, theirs = both(session, folder, "csv", schema)
    assert theirs.collect() == [(None, 1), ("x", None)]
    assert_df_equality(ours, theirs)


@pytest.mark.parametrize(
    ("format_name", "line", "said"),
    [
        ("csv", b"x,1", "MALFORMED_RECORD_IN_PARSING"),
        ("csv", "1,\uffff".encode(), "a line is malformed csv, and mode is FAILFAST: 1,\uffff"),
        ("json", b'{"id": "x"}', "MALFORMED_RECORD_IN_PARSING"),
        ("json", b'[{"id": "x"}]', "MALFORMED_RECORD_IN_PARSING"),
        ("json", b'{"id": 1, "name": "\xff"}', "a line is malformed json, and mode is FAILFAST"),
    ],
)
def test_a_malformed_line_fails_the_query_if_the_mode_says_so(
    spark: SparkSession, tmp_path: Path, format_name: str, line: bytes, said: str
) -> None:
    folder = written(tmp_path / "in", a=line)
    ours, theirs = both(spark, folder, format_name, "id int, name string", mode="failfast")
    with pytest.raises(Exception, match=said):
        ours.collect()
    with pytest.raises(Exception, match=said):
        ours.where("id = 1").groupBy().count().collect()
    if "\uffff" not in line.decode("utf-8", "replace"):
        with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
            theirs.collect()


def test_lines_that_from_json_would_guess_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    guessed = [b'{"id": 1, "name": "\xff"}', b'{"id": 2, "\xed\xa0\x80": 1}']
    folder = written(tmp_path / "in", a=b"\n".join(guessed))
    ours, theirs = both(spark, folder, "json", "id int, name string, _corrupt_record string")
    in_hex = fn.hex("_corrupt_record").alias("line")
    rows = ours.select("id", "name", in_hex).collect()
    assert [tuple(row) for row in rows] == [(None, None, line.hex().upper()) for line in guessed]
    # Spark 4.0 takes the name in the second line, which is not UTF-8.
    assert rows[0] in theirs.select("id", "name", in_hex).collect()


def test_a_line_that_from_csv_would_cut_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a="1,a\uffffb\n2,c\n")
    rows = parsed(lines(spark, folder), "csv", "id int, name string, _corrupt_record string").collect()
    assert rows == [(None, None, "1,a\uffffb"), (2, "c", None)]


def test_a_byte_order_mark_is_text_in_every_line_of_csv(spark: SparkSession) -> None:
    rows = [("\ufeffa",), ("\ufeff",), ("\ufeff\ufeffb",), ("c",), ("\ufeffd,e",)]
    for partitions in (1, 5):
        stream = spark.createDataFrame(rows, "value string").repartition(partitions)
        found = parsed(stream, "csv", "name string, _corrupt_record string").collect()
        assert set(found) == {(*row, None) for row in rows[:-1]} | {("\ufeffd", "\ufeffd,e")}


def test_bytes_are_decoded_as_the_option_encoding_says(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a=b"1,caf\xe9\nx\xe9\n\xa0\n")
    for encoding in ("ISO-8859-1", "US-ASCII", "UTF-8"):
        ours, theirs = both(
            spark, folder, "csv", "id int, name string, _corrupt_record string", encoding=encoding
        )
        assert_df_equality(ours, theirs)
    assert_df_equality(*both(spark, folder, "csv", "id int, name string", charset="ISO-8859-1"))


def test_lines_end_at_the_line_separator_of_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a="id,name|1,a\nb|2,|3|")
    ours, theirs = both(spark, folder, "csv", "id int, name string", lineSep="|", header=True)
    assert theirs.collect() == [(1, "a\nb"), (2, None), (3, None)]
    assert_df_equality(ours, theirs)


def test_whole_files_are_parsed_as_json_documents(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a='[\n {"id": 1},\n {"id": 2}\n]\n', b='{\n"id":\n3}', c="\n{\n")
    schema = "id int, _corrupt_record string"
    theirs = spark.read.schema(schema).json(str(folder), multiLine=True)
    assert theirs.where("id is null").collect() == [(None, "\n{\n")]
    ours = parsed(lines(spark, folder, wholetext=True), "json", schema)
    assert_df_equality(ours, theirs, ignore_row_order=True)


def test_comments_in_json_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    content = '// one\n/* two */\n /* a */ // b\n/* [ */ [{"id": 1}] // c\n{"id": 2} // d\n/* open\n'
    folder = written(tmp_path / "in", a=content)
    schema = "id int, _corrupt_record string"
    ours, theirs = both(spark, folder, "json", schema, allowComments=True)
    assert [row.id for row in theirs.collect()] == [1, 2, None]
    assert_df_equality(ours, theirs)


@pytest.mark.parametrize(
    "format_name", [pytest.param("csv", marks=needs("lines of CSV as variants")), "json"]
)
def test_a_line_is_parsed_into_one_variant_column(
    spark: SparkSession, tmp_path: Path, format_name: str
) -> None:
    content = {"csv": "1,a\n2\n", "json": '{"a": 1.5}\n[1, 2]\n{\n'}[format_name]
    folder = written(tmp_path / "in", a=content)
    ours = parsed(lines(spark, folder), format_name, "v variant", singleVariantColumn="v")
    theirs = spark.read.format(format_name).option("singleVariantColumn", "v").load(str(folder))
    assert theirs.where("v is not null").count() == 2
    as_text = fn.to_json("v").alias("v")
    assert_df_equality(ours.select(as_text), theirs.select(as_text))


def test_other_columns_of_the_stream_come_after_the_parsed_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = written(tmp_path / "in", a="1,x\n2\n", b="3,y\n")
    schema = "id int, name string"
    stream = lines(spark, folder, includeMetadata=True).withColumn("a b.c`d", fn.lit(1))
    rows = parsed(stream, "csv", schema)
    assert rows.columns == ["id", "name", "_metadata", "a b.c`d"]
    theirs = spark.read.schema(schema).csv(str(folder)).select("id", "_metadata.*")
    assert_df_equality(rows.select("id", "_metadata.*"), theirs, ignore_row_order=True, ignore_nullable=True)
    arrays = written(tmp_path / "json", a='[{"id": 1}, {"id": 2}]\n{"id": 3}\n')
    rows = parsed(lines(spark, arrays, includeMetadata=True), "json", "id int")
    assert rows.select("id", "_metadata.file_name").collect() == [(1, "a"), (2, "a"), (3, "a")]


def test_duplicate_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = lines(spark, written(tmp_path / "in", a="1\n")).withColumn("Day", fn.lit(1))
    with pytest.raises(SchemaError, match="two columns day"):
        parsed(stream, "csv", "id int, day date")
    with pytest.raises(SchemaError, match=r"two columns id: .* no other columns"):
        parsed(stream.drop("Day"), "csv", "id int, ID int")
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    stream = lines(session, tmp_path / "in").withColumn("Day", fn.lit(1))
    assert parsed(stream, "csv", "id int, day date").columns == ["id", "day", "Day"]
    assert parsed(lines(spark, tmp_path / "in"), "csv", "value int").collect() == [(1,)]


def test_the_stream_has_to_have_a_column_of_lines(spark: SparkSession) -> None:
    numbers = spark.range(2)
    with pytest.raises(SchemaError, match=r"a column value of type string.* has: id bigint"):
        parsed(numbers, "csv", "n int")
    with pytest.raises(SchemaError, match="has: value bigint"):
        parsed(numbers.withColumnRenamed("id", "value"), "csv", "n int")
    assert parsed(numbers.selectExpr("string(id) as value"), "csv", "n int").collect() == [(0,), (1,)]
    nulls = spark.sql("select cast(null as string) as value")
    for format_name in FORMATS:
        assert parsed(nulls, format_name, "n int, _corrupt_record string").collect() == []


def test_a_schema_that_no_line_could_fill_is_refused(spark: SparkSession) -> None:
    stream = spark.sql("select '1' as value")
    with pytest.raises(SchemaError, match="no column for the fields of a line"):
        parsed(stream, "csv", "_corrupt_record string")
    with pytest.raises(SchemaError, match=r"the column _corrupt_record .* has the type int"):
        parsed(stream, "csv", "a int, _corrupt_record int")
    with pytest.raises(SchemaError, match="the schema is 'int'"):
        parsed(stream, "csv", "int")
    with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
        parsed(stream, "csv", "a b c d")


def test_the_metadata_of_columns_is_kept(spark: SparkSession) -> None:
    field = StructField("n", IntegerType(), True, {"unit": "kg"})
    rows = parsed(spark.sql("select '1' as value"), "csv", StructType([field]))
    assert rows.schema == StructType([field])
    assert rows.schema["n"].metadata == {"unit": "kg"}


def test_a_header_has_to_be_left_out_by_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a="#\nid\n1\n")
    with pytest.raises(SchemaError, match=r"no record of header=true: value may(.|\n)*\.option\(\"header\""):
        parsed(lines(spark, folder), "csv", "id int", header=True)
    with pytest.raises(SchemaError, match="the option comment is '#' here and '' on the stream"):
        parsed(lines(spark, folder, header=True), "csv", "id int", header=True, comment="#")
    with pytest.raises(OptionError, match="header is false, but the stream was loaded with header=true"):
        parsed(lines(spark, folder, header=True), "csv", "id int", header=False)
    stream = lines(spark, folder, header=True, comment="#")
    narrowed = stream.where("value <> 'x'").withColumn("n", fn.lit(1)).select("n", "value")
    assert parsed(narrowed, "csv", "id int", header="TRUE", comment="#").collect() == [(1, 1)]
    with pytest.raises(SchemaError, match="no record of header"):
        parsed(stream.selectExpr("trim(value) as value"), "csv", "id int", header=True, comment="#")


def test_partition_columns_work_together_with_headers(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("01", "02"):
        written(tmp_path / f"day=2026-01-{day}", a=f"id\n{day}\n")
    schema = "value string COMMENT 'header=true', day date"
    options = {"enumerator": "files", "reader": "text", "header": True}
    stream = spark.read.format("flip27").options(**options).schema(schema).load(str(tmp_path))
    ours = parsed(stream, "csv", "id int", header=True)
    theirs = spark.read.schema("id int, day date").csv(str(tmp_path), header=True)
    assert_df_equality(ours, theirs, ignore_row_order=True)


def test_a_large_file_is_parsed_in_ranges_without_its_header(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(tmp_path / "in", a="id,name\n" + "".join(f"{n},{'x' * 60}\n" for n in range(50_000)))
    stream = lines(spark, folder, header=True, maxPartitionBytes="1m", includeMetadata=True)
    assert stream.select("_metadata.file_block_start").distinct().count() > 1
    theirs = spark.read.schema("id int, name string").csv(str(folder), header=True)
    rows = parsed(stream, "csv", "id int, name string", header=True, mode="FAILFAST")
    assert_df_equality(rows.drop("_metadata"), theirs, ignore_row_order=True)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_condition_on_a_parsed_column_does_not_parse_again(spark: SparkSession, format_name: str) -> None:
    stream = spark.sql("select '1' as value union all select '{}' as value")
    rows = parsed(stream, format_name, "n int, m int").where("n = 1 and m > n").select("n")
    plan = query_execution(rows).optimizedPlan().toString()
    operators = [line.lstrip(" +-:") for line in plan.splitlines()]
    assert [line for line in operators if line.startswith("Filter")], plan
    parsing = {line.split()[0] for line in operators if f"from_{format_name}" in line}
    assert not parsing & {"Filter", "Project"}, plan
    assert "Generate" in parsing, plan


def test_a_stateful_query_over_a_parsed_event_time_counts_each_row_once(
    spark: SparkSession, folders: Folders
) -> None:
    schema = "at timestamp, shop string, amount int"

    def run() -> None:
        stream = file_stream(spark, folders, header=True, maxFilesPerTrigger=1)
        sales = parsed(stream, "csv", schema, header=True, timestampFormat="dd.MM.yyyy HH:mm")
        totals = (
            sales.withWatermark("at", "10 minutes")
            .groupBy(fn.window("at", "1 hour").alias("hour"), "shop")
            .agg(fn.sum("amount").alias("amount"))
            .selectExpr("hour.start as hour", "shop", "amount")
        )
        run_to_end(to_lake(totals, folders))

    folders.land("a.csv", ["at,shop,amount", "01.03.2026 10:05,x,1", "01.03.2026 10:55,y,2"])
    folders.land("b.csv", ["at,shop,amount", "01.03.2026 10:15,x,4", "", "01.03.2026 12:30,x,8"])
    run()
    late = "01.03.2026 10:20,x,100"
    folders.land("c.csv", ["at,shop,amount", "01.03.2026 12:45,x,16", late, "01.03.2026 15:00,y,32"])
    run()
    written = spark.read.schema("hour timestamp, shop string, amount long").parquet(str(folders.lake))
    assert sorted((row.hour, row.shop, row.amount) for row in written.collect()) == [
        (datetime(2026, 3, 1, 10), "x", 5),
        (datetime(2026, 3, 1, 10), "y", 2),
        (datetime(2026, 3, 1, 12), "x", 24),
    ]


def test_every_option_of_sparks_readers_is_taken_or_refused_with_a_remedy(spark: SparkSession) -> None:
    catalyst = jvm_of(spark).org.apache.spark.sql.catalyst
    for format_name, companion in (("csv", catalyst.csv.CSVOptions), ("json", catalyst.json.JSONOptions)):
        known = companion.getAllOptions().iterator()
        names = set()
        while known.hasNext():
            names.add(known.next())
        assert len(names) >= 30
        for name in names - set(TAKEN[format_name]):
            with pytest.raises(OptionError, match=rf"option {name} of Spark's (.|\n)*What to do:"):
                line_options(format_name, {name: "not the default"})


@pytest.mark.parametrize(
    ("format_name", "options", "said"),
    [
        (
            "csv",
            {"delimeter": ";"},
            "option delimeter is not an option of Spark's csv reader; did you mean delimiter",
        ),
        ("json", {"timestampFormt": "y"}, "did you mean timestampFormat"),
        ("csv", {"multiLine": True}, "one line at a time(.|\n)*reader=csv with multiLine"),
        ("json", {"MULTILINE": "true"}, "one line at a time(.|\n)*wholetext=true"),
        ("csv", {"inferSchema": True}, "the schema is given(.|\n)*reader=csv"),
        ("csv", {"enforceSchema": False}, "columns are matched by position(.|\n)*enforceSchema=false"),
        ("csv", {"lineSep": ";"}, r"is already divided into lines(.|\n)*\.option\(\"lineSep\", "),
        ("json", {"sep": ";"}, "option sep belongs to Spark's csv reader; the format is json"),
        ("csv", {"maxFilesPerTrigger": 1}, "belongs to the stream that is passed to parsed"),
        ("csv", {"ignoreCorruptFiles": True}, "belongs to the stream that is passed to parsed"),
        ("csv", {"mode": "STRICT"}, "option mode has the value 'STRICT'(.|\n)*PERMISSIVE"),
        ("csv", {"header": "yes"}, "option header has the value 'yes'(.|\n)*true or false"),
        ("csv", {"sep": b";"}, "option sep is a bytes"),
        ("csv", {"sep": ";", "SEP": ","}, "option sep is given twice"),
        ("csv", {"encoding": "UTF-16"}, "supported for csv: UTF-8, ISO-8859-1 or US-ASCII"),
        ("json", {"encoding": "ISO-8859-1"}, "supported for json: UTF-8"),
        ("csv", {"header": True, "singleVariantColumn": "v"}, "header and singleVariantColumn"),
        ("xml", {}, "format 'xml' is invalid(.|\n)*as the format of parsed"),
    ],
)
def test_options_that_cannot_be_used_are_refused_by_name(
    format_name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Flip27Error, match=said) as caught:
        line_options(format_name, options)
    assert caught.value.remedy


def test_options_that_only_repeat_a_default_are_accepted() -> None:
    defaults = {"multiLine": False, "inferSchema": "FALSE", "enforceSchema": True, "columnPruning": True}
    assert line_options("csv", {**defaults, "sep": None}).for_spark == {}
    taken = line_options("csv", {"SEP": ";", "maxColumns": 3, "ignoreLeadingWhiteSpace": True})
    assert taken.for_spark == {"sep": ";", "maxColumns": "3", "ignoreLeadingWhiteSpace": "true"}
