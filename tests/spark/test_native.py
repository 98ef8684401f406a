"""Native reads: flip27 plans the files, Spark's own readers read them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flip27_source.native import native_batches
from flip27_source.native.planned_tasks import files_without_tasks
from flip27_source.options import Options
from tests.spark.jvm import jvm_of, query_execution

from .streams import Folders, each_batch, file_stream, forget_commit, run_to_end

ODD_NAMES = (
    "a b.parquet", "100%25.parquet", "glob*[1]{x,y}?.parquet", "back\\slash.parquet", "d*.parquet",
    "käse#1.parquet", "line\nfeed.parquet",
)  # fmt: skip


def land(folders: Folders, file: str, **columns: Any) -> Path:
    """Write a Parquet file, and move it into the landing folder once it is complete."""
    target = folders.landing / file
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = folders.root / "being-written"
    pq.write_table(pa.table(columns), hidden)
    return hidden.rename(target)


def damage(path: Path) -> None:
    """Make the content of a file unreadable without changing its length."""
    path.write_bytes(b"x" * path.stat().st_size)


class Delivered:
    """An idempotent sink that keeps the rows of each batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = sorted(tuple(row) for row in frame.collect())

    @property
    def rows(self) -> list[Any]:
        return sorted(row for rows in self.batches.values() for row in rows)


def ids_to(function: Callable[[DataFrame, int], Any], **options: str) -> Callable[[DataFrame, int], Any]:
    """Pass the rows of Parquet files with the column id to the function."""
    return native_batches(function, format="parquet", schema="id long", **options)


def run(
    spark: SparkSession,
    folders: Folders,
    function: Callable[[DataFrame, int], Any],
    where: str = "true",
    **options: Any,
) -> StreamingQuery:
    """Run a query of the landed files to its end, with the given options."""
    stream = file_stream(spark, folders, reader="splits", **options).where(where)
    query = each_batch(stream, folders, function)
    run_to_end(query)
    return query


def state(spark: SparkSession, folders: Folders, view: str) -> list[Any]:
    """Return the rows of a view of the state."""
    return spark.read.format("flip27_state").option("view", view).load(str(folders.state)).collect()


def test_spark_reads_every_file_once_whatever_its_name_is_and_prunes_columns(
    spark: SparkSession, folders: Folders
) -> None:
    for number, name in enumerate(ODD_NAMES):
        land(folders, name, id=[number], wide=["w" * 100])
    land(folders, "globX1x.parquet", id=[99], wide=["matches the glob of another name"])
    delivered = Delivered()
    plans: list[str] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        chosen = frame.where("id >= 0").select("id", "_metadata.file_size")
        plans.append(query_execution(chosen).executedPlan().toString())
        delivered(chosen.select("id"), batch_id)

    native = native_batches(write, format="parquet", schema="id long, wide string")
    run(spark, folders, native, maxFilesPerTrigger=5)
    assert delivered.rows == [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (99,)]
    assert sorted(delivered.batches) == [0, 1]
    assert "ReadSchema: struct<id:bigint>" in plans[0]
    assert "PushedFilters: [IsNotNull(id), GreaterThanOrEqual(id,0)]" in plans[0]


def test_the_plan_names_the_files_unless_the_caller_has_changed_the_rows(
    spark: SparkSession, folders: Folders
) -> None:
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        land(folders, name, id=[1])
    without_tasks: list[bool] = []
    named: list[list[str]] = []

    def see(frame: DataFrame, _batch_id: int) -> None:
        named.append(sorted(Path(file).name for file in frame.inputFiles()))

    native = ids_to(see)

    def both(rows: DataFrame, batch_id: int) -> None:
        for passed in (rows.where("path NOT LIKE '%b.parquet'"), rows):
            without_tasks.append(files_without_tasks(passed, Options.parse({}, ())) is not None)
            native(passed, batch_id)

    query = run(spark, folders, both)
    assert without_tasks == [False, True]
    assert named == [["a.parquet", "c.parquet"], ["a.parquet", "b.parquet", "c.parquet"]]
    assert query.lastProgress is not None
    assert query.lastProgress["numInputRows"] == 3 + 2 * 3, "one call with tasks, two without"


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
        "'ABC' COLLATE UTF8_LCASE v", "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') v",
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


