"""The errors that a user of Spark sees; ``driver/test_damaged_state.py`` has those about damaged state."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .streams import Folders, committed_batches, run_files, run_to_end, to_lake


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
