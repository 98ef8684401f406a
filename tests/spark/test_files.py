"""Files in a real session: formats, partitions, options and growing schemas, compared with Spark's source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from .streams import (
    DEADLINE_S,
    ENDING,
    UNTIL_END,
    Folders,
    each_batch,
    file_stream,
    lake_lines,
    run_files,
    run_to_end,
    running,
    to_lake,
    wait_for,
)

ORDERS = "id long, customer string, amount double, at timestamp"


def test_a_stream_of_json_has_the_rows_of_sparks_own_reader_in_the_session_time_zone(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"id":1,"customer":"Ada","amount":1.5,"at":"2026-03-29 01:30:00"}'])
    folders.land("b.json", ['{"id":2,"customer":null,"at":"2026-03-29T04:30:00+01:00"}', '{"id":"x"}'])
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    run_files(spark, folders, reader="json", schema=ORDERS, maxFilesPerTrigger=10000)
    expected = spark.read.schema(ORDERS).json(str(folders.landing))
    assert expected.where("at is not null").count() == 2
    written = spark.read.schema(ORDERS).parquet(str(folders.lake))
    assert_df_equality(written, expected, ignore_row_order=True)


def test_a_path_alone_is_read_by_the_reader_of_its_names_also_after_its_files_were_removed(
    spark: SparkSession, folders: Folders
) -> None:
    path = str(folders.landing)

    def run() -> list[int]:
        stream = spark.readStream.format("flip27").options(stateLocation=str(folders.state), **ENDING)
        run_to_end(to_lake(stream.load(path), folders))
        return sorted(row.id for row in spark.read.parquet(str(folders.lake)).collect())

    folders.land("a.json", ['{"id": 1}'])
    assert [row.id for row in spark.read.format("flip27").load(path).collect()] == [1]
    assert run() == [1]
    (folders.landing / "a.json").unlink()
    assert run() == [1]
    folders.land("b.JSON", ['{"id": 2}'])
    assert run() == [1, 2]


def test_a_large_file_is_read_in_ranges_by_several_tasks(spark: SparkSession, folders: Folders) -> None:
    lines = [f"{n:07d} {'x' * (n % 300)}" for n in range(60_000)]
    folders.land("large.txt", lines)
    assert (folders.landing / "large.txt").stat().st_size > 8 * 1024 * 1024
    run_files(spark, folders, maxPartitionBytes="1m", parallelism=3)
    assert lake_lines(spark, folders) == lines
    assert len(list(folders.lake.glob("part-*"))) == 3


def test_an_inferred_schema_grows_by_a_new_column_that_fails_the_query_once(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"id": 1}'])
    options = {"reader": "json", "schemaHints": "at timestamp"}
    frame = file_stream(spark, folders, **options)
    assert frame.schema.simpleString() == "struct<id:bigint,at:timestamp>"
    run_to_end(to_lake(frame, folders))
    folders.land("b.json", ['{"id": 2, "at": "2026-01-01T00:00:00Z"}', '{"id": 3, "name": "x"}'])
    with pytest.raises(StreamingQueryException, match="version 2 of its schema has the new columns"):
        run_files(spark, folders, **options)
    grown = file_stream(spark, folders, **options)
    assert grown.schema.simpleString() == "struct<id:bigint,name:string,at:timestamp>"
    run_to_end(to_lake(grown, folders))
    rows = spark.read.schema(grown.schema).parquet(str(folders.lake)).orderBy("id").collect()
    assert [(row.id, row.name, row.at is not None) for row in rows] == [
        (1, None, False),
        (2, None, True),
        (3, "x", False),
    ]


def test_a_given_schema_does_not_grow(spark: SparkSession, folders: Folders) -> None:
    folders.land("a.json", ['{"id": 1}'])
    options = {"enumerator": "files", "reader": "json", "schemaEvolutionMode": "addNewColumns"}
    frame = spark.read.format("flip27").options(**options).schema("id int").load(str(folders.landing))
    with pytest.raises(Exception, match="a schema is given, which cannot grow"):
        frame.collect()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.txt"))


@pytest.mark.parametrize("clean", ["archive", pytest.param("delete", marks=pytest.mark.long)])
def test_files_are_cleaned_only_after_their_batch_is_committed_so_a_repeated_batch_finds_them(
    spark: SparkSession, folders: Folders, tmp_path: Path, clean: str
) -> None:
    """The second batch fails after all of it has been written and before it is committed."""
    archive = tmp_path / "archive"
    options = {"cleanSource": clean, "maxFilesPerTrigger": 1}
    if clean == "archive":
        options["sourceArchiveDir"] = str(archive)
    for number in range(3):
        folders.land(f"{number}.txt", [f"line {number}"])
    seen: list[tuple[int, list[str]]] = []
    crashes = [1]

    def keep(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, [row.value for row in batch.collect()]))
        if batch_id in crashes:
            crashes.remove(batch_id)
            raise RuntimeError("crash")

    def start() -> StreamingQuery:
        frame = file_stream(spark, folders, ends=False, **options)
        return each_batch(frame, folders, keep, processingTime="50 milliseconds")

    with pytest.raises(StreamingQueryException, match="crash"):
        start().awaitTermination(DEADLINE_S)
    assert {"1.txt", "2.txt"} <= set(names(folders.landing))
    with running(start()) as query:
        wait_for(lambda: not names(folders.landing), query)
    assert seen == [(0, ["line 0"]), (1, ["line 1"]), (1, ["line 1"]), (2, ["line 2"])]
    archived = names(archive / str(folders.landing).lstrip("/"))
    assert archived == (["0.txt", "1.txt", "2.txt"] if clean == "archive" else [])


def batches(frame: DataFrame, checkpoint: Path) -> list[list[str]]:
    """Run a query to its end; return the lines of each batch."""
    found: list[list[str]] = []

    def keep(batch: DataFrame, _id: int) -> None:
        found.append(sorted(row.value for row in batch.collect()))

    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    run_to_end(writer.foreachBatch(keep).trigger(**UNTIL_END).start())
    return found


def put(path: Path, modified_s: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{path.parent.name}/{path.name}\n")
    os.utime(path, (modified_s, modified_s))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"latestFirst": "true", "maxFilesPerTrigger": "2"}, marks=pytest.mark.long),
        {"maxFileAge": "1h"},
    ],
    ids=str,
)
def test_the_batches_are_the_same_as_those_of_sparks_own_source_for_a_glob_and_its_options(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    landing, day = tmp_path / "landing", 1_700_000_000
    for number, folder in enumerate(("2026-01", "2026-02", "2026-02", "2027-01", "other")):
        put(landing / folder / f"{number}.txt", day + number)
    put(landing / "2026-01" / "deep" / "below.txt", day)
    glob = f"{landing}/202[67]-*"
    read: dict[str, list[list[str]]] = {"flip27": [], "text": []}
    for late in (None, ("old.txt", day - 7200), ("young.txt", day - 60)):
        if late is not None:
            put(landing / "2026-02" / late[0], late[1])
        for source, found in read.items():
            reader = spark.readStream.format(source).options(**options)
            if source == "flip27":
                reader = reader.options(
                    enumerator="files",
                    reader="text",
                    stateLocation=str(tmp_path / "ours" / "state"),
                    **ENDING,
                )
            found += batches(reader.load(glob), tmp_path / source)
    assert read["flip27"] == read["text"]
    assert len(read["text"]) >= 2
