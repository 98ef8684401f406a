"""A query moves from Spark's own file source to flip27, and from flip27 to Spark's own file source."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from flip27_source.testing import MicroBatchEngine
from tests.cli.command_line import flip27
from tests.snapshots.spark_logs import FileQuery

# Without * ? [ ] { }: Spark's file source reads files with such names several times.
ODD_NAMES = ["a b", "50%", "%20", "x+y", "h#1", "s;c,d=e&f", "日本", "q'\"q", "~x@y!$^", "nbsp\u00a0z"]


def read_by_spark(spark: SparkSession, landing: Path, checkpoint: str | Path, **options: str) -> list[str]:
    """Run a query of Spark's file source to its end; return the lines that it reads."""
    lines: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        lines.extend(row.value for row in batch.collect())

    query = (
        spark.readStream.format("text")
        .options(**options)
        .load(str(landing))
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(lines)


def test_no_file_is_read_again_when_a_query_moves_from_spark_or_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    ours = FileQuery(tmp_path)
    ours.land(*ODD_NAMES)
    old = tmp_path / "old"
    assert read_by_spark(spark, ours.landing, old) == sorted(ODD_NAMES)
    (tmp_path / "landing/new 1").write_text("new 1")
    path = ("--option", f"path={ours.landing}", "--execute", "--json")
    moved_in = flip27("import", "spark-files", "--checkpoint", old, "--state", tmp_path / "state", *path)
    assert moved_in.data["listing"]["known"] == len(ODD_NAMES)
    engine = MicroBatchEngine({"enumerator": "files", "reader": "text", **moved_in.data["options"]})
    engine.process_all_available()
    engine.stop()
    assert engine.rows == [("new 1",)]

    ours.batch()
    ours.land("new 2")
    state = ours.checkpoint / "flip27"
    moved_out = flip27(
        "export", "spark-files", "--state", state, "--checkpoint", tmp_path / "by-spark", *path
    )
    assert (moved_out.code, moved_out.data["files"], moved_out.data["unread"]) == (0, len(ODD_NAMES) + 1, 1)
    by_spark = moved_out.data["options"]["checkpointLocation"]
    assert read_by_spark(spark, ours.landing, by_spark) == ["new 2"]
    ours.land("new 3")
    assert read_by_spark(spark, ours.landing, by_spark) == ["new 3"]
