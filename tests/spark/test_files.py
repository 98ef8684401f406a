"""Files of every built-in format, read in a real session and compared with Spark's own readers."""

from __future__ import annotations

from pathlib import Path

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from .streams import Folders, lake_lines, run_files

ORDERS = "id long, customer string, amount double, at timestamp"


def land_orders(folders: Folders) -> None:
    folders.land("a.json", ['{"id":1,"customer":"Ada","amount":1.5,"at":"2026-03-29 01:30:00"}'])
    folders.land("b.json", ['{"id":2,"customer":null,"at":"2026-03-29T04:30:00+01:00"}', '{"id":"x"}'])


def test_a_stream_of_json_has_the_rows_of_sparks_own_reader_in_the_session_time_zone(
    spark: SparkSession, folders: Folders
) -> None:
    land_orders(folders)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    run_files(spark, folders, reader="json", schema=ORDERS, maxFilesPerTrigger=10000)
    expected = spark.read.schema(ORDERS).json(str(folders.landing))
    assert expected.where("at is not null").count() == 2
    written = spark.read.schema(ORDERS).parquet(str(folders.lake))
    assert_df_equality(written, expected, ignore_row_order=True)


def test_every_reader_returns_the_rows_of_sparks_own_reader(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id long, name string, price double"
    rows = spark.createDataFrame([(1, "ä", 0.5), (2, None, None), (3, "x,y", -1e9)], schema)
    for name, extra in (("json", {}), ("csv", {"header": "true"}), ("parquet", {})):
        folder = str(tmp_path / name)
        rows.coalesce(1).write.options(**extra).format(name).save(folder)
        ours = spark.read.format("flip27").options(enumerator="files", reader=name, **extra)
        theirs = spark.read.format(name).options(**extra).schema(schema).load(folder)
        assert_df_equality(ours.schema(schema).load(folder), theirs, ignore_row_order=True)
    folder = str(tmp_path / "json")
    ours = spark.read.format("flip27").options(enumerator="files", reader="binary").load(folder)
    theirs = spark.read.format("binaryFile").load(folder)
    assert_df_equality(ours, theirs, ignore_row_order=True, ignore_nullable=True)


def test_a_large_file_is_read_in_ranges_by_several_tasks(spark: SparkSession, folders: Folders) -> None:
    lines = [f"{n:07d} {'x' * (n % 300)}" for n in range(60_000)]
    folders.land("large.txt", lines)
    assert (folders.landing / "large.txt").stat().st_size > 8 * 1024 * 1024
    run_files(spark, folders, maxPartitionBytes="1m", parallelism=3)
    assert lake_lines(spark, folders) == lines
    assert len(list(folders.lake.glob("part-*"))) == 3
