"""Helpers of the tests of native reads: files, queries, and what they deliver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flip27_source.native import native_batches
from tests.cli.command_line import flip27

from .streams import Folders, each_batch, file_stream, run_to_end


def land(folders: Folders, file: str, **columns: Any) -> Path:
    """Write a Parquet file, and move it into the landing folder once it is complete."""
    target = folders.landing / file
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = folders.root / "being-written"
    pq.write_table(pa.table(columns), hidden)
    return hidden.rename(target)


def damage(path: Path) -> None:
    """Make the content of a file unreadable without changing its length."""
    path.write_bytes(b"x" * path.stat().st_size)


class Delivered:
    """An idempotent sink that keeps the rows of each batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = sorted(tuple(row) for row in frame.collect())

    @property
    def rows(self) -> list[Any]:
        return sorted(row for rows in self.batches.values() for row in rows)


def ids_to(function: Callable[[DataFrame, int], Any], **options: str) -> Callable[[DataFrame, int], Any]:
    """Pass the rows of Parquet files with the column id to the function."""
    return native_batches(function, format="parquet", schema="id long", **options)


def run(
    spark: SparkSession,
    folders: Folders,
    function: Callable[[DataFrame, int], Any],
    where: str = "true",
    **options: Any,
) -> StreamingQuery:
    """Run a query of the landed files to its end, with the given options."""
    stream = file_stream(spark, folders, reader="splits", **options).where(where)
    query = each_batch(stream, folders, function)
    run_to_end(query)
    return query


def state(spark: SparkSession, folders: Folders, view: str) -> list[Any]:
    """Return the rows of a view of the state."""
    return spark.read.format("flip27_state").option("view", view).load(str(folders.state)).collect()


def shown_of(folders: Folders) -> list[dict[str, Any]]:
    """What the page shows of the sources of a query."""
    shown: list[dict[str, Any]] = flip27("ui", "--checkpoint-location", folders.checkpoint, "--json").data[
        "sources"
    ]
    return shown


def delivered_by(
    spark: SparkSession, folders: Folders, native: dict[str, Any], **options: Any
) -> list[tuple[list[str], list[Any]]]:
    """The columns and rows of each batch of a query that runs to its end."""
    batches: dict[int, tuple[list[str], list[Any]]] = {}

    def write(frame: DataFrame, batch_id: int) -> None:
        batches[batch_id] = frame.columns, sorted((tuple(row) for row in frame.collect()), key=str)

    options = {"fileOrder": "name", **options}
    run(spark, folders, native_batches(write, **native), **options)
    return [batches[number] for number in sorted(batches)]


def quarantined(spark: SparkSession, folders: Folders) -> list[str]:
    return sorted(Path(row.split_id).name for row in state(spark, folders, "quarantine"))