def test_xml_is_read_by_sparks_own_reader(spark: SparkSession, folders: Folders) -> None:
    folders.land("a.xml", ['<orders><order id="1"><name>Ada</name></order><order id="2"/></orders>'])
    folders.land("b.xml", ['<orders><order id="3"><name>B &amp; C</name></order></orders>'])
    folders.land("c.txt", ["a file that the query leaves out"])
    delivered = Delivered()
    write = native_batches(delivered, format="xml", schema="_id long, name string", rowTag="order")
    run(spark, folders, write, where="path LIKE '%.xml'", maxFilesPerTrigger=1)
    assert delivered.rows == [(1, "Ada"), (2, None), (3, "B & C")]
    assert sorted(delivered.batches) == [0, 1]


def test_a_corrupt_file_is_quarantined_and_the_others_are_delivered_even_if_the_batch_is_repeated(
    spark: SparkSession, folders: Folders
) -> None:
    for number in range(6):
        land(folders, f"{number}.parquet", id=[number])
    damage(folders.landing / "3.parquet")
    delivered = Delivered()
    write = ids_to(delivered)
    # With allowOverwrites, reports name a file together with its version.
    run(spark, folders, write, onSplitError="quarantine", allowOverwrites=True)
    assert delivered.rows == [(0,), (1,), (2,), (4,), (5,)]

    forget_commit(folders, 0)
    pq.write_table(pa.table({"id": [3]}), folders.landing / "another")
    delivered.batches.clear()
    run(spark, folders, write, onSplitError="quarantine", allowOverwrites=True)
    assert delivered.batches[0] == [(0,), (1,), (2,), (4,), (5,)]
    (quarantined,) = state(spark, folders, "quarantine")
    assert "3.parquet@" in quarantined.split_id
    assert "cannot be read by Spark as parquet" in quarantined.error


def test_files_that_spark_cannot_reach_stop_the_query_and_are_read_once_it_can(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "a.parquet", id=[1])
    delivered = Delivered()
    astray = ids_to(delivered, hadoopPrefixes='{"/": "unknown://bucket/"}')
    with pytest.raises(StreamingQueryException, match=r"a package is missing(?s:.*)nothing was quarantined"):
        run(spark, folders, astray, onSplitError="quarantine")
    right = ids_to(delivered)
    run(spark, folders, right, onSplitError="quarantine")
    assert delivered.rows == [(1,)]
    assert state(spark, folders, "quarantine") == []


def test_the_query_stops_at_files_that_are_corrupt_or_change_while_they_are_read(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "a.parquet", id=[1])

    def change(frame: DataFrame, _batch_id: int) -> None:
        frame.collect()
        land(folders, "a.parquet", id=[1, 2, 3])

    with pytest.raises(StreamingQueryException, match=r"a\.parquet changed while its batch was read"):
        run(spark, folders, ids_to(change))
    with pytest.raises(StreamingQueryException, match=r"a\.parquet had \d+ bytes when it was discovered"):
        run(spark, folders, ids_to(change))


