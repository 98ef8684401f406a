"""The errors that a user of Spark sees; ``driver/test_damaged_state.py`` has those about damaged state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .streams import Folders, file_stream, forget_commit, lake_lines, run_to_end, to_lake


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def failure(spark: SparkSession, folders: Folders, **options: Any) -> str:
    """Run a query that fails; return its message."""
    with pytest.raises(PySparkException) as caught:
        run_to_end(to_lake(file_stream(spark, folders, **options), folders))
    return str(caught.value)


def test_an_unknown_option_is_refused_with_a_suggestion(spark: SparkSession, folders: Folders) -> None:
    message = failure(spark, folders, maxFilePerTrigger=3)
    assert "option maxfilepertrigger is unknown; did you mean maxFilesPerTrigger" in message


def test_the_error_for_a_malformed_option_says_what_is_expected(
    spark: SparkSession, folders: Folders
) -> None:
    message = failure(spark, folders, maxFilesPerTrigger="many")
    assert "option maxFilesPerTrigger has the value 'many': a whole number is expected" in message


def test_unknown_names_are_refused_with_the_known_ones(spark: SparkSession, folders: Folders) -> None:
    assert "enumerator 'file' is unknown; did you mean 'files'?" in failure(spark, folders, enumerator="file")
    assert "reader 'jsonl' is unknown; did you mean 'json'?" in failure(spark, folders, reader="jsonl")
    assert "module json has no Nothing" in failure(spark, folders, reader="json:Nothing")


def test_the_error_for_a_missing_package_says_where_to_install_it(
    spark: SparkSession, folders: Folders
) -> None:
    message = failure(spark, folders, reader="not_installed_anywhere:Reader")
    assert "No module named 'not_installed_anywhere'" in message
    assert "with pip on the driver and on every executor node" in message


def test_the_error_for_a_missing_schema_says_how_to_give_one(spark: SparkSession, folders: Folders) -> None:
    message = failure(spark, folders, reader="json")
    assert 'add .schema("id long, name string, ...")' in message


def test_a_path_that_is_missing_or_not_set_is_refused(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    base = spark.readStream.format("flip27").options(enumerator="files", reader="text")
    with pytest.raises(PySparkException, match="does not exist"):
        run_to_end(to_lake(base.load(str(tmp_path / "nowhere")), folders))
    with pytest.raises(PySparkException, match="option path is not set"):
        run_to_end(to_lake(base.load(), folders))


def test_a_state_location_that_cannot_be_written_stops_the_query_before_any_row(
    spark: SparkSession, folders: Folders, tmp_path: Path
) -> None:
    folders.land("a.txt", ["1"])
    (tmp_path / "file").touch()
    message = failure(spark, folders, stateLocation=str(tmp_path / "file" / "state"))
    assert "cannot write" in message
    assert "check that the location exists" in message
    run_to_end(to_lake(file_stream(spark, folders), folders))
    assert lake_lines(spark, folders) == ["1"]


def test_a_file_that_vanished_before_it_was_read_fails_the_batch_by_name(
    spark: SparkSession, folders: Folders
) -> None:
    """R12: a file is never skipped silently."""
    lines: list[str] = []

    def remember(frame: DataFrame, batch_id: int) -> None:
        lines.extend(row.value for row in frame.collect())

    def run() -> None:
        writer = file_stream(spark, folders).writeStream.foreachBatch(remember)
        writer = writer.option("checkpointLocation", str(folders.checkpoint))
        run_to_end(writer.trigger(availableNow=True).start())

    folders.land("a.txt", ["1"])
    folders.land("b.txt", ["2"])
    run()
    forget_commit(folders, 0)
    (folders.landing / "a.txt").rename(folders.root / "a.txt")
    with pytest.raises(PySparkException, match=f"{folders.landing}/a.txt"):
        run()
    (folders.root / "a.txt").rename(folders.landing / "a.txt")
    run()
    assert sorted(lines) == ["1", "1", "2", "2"]
