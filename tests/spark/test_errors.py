"""The errors that a user of Spark sees; ``driver/test_damaged_state.py`` has those about damaged state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .streams import Folders, lake_lines, run_files


def failure(spark: SparkSession, folders: Folders, **options: Any) -> str:
    """Run a query that fails; return its message."""
    with pytest.raises(PySparkException) as caught:
        run_files(spark, folders, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxFilePerTrigger": 3}, "option maxfilepertrigger is unknown; did you mean maxFilesPerTrigger"),
        (
            {"maxFilesPerTrigger": "many"},
            "maxFilesPerTrigger has the value 'many': a whole number is expected",
        ),
        ({"enumerator": "file"}, "enumerator 'file' is unknown; did you mean 'files'?"),
        ({"reader": "jsonl"}, "reader 'jsonl' is unknown; did you mean 'json'?"),
        ({"reader": "json:Nothing"}, "module json has no Nothing"),
        ({"reader": "not_installed_anywhere:Reader"}, "No module named 'not_installed_anywhere'"),
        ({"reader": "not_installed_anywhere:Reader"}, "with pip on the driver and on every executor node"),
        ({"reader": "json"}, 'add .schema("id long, name string, ...")'),
    ],
)
def test_a_mistake_is_refused_with_what_to_write_instead(
    spark: SparkSession, folders: Folders, options: dict[str, Any], says: str
) -> None:
    assert says in failure(spark, folders, **options)


def test_a_state_location_that_cannot_be_written_stops_the_query_before_any_row(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    folders.land("a.txt", ["1"])
    (tmp_path / "file").touch()
    message = failure(spark, folders, stateLocation=str(tmp_path / "file" / "state"))
    assert "cannot write" in message
    assert "check that the location exists" in message
    run_files(spark, folders)
    assert lake_lines(spark, folders) == ["1"]
