"""The errors that a user of Spark sees; ``driver/test_damaged_state.py`` has those about damaged state."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .streams import Folders, run_files


def failure(spark: SparkSession, folders: Folders, **options: Any) -> str:
    """Run a query that fails; return its message."""
    with pytest.raises(PySparkException) as caught:
        run_files(spark, folders, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxFilePerTrigger": 3}, "option maxfilepertrigger is unknown; did you mean maxFilesPerTrigger"),
        ({"enumerator": "file"}, "enumerator 'file' is unknown; did you mean 'files'?"),
        ({"reader": "not_installed_anywhere:Reader"}, "No module named 'not_installed_anywhere'"),
        ({"reader": "not_installed_anywhere:Reader"}, "with pip on the driver and on every executor node"),
        ({"reader": "json"}, 'add .schema("id long, name string, ...")'),
    ],
)
def test_a_mistake_is_refused_with_what_to_write_instead(
    spark: SparkSession, folders: Folders, options: dict[str, Any], says: str
) -> None:
    assert says in failure(spark, folders, **options)