@pytest.mark.parametrize("is_written_again", [False, True])
def test_of_two_versions_of_a_file_in_one_batch_those_that_are_gone_are_set_aside_and_the_newest_is_read(
    spark: SparkSession, folders: Folders, is_written_again: bool
) -> None:
    for number, name in enumerate(("a.parquet", "b.parquet", "c.parquet")):
        land(folders, name, id=[number])
    delivered = Delivered()

    def stop_at_b(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            raise ValueError("the sink is full")
        delivered(frame, batch_id)

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run(spark, folders, ids_to(stop_at_b), allowOverwrites=True, maxFilesPerTrigger=1)
    land(folders, "c.parquet", id=[7, 8, 9])
    write = ids_to(delivered)
    with pytest.raises(
        StreamingQueryException, match=r"c\.parquet had \d+ bytes(?s:.*)onSplitError=quarantine"
    ):
        run(spark, folders, write, allowOverwrites=True)
    if is_written_again:
        land(folders, "c.parquet", id=[7, 8, 9])
    run(spark, folders, write, allowOverwrites=True, onSplitError="quarantine")
    assert delivered.rows == [(0,), (1,), (7,), (8,), (9,)]
    quarantined = [row.split_id for row in state(spark, folders, "quarantine")]
    assert len(quarantined) == 1 + is_written_again
    assert all("c.parquet@" in split_id for split_id in quarantined)


def test_a_frame_that_the_function_leaves_cached_does_not_answer_for_a_newer_version_of_its_file(
    spark: SparkSession, folders: Folders
) -> None:
    arrived: list[list[Any]] = []

    def write(frame: DataFrame, _batch_id: int) -> None:
        arrived.append(sorted(tuple(row) for row in frame.persist().collect()))

    try:
        for ids in ([1], [2, 2]):
            land(folders, "a.parquet", id=ids)
            run(spark, folders, ids_to(write), allowOverwrites="true")
    finally:
        spark.catalog.clearCache()
    assert arrived == [[(1,)], [(2,), (2,)]]


def test_an_error_of_the_function_is_not_taken_for_an_error_of_a_file(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "a.parquet", id=[1])

    def fail(_frame: DataFrame, _batch_id: int) -> None:
        raise ValueError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run(spark, folders, ids_to(fail), onSplitError="quarantine")


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_file_that_cannot_be_read_because_the_query_is_stopped_is_read_by_the_next_run(
    spark: SparkSession, folders: Folders, is_cancelled: bool
) -> None:
    land(folders, "a.parquet", id=[1])

    def stop(frame: DataFrame, _batch_id: int) -> None:
        # What stop() does to a query: its jobs are cancelled, and its thread is interrupted.
        jvm = jvm_of(frame.sparkSession)
        if is_cancelled:
            context = jvm.org.apache.spark.SparkContext.getOrCreate()
            context.cancelJobGroupAndFutureJobs(context.getLocalProperty("spark.jobGroup.id"))
        else:
            jvm.java.lang.Thread.currentThread().interrupt()
        raise ValueError("the sink is closed")

    with suppress(StreamingQueryException):  # an interrupted query may end like a stopped one
        run(spark, folders, ids_to(stop), ignoreCorruptFiles=True)
    delivered = Delivered()
    run(spark, folders, ids_to(delivered), ignoreCorruptFiles=True)
    assert delivered.rows == [(1,)]


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


def delivered_by(
    spark: SparkSession, folders: Folders, native: dict[str, Any], **options: Any
) -> list[tuple[list[str], list[Any]]]:
    """The columns and rows of each batch of a query that runs to its end."""
    batches: dict[int, tuple[list[str], list[Any]]] = {}

    def write(frame: DataFrame, batch_id: int) -> None:
        batches[batch_id] = frame.columns, sorted((tuple(row) for row in frame.collect()), key=str)

    options = {"fileOrder": "name", **options}
    run(spark, folders, native_batches(write, **native), **options)
    return [batches[number] for number in sorted(batches)]


def quarantined(spark: SparkSession, folders: Folders) -> list[str]:
    return sorted(Path(row.split_id).name for row in state(spark, folders, "quarantine"))


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


def test_what_is_recorded_does_not_depend_on_files_that_are_quarantined(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a", ['{"x": 1}'])
    folders.land("b", ['{"x": 2.5}'])
    folders.land("c", ['{"X": 3}'])
    batches = delivered_by(spark, folders, {"format": "json"}, onSplitError="quarantine")
    assert batches == [(["x"], [(1.0,), (2.5,)])]
    assert quarantined(spark, folders) == ["c"]


def test_a_field_may_differ_from_its_partition_column_in_case(spark: SparkSession, folders: Folders) -> None:
    (folders.landing / "Year=1").mkdir(parents=True)
    (folders.landing / "Year=1" / "a").write_text('{"id": 1, "year": 7}')
    (batch,) = delivered_by(spark, folders, {"format": "json"})
    assert sorted(zip(batch[0], batch[1][0], strict=True)) == [("Year", 1), ("id", 1)]


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("csv", "sep", ""), ("csv", "header", "yes"), ("csv", "encoding", "UTF-99"), ("csv", "quote", "ab"),
        ("json", "encoding", "UTF-99"), ("json", "timeZone", "Mars/X"), ("json", "multiLine", "yes"),
    ],
)  # fmt: skip
def test_a_wrong_option_of_sparks_reader_is_not_an_error_of_the_files(
    spark: SparkSession, folders: Folders, kind: str, option: str, value: str
) -> None:
    folders.land("a", ['{"id": 1, "t": "2026-01-01"}' if kind == "json" else "1,2026-01-01"])
    native = {"format": kind, "schema": "id long, t timestamp"}
    with pytest.raises(StreamingQueryException):
        delivered_by(spark, folders, native | {option: value}, ignoreCorruptFiles="true")
    (batch,) = delivered_by(spark, folders, native, ignoreCorruptFiles="true")
    assert [row[0] for row in batch[1]] == [1]
