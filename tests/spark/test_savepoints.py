"""Savepoints on real Spark: of a killed query, moved to a bucket; of a query together with its counts."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, to_timestamp, window
from pyspark.sql.streaming import StreamingQuery

from flip27_source import savepoints
from tests.s3_server import S3Bucket

from .streams import (
    DEADLINE_S,
    ENDING,
    UNTIL_END,
    Folders,
    committed_batches,
    each_batch,
    file_stream,
    run_to_end,
    until_driver_has_ended,
    wait_for,
)


def collected(
    frame: DataFrame, folders: Folders, **trigger: Any
) -> tuple[StreamingQuery, dict[int, list[str]]]:
    """Start a query; return it with the lines of its batches, which grow as it runs."""
    batches: dict[int, list[str]] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        batches[batch_id] = [row.value for row in batch.collect()]

    return each_batch(frame, folders, keep, **trigger), batches


def kill_coordinator(folders: Folders, query: StreamingQuery) -> None:
    """Kill the process in which Spark runs the source's coordinator, with SIGKILL."""
    (record,) = folders.state.glob("*/drivers/*.json")
    os.kill(json.loads(record.read_text())["process"], signal.SIGKILL)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(DEADLINE_S)


def test_rows_of_a_killed_query_and_of_its_fork_from_a_bucket_add_up_exactly_S79_S80(
    spark: SparkSession, tmp_path: Path, s3_bucket: S3Bucket
) -> None:
    original, fork, bucket = Folders(tmp_path / "home"), Folders(tmp_path / "fork"), s3_bucket
    lines = [f"{number:02d}-{row}" for number in range(30) for row in range(3)]
    for number in range(30):
        original.land(f"{number}.txt", [line for line in lines if line.startswith(f"{number:02d}-")])
    frame = file_stream(spark, original, ends=False, maxFilesPerTrigger="2", requestInterval="50ms")
    query, before = collected(frame, original, processingTime="0 seconds")
    wait_for(lambda: len(committed_batches(original)) >= 2, query)
    made = savepoints.create(state=str(original.state), to=str(tmp_path / "saved"))
    assert made.requested
    kill_coordinator(original, query)

    # The files and the savepoint are moved separately; the original's state and checkpoint are deleted.
    shutil.rmtree(original.checkpoint)
    moved = shutil.move(tmp_path / "home", tmp_path / "elsewhere")
    saved = f"{bucket.name}/saved/{Path(made.directory).name}"
    bucket.file_system.put(f"{made.directory}/", f"{saved}/", recursive=True)
    shutil.rmtree(made.directory)
    resumed = (
        spark.readStream.format("flip27")
        .options(enumerator="files", reader="text", stateLocation=str(fork.state), **bucket.options)
        .options(savepoint=f"s3://{saved}", pathRewrite=f"{original.landing}={moved}/landing")
        .options(parallelism="1", maxPartitionBytes="1m", **ENDING)
        .load(f"{moved}/landing")
    )
    query, after = collected(resumed, fork)
    run_to_end(query)
    assert made.batch_id is not None
    rows = [row for batch_id, rows in before.items() if batch_id <= made.batch_id for row in rows]
    rows += [row for batch in after.values() for row in batch]
    assert sorted(rows) == lines


@pytest.mark.slow
def test_a_windowed_count_that_is_forked_while_it_runs_continues_like_the_original(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders = Folders(tmp_path / "original")
    found: dict[str, int] = {}

    def counting(checkpoint: Path, state: str, files: int, *, ends: bool) -> StreamingQuery:
        found.clear()

        def collect(frame: DataFrame, batch_id: int) -> None:
            found.clear()
            found.update({str(row.start): row.number for row in frame.collect()})

        lines = file_stream(spark, folders, ends=ends, stateLocation=state, maxFilesPerTrigger=files)
        counted = lines.groupBy(window(to_timestamp("value"), "1 hour")).agg(count("*").alias("number"))
        writer: Any = counted.select("window.start", "number").writeStream.foreachBatch(collect)
        writer.outputMode("complete").option("checkpointLocation", str(checkpoint))
        trigger = UNTIL_END if ends else {"processingTime": "0 seconds"}
        return writer.trigger(**trigger).start()  # type: ignore[no-any-return]

    def counts(checkpoint: Path, state: str) -> dict[str, int]:
        run_to_end(counting(checkpoint, state, 100, ends=True))
        return dict(found)

    for number in range(8):
        folders.land(f"{number}", [f"2026-01-01 1{number % 2}:0{number}:00", "2026-01-01 12:00:00"])
    query = counting(folders.checkpoint, str(folders.state), 1, ends=False)
    wait_for(lambda: len(committed_batches(folders)) >= 2, query)
    made = savepoints.create(state=str(folders.state), to=str(tmp_path / "saved"), query=True)
    query.stop()
    original = counts(folders.checkpoint, str(folders.state))
    until_driver_has_ended(folders)
    shutil.rmtree(folders.checkpoint)

    restored = savepoints.restore_query(made.directory, str(tmp_path / "fork"))
    assert restored.batch_id == made.batch_id
    assert counts(tmp_path / "fork", restored.state_location) == original
    assert original == {"2026-01-01 10:00:00": 4, "2026-01-01 11:00:00": 4, "2026-01-01 12:00:00": 8}


def test_a_query_is_stopped_with_a_savepoint_without_naming_its_state_location(
    spark: SparkSession, tmp_path: Path
) -> None:
    original, fork = Folders(tmp_path / "home"), Folders(tmp_path / "fork")
    original.land("1.txt", ["one"])
    query, before = collected(file_stream(spark, original, ends=False), original, processingTime="0 seconds")
    wait_for(lambda: len(committed_batches(original)) >= 1, query)
    made = savepoints.stop_with_savepoint(query, str(tmp_path / "saved"))
    assert not query.isActive
    original.land("2.txt", ["two"])
    options = {"stateLocation": str(fork.state), "savepoint": made.directory}
    query, after = collected(file_stream(spark, original, **options), fork)
    run_to_end(query)
    assert [line for lines in (*before.values(), *after.values()) for line in lines] == ["one", "two"]
