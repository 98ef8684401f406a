"""The errors that a user of Spark sees; ``driver/test_damaged_state.py`` has those about damaged state."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.cli.command_line import flip27

from .streams import (
    Folders,
    committed_batches,
    lake_lines,
    run_files,
    run_to_end,
    to_lake,
    until_driver_has_ended,
)


def failure(spark: SparkSession, folders: Folders, **options: Any) -> str:
    """Run a query that fails; return its message."""
    with pytest.raises(PySparkException) as caught:
        run_files(spark, folders, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxFilePerTrigger": 3}, "option maxFilePerTrigger is unknown; did you mean maxFilesPerTrigger"),
        ({"enumerator": "file"}, "enumerator 'file' is unknown; did you mean 'files'?"),
        ({"reader": "not_installed_anywhere:Reader"}, "No module named 'not_installed_anywhere'"),
        ({"reader": "not_installed_anywhere:Reader"}, "with pip on the driver and on every executor node"),
        ({"reader": "json"}, 'add .schema("id long, name string, ...")'),
        ({"reader": None}, "option reader is not set, and there is no file"),
        ({"latestFirst": "true", "fileOrder": "name"}, "option latestFirst is true"),
    ],
)
def test_a_mistake_is_refused_with_what_to_write_instead(
    spark: SparkSession, folders: Folders, options: dict[str, Any], says: str
) -> None:
    assert says in failure(spark, folders, **options)


def test_with_a_schema_the_query_says_before_its_first_batch_that_the_path_does_not_exist(
    spark: SparkSession, folders: Folders
) -> None:
    """Spark does not call the source in load() then."""
    frame = spark.readStream.format("flip27").option("reader", "json").schema("id long")
    with pytest.raises(PySparkException, match="landing does not exist") as caught:
        run_to_end(to_lake(frame.load(str(folders.landing)), folders))
    assert len(str(caught.value).splitlines()) < 20
    assert committed_batches(folders) == []


def test_the_file_on_which_a_query_has_ended_is_in_its_state_and_the_way_past_it_is_true(
    spark: SparkSession, folders: Folders
) -> None:
    folders.land("a.json", ['{"value": "a"}'])
    folders.land("b.json", ['{"value": '])
    options = {"reader": "json", "schema": "value string", "mode": "FAILFAST"}
    failure(spark, folders, **options)
    until_driver_has_ended(folders)
    (source,) = flip27("watch", folders.checkpoint, "--once", "--json").data
    assert source["condition"] == "failed"
    assert f"SplitReadError: {folders.landing}/b.json, byte 0: the record is malformed" in source["error"]
    assert "restart the query with onSplitError=quarantine" in source["remedy"]
    run_files(spark, folders, **options, onSplitError="quarantine")
    assert lake_lines(spark, folders) == ["a"]
    until_driver_has_ended(folders)
    (source,) = flip27("watch", folders.checkpoint, "--once", "--json").data
    assert (source["condition"], source["error"], source["quarantined"]) == ("stopped", None, 1)
