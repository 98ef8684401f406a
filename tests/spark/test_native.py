"""Native reads: flip27 plans the files, Spark's own readers read them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from flip27_source.native import native_batches
from flip27_source.native.planned_tasks import files_without_tasks
from flip27_source.options import Options
from tests.spark.jvm import jvm_of, query_execution

from .native_runs import Delivered, damage, delivered_by, ids_to, land, run, shown_of, state
from .streams import Folders, forget_commit

ODD_NAMES = (
    "a b.parquet", "100%25.parquet", "glob*[1]{x,y}?.parquet", "back\\slash.parquet", "d*.parquet",
    "käse#1.parquet", "line\nfeed.parquet",
)  # fmt: skip


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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("csv", "sep", ""), ("csv", "header", "yes"), ("csv", "encoding", "UTF-99"), ("csv", "quote", "ab"),
        ("json", "encoding", "UTF-99"), ("json", "timeZone", "Mars/X"), ("json", "multiLine", "yes"),
        ("csv", "timestampFormat", "YYYY-MM-dd"),
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


def test_a_query_that_ends_on_a_file_or_on_its_function_has_failed_with_an_error_that_says_so(
    spark: SparkSession, folders: Folders
) -> None:
    land(folders, "a.parquet", id=[1])
    bad = land(folders, "b.parquet", id=[2])
    content = bad.read_bytes()
    damage(bad)
    planned = bad.stat()
    secret = "a-key-that-no-state-may-have"

    def fail(_frame: DataFrame, _batch_id: int) -> None:
        raise ValueError(f"the sink refuses {secret}")

    with pytest.raises(StreamingQueryException):
        run(spark, folders, ids_to(Delivered()))
    (shown,) = shown_of(folders)
    assert shown["condition"] == "failed"
    assert f"{bad} cannot be read by Spark as parquet" in shown["error"]
    assert "is not a Parquet file" in shown["error"], "the cause comes after a trace of the JVM"
    assert "onSplitError=quarantine" in shown["remedy"]

    bad.write_bytes(content)
    os.utime(bad, ns=(planned.st_atime_ns, planned.st_mtime_ns))
    with pytest.raises(StreamingQueryException):
        run(spark, folders, ids_to(fail, **{"storage.secret": secret}))
    (shown,) = shown_of(folders)
    assert (shown["condition"], shown["error"]) == ("failed", "ValueError: the sink refuses ***")


def test_more_unreadable_files_than_allowed_are_shown_with_the_remedy_for_that(
    spark: SparkSession, folders: Folders
) -> None:
    damage(land(folders, "a.parquet", id=[1]))
    with pytest.raises(StreamingQueryException):
        run(spark, folders, ids_to(Delivered()), onSplitError="quarantine", maxQuarantinedSplits=0)
    (shown,) = shown_of(folders)
    assert shown["error"].startswith("QuarantineError: 1 files of one batch cannot be read")
    assert "raise maxQuarantinedSplits" in shown["remedy"]
