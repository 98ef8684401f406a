"""Native reads: the columns of the batches, by file, by schema and by what is recorded."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from flip27_source.native import native_batches
from tests.spark_features import VERSION

from .native_runs import Delivered, delivered_by, land, quarantined, run, state
from .streams import Folders


def test_partition_columns_and_new_columns_arrive_without_a_restart(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "year=2025/part=a b/1.parquet", id=[1])
    land(folders, "year=2026/part=__HIVE_DEFAULT_PARTITION__/2.parquet", id=[2], name=["two"])
    found: list[tuple[list[str], list[Any]]] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        found.append((frame.columns, sorted(tuple(row) for row in frame.collect())))

    run(spark, folders, native_batches(write, format="parquet"), maxFilesPerTrigger=1, fileOrder="name")
    assert found == [
        (["id", "year", "part"], [(1, 2025, "a b")]),
        (["id", "name", "year", "part"], [(2, "two", 2026, None)]),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("schema", [None, "id long, year int, part string, region string"])
def test_one_batch_has_files_of_different_partition_columns(
    spark: SparkSession, folders: Folders, schema: str | None
) -> None:
    for folder in ("year=25", "year=2026/part=x", "region=us"):
        land(folders, f"{folder}/a.parquet", id=[len(folder)])
    found: list[tuple[Any, ...]] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        found.extend(tuple(row) for row in frame.select("id", "year", "part", "region").collect())

    run(spark, folders, native_batches(write, format="parquet", schema=schema))
    assert sorted(found, key=str) == [
        (16, 2026, "x", None), (7, 25, None, None), (9, None, None, "us"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        "parse_json('1') v", "named_struct('i', interval '1' year) v", "array(interval '1' day) v",
        "'ABC' COLLATE UTF8_LCASE v",
        pytest.param(
            "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') v",
            marks=pytest.mark.skipif(VERSION < (4, 2), reason="before Spark 4.2 geometries are disabled"),
        ),
    ],
)  # fmt: skip
def test_files_whose_schema_cannot_be_recorded_are_not_quarantined(
    spark: SparkSession, folders: Folders, column: str
) -> None:
    made = folders.root / "made"
    folders.landing.mkdir()
    spark.sql(f"SELECT 1 id, {column}").coalesce(1).write.parquet(str(made))
    next(made.glob("*.parquet")).rename(folders.landing / "a.parquet")
    write = native_batches(lambda frame, _: frame.collect(), format="parquet")
    with pytest.raises(StreamingQueryException, match=r"column v: .*(?s:.*)give native_batches a schema"):
        run(spark, folders, write, onSplitError="quarantine")
    assert state(spark, folders, "quarantine") == []


CSV_FILES = {
    "a.csv": "id,city\n1,Bonn",
    "b.csv": "id,country,city\n2,DE,Köln",
    "c.csv": "\nCITY,ID\nJena,3\n",
    "d.csv": "country\nFR",
    "e.csv": "id,city\n5,Gera",
    "f.csv": "",
    "g.csv": '"id","city"\n7,Trier',
}


@pytest.mark.parametrize("mode", ["addNewColumns", "none"])
def test_the_headers_of_csv_files_name_their_columns_in_every_batch(
    spark: SparkSession, folders: Folders, mode: str
) -> None:
    for number, (name, text) in enumerate(CSV_FILES.items()):
        path = folders.landing / f"country={number}" / name if name == "e.csv" else folders.landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found: list[Any] = []

    def write(frame: DataFrame, _batch_id: int) -> None:
        found.extend(row.asDict() for row in frame.collect())
        assert frame.columns[:2] == ["id", "city"]

    native = native_batches(write, format="csv", header=True, inferSchema=True, schemaEvolutionMode=mode)
    run(spark, folders, native, maxFilesPerTrigger=2, fileOrder="name")
    rows = {row["id"]: row for row in found}
    cities = {number: row["city"] for number, row in rows.items()}
    assert cities == {1: "Bonn", 2: "Köln", 3: "Jena", None: None, 5: "Gera", 7: "Trier"}
    assert [rows[number]["country"] for number in (1, 2, None)] == [None, "DE", "FR"]
    assert len(found) == 6


def test_json_fields_that_differ_only_in_case_are_quarantined_and_never_null(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"id": 1}'])
    folders.land("b.json", ['{"ID": 7, "id": 8}'])
    folders.land("c.json", ['{"Id": 3}'])
    folders.land("d.json", ['{"id": 4}'])
    delivered = Delivered()
    write = native_batches(delivered, format="json")
    with pytest.raises(StreamingQueryException, match=r"and there is the field (ID|id)"):
        run(spark, folders, write)
    run(spark, folders, write, onSplitError="quarantine")
    assert delivered.rows == [(1,), (4,)]
    assert len(state(spark, folders, "quarantine")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("schema", [None, "id long, year int"])
def test_a_partition_column_may_be_a_column_of_other_files_of_the_batch(
    spark: SparkSession, folders: Folders, schema: str | None
) -> None:
    land(folders, "b.parquet", id=[1], year=pa.array([2024], pa.int32()))
    land(folders, "year=2025/a.parquet", id=[2])
    (batch,) = delivered_by(spark, folders, {"format": "parquet", "schema": schema})
    assert batch == (["id", "year"], [(1, 2024), (2, 2025)])


def test_the_text_format_has_files_with_and_without_partition_columns_in_one_batch(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a", ["one"])
    (folders.landing / "year=2025").mkdir()
    (folders.landing / "year=2025" / "b").write_text("two")
    (batch,) = delivered_by(spark, folders, {"format": "text"})
    assert batch[1] == [("one", None), ("two", 2025)]


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 10])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_of_int_and_of_long_are_read_with_the_recorded_type(
    spark: SparkSession, folders: Folders, kind: str, files: int
) -> None:
    folders.landing.mkdir()
    write = pq.write_table if kind == "parquet" else orc.write_table
    for number, width in enumerate((pa.int64(), pa.int32(), pa.int64(), pa.int32())):
        write(pa.table({"id": pa.array([number], width)}), folders.root / "w")
        (folders.root / "w").rename(folders.landing / f"{number}")
    batches = delivered_by(spark, folders, {"format": kind}, maxFilesPerTrigger=files)
    assert [row for _, rows in batches for row in rows] == [(0,), (1,), (2,), (3,)]


def test_a_file_whose_columns_spark_refuses_is_quarantined(spark: SparkSession, folders: Folders) -> None:
    land(folders, "0", id=[1])
    land(folders, "1", a=[1], A=[2])
    land(folders, "2", id=[3])
    batches = delivered_by(spark, folders, {"format": "parquet"}, onSplitError="quarantine")
    assert batches == [(["id"], [(1,), (3,)])]
    assert quarantined(spark, folders) == ["1"]


@pytest.mark.slow
def test_a_file_whose_partition_value_does_not_suit_the_recorded_type_is_quarantined(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "store=5/a", id=[1])
    native = {"format": "parquet"}
    assert delivered_by(spark, folders, native) == [(["id", "store"], [(1, 5)])]
    for store in ("x", "6"):
        land(folders, f"store={store}/b", id=[2])
    batches = delivered_by(spark, folders, native, onSplitError="quarantine")
    assert batches == [(["id", "store"], [(2, 6)])]
    assert len(quarantined(spark, folders)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("native", "stores", "bad"),
    [({}, [7], ["b"]), ({"schema": "id long, store string"}, ["007", "ab"], [])],
    ids=["inferred", "given"],
)
def test_partition_values_that_look_like_numbers_are_texts_if_the_schema_says_so(
    spark: SparkSession, folders: Folders, native: dict[str, Any], stores: list[Any], bad: list[str]
) -> None:
    land(folders, "store=007/a", id=[1])
    found = delivered_by(spark, folders, {"format": "parquet", **native})
    land(folders, "store=ab/b", id=[2])
    found += delivered_by(spark, folders, {"format": "parquet", **native}, onSplitError="quarantine")
    assert [row[1] for _, rows in found for row in rows] == stores
    assert quarantined(spark, folders) == bad


@pytest.mark.parametrize("is_shredded", [False, True])
def test_with_a_schema_variants_are_read_whether_they_are_shredded_or_null(
    spark: SparkSession, folders: Folders, is_shredded: bool
) -> None:
    folders.landing.mkdir()
    option = "spark.sql.variant.writeShredding.enabled"
    spark.conf.set(option, str(is_shredded).lower())
    try:
        values = '(1, parse_json(\'{"a": 1, "b": "x"}\')), (2, NULL), (3, parse_json(\'[null]\'))'
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, v)").coalesce(1)
        frame.write.parquet(str(folders.root / "made"))
    finally:
        spark.conf.unset(option)
    next((folders.root / "made").glob("*.parquet")).rename(folders.landing / "a.parquet")
    found: list[Any] = []

    def write(frame: DataFrame, _: int) -> None:
        found.extend(tuple(row) for row in frame.selectExpr("id", "to_json(v)").collect())

    run(spark, folders, native_batches(write, format="parquet", schema="id int, v variant"))
    assert sorted(found) == [(1, '{"a":1,"b":"x"}'), (2, None), (3, "[null]")]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "failOnNewColumns"])
def test_files_without_content_have_no_rows_and_determine_no_columns(
    spark: SparkSession, folders: Folders, mode: str
) -> None:
    for kind in ("json", "csv", "parquet"):
        own = Folders(folders.root / kind)
        (own.landing / "day=1").mkdir(parents=True)
        (own.landing / "0").touch()
        (own.landing / "1").write_text("" if kind == "parquet" else "\n")
        (own.landing / "day=1" / "2").touch()
        if kind == "parquet":
            land(own, "day=2/3", id=["7"])
        else:
            (own.landing / "day=2").mkdir()
            (own.landing / "day=2" / "3").write_text("id\n7\n" if kind == "csv" else '{"id": "7"}\n')
        (own.landing / "day=3").mkdir()
        (own.landing / "day=3" / "4").touch()
        native = {"format": kind, "header": "true", "schemaEvolutionMode": mode}
        batches = delivered_by(spark, own, native, maxFilesPerTrigger=1)
        assert batches == [(["id", "day"], [("7", 2)]), (["id", "day"], [])], kind


def test_columns_that_have_only_nulls_get_values_later(spark: SparkSession, folders: Folders) -> None:
    folders.landing.mkdir()
    for folder, identity in (("store=__HIVE_DEFAULT_PARTITION__", 1), ("store=5", 2), ("Store=x", 3)):
        land(folders, f"{folder}/a", id=[identity])
    one_by_one = delivered_by(spark, folders, {"format": "parquet"}, maxFilesPerTrigger=1)
    assert sorted(row for _, rows in one_by_one for row in rows) == [(1, None), (2, "5"), (3, "x")]
    again = Folders(folders.root / "again")
    shutil.copytree(folders.landing, again.landing)
    (together,) = delivered_by(spark, again, {"format": "parquet"})
    assert together[1] == [(1, None), (2, "5"), (3, "x")]


def test_parquet_columns_for_which_only_nulls_were_written_get_values_later(
    spark: SparkSession, folders: Folders
) -> None:
    nothing, texts = pa.struct([("n", pa.null())]), pa.struct([("n", pa.string())])
    land(folders, "0", id=pa.array([1], pa.int32()), note=pa.nulls(1), s=pa.array([{"n": None}], nothing))
    land(folders, "1", id=pa.array([2], pa.int32()), note=["a"], s=pa.array([{"n": "b"}], texts))
    batches = delivered_by(spark, folders, {"format": "parquet"}, maxFilesPerTrigger=1)
    assert batches == [(["id"], [(1,)]), (["id", "note", "s"], [(2, "a", Row(n="b"))])]


@pytest.mark.slow
@pytest.mark.parametrize("files", [1, 10])
def test_csv_files_without_headers_have_all_their_columns_whatever_the_batch(
    spark: SparkSession, folders: Folders, files: int
) -> None:
    folders.land("a.csv", ["1,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] * 3)
    folders.land("b.csv", ['2,"y,y",z'])
    native = {"format": "org.apache.spark.sql.execution.datasources.csv.CSVFileFormat"}
    batches = delivered_by(spark, folders, native, maxFilesPerTrigger=files)
    assert batches[-1][0] == ["_c0", "_c1", "_c2"]
    assert ("2", "y,y", "z") in batches[-1][1]
    folders.land("c.csv", ["4,a,b,c"])
    with pytest.raises(StreamingQueryException, match="_c3"):
        delivered_by(spark, folders, native | {"format": "CSV", "schemaEvolutionMode": "failOnNewColumns"})


@pytest.mark.slow
def test_columns_that_differ_only_in_case_are_errors_of_their_files_if_the_session_tells_them_apart(
    spark: SparkSession, folders: Folders
) -> None:
    exact = spark.newSession()
    exact.conf.set("spark.sql.caseSensitive", "true")
    for number, name in enumerate(("id", "ID", "id")):
        land(folders, f"{number}", **{name: [number], "v": ["x"]})
    for files in (10, 1):
        own = Folders(folders.root / f"{files}")
        shutil.copytree(folders.landing, own.landing)
        batches = delivered_by(
            exact, own, {"format": "parquet"}, maxFilesPerTrigger=files, onSplitError="quarantine"
        )
        assert [row for _, rows in batches for row in rows] == [(0, "x"), (2, "x")]
        assert quarantined(spark, own) == ["1"]


def test_columns_of_one_csv_header_that_differ_only_in_case_need_a_schema(
    spark: SparkSession, folders: Folders
) -> None:
    exact = spark.newSession()
    exact.conf.set("spark.sql.caseSensitive", "true")
    folders.land("a.csv", ["id,ID", "1,2"])
    native = {"format": "csv", "header": True}
    with pytest.raises(StreamingQueryException, match="the field ID, and there is the field id"):
        delivered_by(exact, folders, native)
    given = native | {"schema": "id int, ID int"}
    assert delivered_by(exact, folders, given) == [(["id", "ID"], [(1, 2)])]


def test_a_name_with_a_dot_is_no_field_of_a_struct(spark: SparkSession, folders: Folders) -> None:
    folders.land("a", ['{"A.x": 1, "a": {"x": 2}}'])
    assert delivered_by(spark, folders, {"format": "json"}) == [(["A.x", "a"], [(1, (2,))])]


def test_what_is_recorded_does_not_depend_on_files_that_are_quarantined(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a", ['{"x": 1}'])
    folders.land("b", ['{"x": 2.5}'])
    folders.land("c", ['{"X": 3}'])
    batches = delivered_by(spark, folders, {"format": "json"}, onSplitError="quarantine")
    assert batches == [(["x"], [(1.0,), (2.5,)])]
    assert quarantined(spark, folders) == ["c"]


def test_a_file_of_other_types_is_not_given_up_while_bad_files_of_the_first_batch_are_looked_for(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a", ['{"x": 1}'])
    folders.land("b", ['{"x": "b"}'])
    folders.land("c", ['{"X": 3}'])
    native = {"format": "json", "mode": "FAILFAST"}
    batches = delivered_by(spark, folders, native, onSplitError="quarantine")
    assert batches == [(["x"], [("1",), ("b",)])]
    assert quarantined(spark, folders) == ["c"]


def test_a_field_may_differ_from_its_partition_column_in_case(spark: SparkSession, folders: Folders) -> None:
    (folders.landing / "Year=1").mkdir(parents=True)
    (folders.landing / "Year=1" / "a").write_text('{"id": 1, "year": 7}')
    (batch,) = delivered_by(spark, folders, {"format": "json"})
    assert sorted(zip(batch[0], batch[1][0], strict=True)) == [("Year", 1), ("id", 1)]
