"""The ways in which Spark uses a source, each tested in a real session."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from tests.spark_features import has, needs

from .streams import (
    DEADLINE_S,
    Folders,
    committed_batches,
    each_batch,
    file_stream,
    forget_commit,
    lake_lines,
    run_files,
    run_to_end,
    running,
    to_lake,
    until_driver_has_ended,
    wait_for,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def numbers(start: int, end: int) -> list[str]:
    return [f"{n:03d}" for n in range(start, end)]


def test_files_arrive_once_over_two_runs(spark: SparkSession, folders: Folders) -> None:
    for i in range(4):
        folders.land(f"{i}.txt", numbers(i * 10, i * 10 + 10))
    run_files(spark, folders, maxFilesPerTrigger=3)
    assert committed_batches(folders) == [0, 1]
    assert lake_lines(spark, folders) == numbers(0, 40)

    folders.land("late.txt", numbers(40, 45))
    run_files(spark, folders)
    assert lake_lines(spark, folders) == numbers(0, 45)

    run_files(spark, folders)
    assert committed_batches(folders) == [0, 1, 2]


def test_a_replayed_batch_is_the_same_batch(spark: SparkSession, folders: Folders) -> None:
    """Batch 0 and later batches are repeated although new files have arrived (R3, S95)."""
    batches: list[tuple[int, list[str]]] = []

    def remember(frame: DataFrame, batch_id: int) -> None:
        batches.append((batch_id, sorted(row.value for row in frame.collect())))

    def run() -> None:
        run_to_end(each_batch(file_stream(spark, folders), folders, remember))

    folders.land("a.txt", numbers(0, 10))
    run()
    for i in range(5):
        folders.land(f"later-{i}.txt", numbers(10 + i, 11 + i))
        last = committed_batches(folders)[-1]
        forget_commit(folders, last)
        run()
        assert batches[-2] == batches[-3]
        assert batches[-1] == (last + 1, numbers(10 + i, 11 + i))
    assert committed_batches(folders) == [0, 1, 2, 3, 4, 5]


def test_an_empty_first_batch_is_followed_by_full_ones(spark: SparkSession, folders: Folders) -> None:
    with running(
        to_lake(file_stream(spark, folders, ends=False), folders, processingTime="0 seconds")
    ) as query:
        wait_for(lambda: committed_batches(folders) == [0], query)
        folders.land("a.txt", numbers(0, 3))
        wait_for(lambda: committed_batches(folders) == [0, 1], query)
    assert lake_lines(spark, folders) == numbers(0, 3)


def test_a_self_union_reads_every_file_twice(spark: SparkSession, folders: Folders) -> None:
    """Spark requests the partitions of one batch twice."""
    folders.land("a.txt", numbers(0, 5))
    folders.land("b.txt", numbers(5, 10))
    frame = file_stream(spark, folders, maxFilesPerTrigger=1)
    run_to_end(to_lake(frame.union(frame), folders))
    assert lake_lines(spark, folders) == sorted(numbers(0, 10) * 2)


def test_an_idle_source_does_not_hold_up_a_busy_one(spark: SparkSession, tmp_path: Path) -> None:
    busy, idle = Folders(tmp_path / "busy"), Folders(tmp_path / "idle")
    idle.land("only.txt", ["idle"])
    for i in range(3):
        busy.land(f"{i}.txt", numbers(i, i + 1))
    both = file_stream(spark, busy, maxFilesPerTrigger=1).union(file_stream(spark, idle))
    run_to_end(to_lake(both, busy))
    assert lake_lines(spark, busy) == ["000", "001", "002", "idle"]
    lines = (busy.checkpoint / "offsets" / "2").read_text().splitlines()
    assert [json.loads(line)["checkpoint"] for line in lines[2:]] == [3, 1]
    idle.land("again.txt", ["idle again"])
    run_to_end(to_lake(both, busy))
    assert lake_lines(spark, busy) == ["000", "001", "002", "idle", "idle again"]


@pytest.mark.parametrize("by", ["trigger", "option"])
def test_available_now_reads_what_existed_at_its_start_and_ends(
    spark: SparkSession, folders: Folders, by: str
) -> None:
    for i in range(3):
        folders.land(f"{i}.txt", [str(i)])

    def another_file(frame: DataFrame, batch_id: int) -> None:
        frame.write.mode("append").parquet(str(folders.lake))
        folders.land(f"meanwhile-{batch_id}.txt", [f"meanwhile-{batch_id}"])

    def run() -> None:
        if by == "trigger":
            run_to_end(each_batch(file_stream(spark, folders, maxFilesPerTrigger=1), folders, another_file))
            return
        frame = file_stream(spark, folders, maxFilesPerTrigger=1, availableNow=True)
        with running(each_batch(frame, folders, another_file, processingTime="0 seconds")) as query:
            query.processAllAvailable()

    run()
    assert lake_lines(spark, folders) == ["0", "1", "2"]
    run()
    assert lake_lines(spark, folders) == ["0", "1", "2", "meanwhile-0", "meanwhile-1", "meanwhile-2"]


def test_a_query_continues_elsewhere_with_copies_of_its_checkpoint_and_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two = Folders(tmp_path / "one"), Folders(tmp_path / "two")
    for i in range(3):
        one.land(f"{i}.txt", [f"first {i}"])
    run_files(spark, one)
    until_driver_has_ended(one)
    shutil.copytree(one.checkpoint, two.checkpoint)
    shutil.rmtree(one.checkpoint)

    one.land("new.txt", ["after the move"])
    frame = file_stream(spark, one, stateLocation=str(two.state))
    # The file sink keeps its log next to its output, so a new output starts empty.
    run_to_end(each_batch(frame, two, lambda batch, _: batch.write.mode("append").parquet(str(two.lake))))
    assert lake_lines(spark, two) == ["after the move"]


@pytest.mark.slow
@pytest.mark.parametrize("trigger", ["once", "availableNow"])
def test_each_run_of_a_batch_without_limits_reads_what_is_new(
    spark: SparkSession, folders: Folders, trigger: str
) -> None:
    for number in range(3):
        folders.land(f"{number}.txt", [str(number)])
        query = to_lake(file_stream(spark, folders, ends=False), folders, **{trigger: True})
        assert query.awaitTermination(DEADLINE_S)
        assert committed_batches(folders) == list(range(number + 1))
    assert lake_lines(spark, folders) == ["0", "1", "2"]


@needs("Trigger.Once")
def test_trigger_once_reads_everything_in_one_batch_whatever_the_limits(
    spark: SparkSession, folders: Folders
) -> None:
    for i in range(4):
        folders.land(f"{i}.txt", [str(i)])
    frame = file_stream(spark, folders, maxFilesPerTrigger=1, maxBytesPerTrigger="1b")
    run_to_end(to_lake(frame, folders, once=True))
    assert committed_batches(folders) == [0]
    assert lake_lines(spark, folders) == ["0", "1", "2", "3"]


def test_a_batch_read_returns_all_rows_without_a_state_and_none_of_an_empty_folder(
    spark: SparkSession, folders: Folders
) -> None:
    folders.landing.mkdir(parents=True)
    frame = spark.read.format("flip27").options(enumerator="files", reader="text")
    assert frame.load(str(folders.landing)).count() == 0
    folders.land("a.txt", ["1", "2"])
    loaded = frame.load(str(folders.landing))
    assert sorted(row.value for row in loaded.collect()) == ["1", "2"]
    folders.land("b.txt", ["3"])
    assert loaded.count() == (2 if has("the plan of a loaded batch frame") else 3)
    assert frame.load(str(folders.landing)).count() == 3


@needs("`readStream.name`")
def test_sources_with_names_keep_their_positions_when_they_change_places(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two = Folders(tmp_path / "one"), Folders(tmp_path / "two")

    def stream(folders: Folders, name: str) -> DataFrame:
        reader = spark.readStream.format("flip27").options(enumerator="files", reader="text", uid=name)
        return reader.option("stateLocation", str(one.state)).name(name).load(str(folders.landing))

    one.land("a.txt", ["one"])
    two.land("a.txt", ["two"])
    evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    spark.conf.set(evolution, "true")
    try:
        run_to_end(to_lake(stream(one, "first").union(stream(two, "second")), one))
        two.land("b.txt", ["two again"])
        run_to_end(to_lake(stream(two, "second").union(stream(one, "first")), one))
    finally:
        spark.conf.unset(evolution)
    assert lake_lines(spark, one) == ["one", "two", "two again"]


@pytest.mark.slow
def test_a_query_with_asynchronous_progress_tracking_loses_no_row(
    spark: SparkSession, folders: Folders
) -> None:
    """Its offset log leaves out batches, so at a restart it looks like an older copy; they are read again."""
    seen = folders.root / "seen"
    seen.mkdir()

    is_seen = fn.udf(lambda line: (seen / line).touch() is None, "boolean")

    def start(**options: Any) -> StreamingQuery:
        frame = file_stream(spark, folders, ends=False, maxFilesPerTrigger=1, **options)
        writer = (
            frame.where(is_seen("value"))
            .writeStream.format("noop")
            .option("checkpointLocation", str(folders.checkpoint))
        )
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        return writer.option("asyncProgressTrackingCheckpointIntervalMs", "600000").start()

    def land(*names: str) -> None:
        for name in names:
            folders.land(f"{name}.txt", [name])

    land("a", "b", "c")
    with running(start()) as query:
        query.processAllAvailable()
    assert names(seen) == ["a", "b", "c"]
    refused = pytest.raises(StreamingQueryException, match="set allowRolledBackCheckpoint=true")
    with refused, running(start()) as query:
        query.awaitTermination(DEADLINE_S)
    for name in "de":
        land(name)
        with running(start(allowRolledBackCheckpoint="true")) as query:
            wait_for(lambda n=name: n in names(seen), query)
    assert names(seen) == ["a", "b", "c", "d", "e"]


def test_python_and_jvm_have_the_requested_version(spark: SparkSession) -> None:
    wanted = os.environ.get("FLIP27_TEST_SPARK_VERSION", pyspark.__version__)
    assert (pyspark.__version__, spark.version) == (wanted, wanted)


INTERVAL = "61 seconds"


@pytest.mark.long
def test_a_query_that_sleeps_for_a_minute_continues(spark: SparkSession, folders: Folders) -> None:
    folders.land("a.txt", ["1"])
    with running(to_lake(file_stream(spark, folders, ends=False), folders, processingTime=INTERVAL)) as query:
        wait_for(lambda: committed_batches(folders) == [0], query)
        folders.land("b.txt", ["2"])
        wait_for(lambda: committed_batches(folders) == [0, 1], query, deadline_s=150.0)
    assert lake_lines(spark, folders) == ["1", "2"]
