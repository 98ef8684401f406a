"""A chain of sources in Spark, over a restart between two of them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from flip27_source import hybrid
from tests.cli.command_line import flip27
from tests.spark.streams import ENDING, Folders, lake_lines, run_to_end, to_lake

READER = "tests.toy_sources:NumbersAsLines"


def test_a_chain_is_read_in_order_and_its_schema_comes_from_its_sources(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders = Folders(tmp_path)
    folders.land("a", ["7", "8"])
    chain = hybrid(
        ("files", {"path": folders.landing, "reader": "text"}),
        ("sequence", {"start": 10, "end": 13, "reader": READER}),
        stateLocation=folders.state,
        **ENDING,
    )

    def run() -> list[str]:
        stream = spark.readStream.format("flip27").options(**chain).load()
        run_to_end(to_lake(stream, folders))
        return lake_lines(spark, folders)

    assert run() == ["10", "11", "12", "7", "8"]
    folders.land("b", ["9"])
    assert run() == ["10", "11", "12", "7", "8"]
    shown = flip27("state", "splits", str(folders.state)).out
    assert f"1:{folders.landing}/a" in shown
    assert "2:sequence-0" in shown
