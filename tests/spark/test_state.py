"""State as tables on real Spark, without registration: of queries that have ended, run, or were moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from flip27_source.state_tables.views import VIEWS

from .streams import Folders, committed_batches, file_stream, filters_pushed, run_files, to_lake, wait_for


def state(spark: SparkSession, location: Path, **options: str) -> DataFrame:
    return spark.read.format("flip27_state").options(**options).load(str(location))


def run_batches(spark: SparkSession, folders: Folders, *names: str, **options: str) -> None:
    """Run a query, which reads one file in each batch, to its end."""
    for name in names:
        folders.land(name, ["x", "y"])
    run_files(spark, folders, maxFilesPerTrigger="1", **options)


def test_every_view_has_its_declared_columns_and_can_be_queried(
    spark: SparkSession, folders: Folders
) -> None:
    run_batches(spark, folders, "a.txt", "b.txt", taskReports="always")
    counts = {}
    for name, view in VIEWS.items():
        frame = state(spark, folders.checkpoint, view=name)
        assert frame.columns == view.schema.names
        counts[name] = len(frame.collect())
    assert counts == {
        "checkpoints": 2, "splits": 2, "files": 2, "quarantine": 0, "losses": 0, "reports": 2, "actions": 0,
        "source": 1,
    }  # fmt: skip
    assert state(spark, folders.checkpoint).columns == VIEWS["checkpoints"].schema.names
    (row,) = (
        state(spark, folders.state, view="source").selectExpr("start_options", "driver_started_at").collect()
    )
    assert isinstance(row.start_options, dict)
    assert row.driver_started_at is not None


@pytest.mark.slow
def test_a_file_can_be_followed_to_the_batch_that_read_it_with_and_without_pushed_filters(
    spark: SparkSession, folders: Folders
) -> None:
    run_batches(spark, folders, "a.txt", "b.txt", "c.txt")

    def batches_of_b() -> list[tuple[int, str]]:
        frame = state(spark, folders.checkpoint, view="files").where(
            "path like '%/b.txt' and checkpoint_id = 2"
        )
        return [(row.batch_id, row.status) for row in frame.collect()]

    def ids(condition: str) -> list[int]:
        rows = state(spark, folders.checkpoint).where(condition).collect()
        return sorted(row.checkpoint_id for row in rows)

    def seen() -> list[object]:
        filters = ["checkpoint_id >= 2", "checkpoint_id in (1, 3)", "checkpoint_id < 2 or splits > 99"]
        filters += ["not checkpoint_id = 2", "checkpoint_id > 1 and checkpoint_id <= 2", "batch_id is null"]
        return [batches_of_b(), *map(ids, filters)]

    plain = seen()
    assert plain == [[(1, "finished")], [2, 3], [1, 3], [1], [1, 3], [2], []]
    with filters_pushed(spark):
        assert seen() == plain


def test_the_state_of_a_query_can_be_read_while_it_runs(spark: SparkSession, folders: Folders) -> None:
    folders.land("0.txt", ["x"])
    stream = file_stream(spark, folders, ends=False, retainedCheckpoints="2")
    query = to_lake(stream, folders, processingTime="0 seconds")
    for number in range(1, 14):
        wait_for(lambda n=number: len(committed_batches(folders)) >= n, query)
        folders.land(f"{number}.txt", ["x"])
        if number in (6, 13):
            rows = state(spark, folders.state).where("status <> 'orphan'").collect()
            assert max(row.finished for row in rows) >= number
    query.stop()
    assert state(spark, folders.checkpoint).count() < 13


def test_mistakes_are_reported_with_a_suggestion(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="did you mean splits"):
        state(spark, tmp_path, view="split")
    with pytest.raises(AnalysisException, match="option veiw is unknown; did you mean view"):
        state(spark, tmp_path, veiw="splits")
    with pytest.raises(AnalysisException, match="option path is not set"):
        spark.read.format("flip27_state").load()
    with pytest.raises(AnalysisException, match="is empty or does not exist"):
        state(spark, tmp_path).collect()
    with pytest.raises(AnalysisException, match="view source has no such columns: rows"):
        spark.read.format("flip27_state").schema("rows long").option("view", "source").load(
            str(tmp_path)
        ).collect()


def test_a_schema_may_name_some_of_the_columns(spark: SparkSession, folders: Folders) -> None:
    run_batches(spark, folders, "a.txt")
    frame = (
        spark.read.format("flip27_state")
        .option("view", "files")
        .schema("status string, path string")
        .load(str(folders.checkpoint))
    )
    assert [tuple(row) for row in frame.collect()] == [("finished", str(folders.landing / "a.txt"))]
