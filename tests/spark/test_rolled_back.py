"""Spark's checkpoint is replaced by an older copy, and the state location is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from .streams import Folders, lake_lines, run_files


def run(spark: SparkSession, folders: Folders) -> None:
    run_files(spark, folders, stateLocation=str(folders.root / "state"))


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
