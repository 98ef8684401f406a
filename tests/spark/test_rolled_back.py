"""Spark's checkpoint is replaced by an older copy, and the state location is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from .streams import Folders, file_stream, lake_lines, run_to_end, to_lake


def run(spark: SparkSession, folders: Folders, **options: str) -> None:
    state = str(folders.root / "state")
    run_to_end(to_lake(file_stream(spark, folders, stateLocation=state, **options), folders))


def test_an_older_copy_of_the_checkpoint_stops_the_query_before_an_idempotent_sink_loses_rows(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    """Spark's file sink skips a batch number that it already has, whatever the batch contains now."""
    for name in "abc":
        folders.land(name, [name])
        run(spark, folders)
        if name == "a":
            shutil.copytree(folders.checkpoint, tmp_path / "copy")
    newest = shutil.copytree(folders.checkpoint, tmp_path / "newest")
    shutil.rmtree(folders.checkpoint)
    shutil.copytree(tmp_path / "copy", folders.checkpoint)
    folders.land("d", ["d"])
    with pytest.raises(StreamingQueryException, match="is an older copy"):
        run(spark, folders)
    shutil.rmtree(folders.checkpoint)
    shutil.copytree(newest, folders.checkpoint)
    run(spark, folders)
    assert lake_lines(spark, folders) == ["a", "b", "c", "d"]


def test_a_query_and_its_sink_restored_to_one_moment_read_the_later_rows_again(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    for name in "abc":
        folders.land(name, [name])
        run(spark, folders)
        if name == "a":
            shutil.copytree(folders.checkpoint, tmp_path / "copy")
            shutil.copytree(folders.lake, tmp_path / "lake of then")
    for place, copy in ((folders.checkpoint, "copy"), (folders.lake, "lake of then")):
        shutil.rmtree(place)
        shutil.copytree(tmp_path / copy, place)
    folders.land("d", ["d"])
    run(spark, folders, allowRolledBackCheckpoint="true")
    run(spark, folders)
    assert lake_lines(spark, folders) == ["a", "b", "c", "d"]
