"""Helpers of the Spark tests: input files, queries, and their output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import monotonic, sleep
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from flip27_source.spark.versions import PASSES_LIMITS
from tests.deadline import until

DEADLINE_S = 60.0

ENDING: dict[str, Any] = {} if PASSES_LIMITS else {"availableNow": "true"}
"""Options of a source that reads what is there when its query starts."""

UNTIL_END: dict[str, Any] = {"availableNow": True} if PASSES_LIMITS else {"processingTime": "0 seconds"}
"""The trigger of their query, which ``run_to_end`` ends where Trigger.AvailableNow is a single batch."""


@dataclass(frozen=True)
class Folders:
    """The folders of one streaming query."""

    root: Path

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def state(self) -> Path:
        return self.root / "checkpoint" / "flip27"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    def land(self, name: str, lines: Iterable[str]) -> None:
        """Put a file of lines into the landing folder in one step."""
        self.landing.mkdir(parents=True, exist_ok=True)
        hidden = self.landing / f".{name}"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(self.landing / name)


def file_stream(
    spark: SparkSession, folders: Folders, *, schema: str | None = None, ends: bool = True, **options: Any
) -> DataFrame:
    """Return a stream of the landed files, read by flip27: by default their lines.

    Args:
        ends: whether its query is for ``run_to_end``.
    """
    folders.landing.mkdir(parents=True, exist_ok=True)
    chosen = {
        "enumerator": "files",
        "reader": "text",
        "stateLocation": str(folders.state),
        "discoveryInterval": "50ms",
        **(ENDING if ends else {}),
    } | options
    given = {name: value for name, value in chosen.items() if value is not None}
    reader = spark.readStream.format("flip27").options(**given)
    return (reader if schema is None else reader.schema(schema)).load(str(folders.landing))


def to_lake(frame: DataFrame, folders: Folders, **trigger: Any) -> StreamingQuery:
    """Write a stream to Parquet files, exactly once."""
    return (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folders.checkpoint))
        .option("path", str(folders.lake))
        .trigger(**(trigger or UNTIL_END))
        .start()
    )


def each_batch(
    frame: DataFrame, folders: Folders, function: Callable[[DataFrame, int], Any], **trigger: Any
) -> StreamingQuery:
    """Start a query that calls a function for each batch."""
    writer = frame.writeStream.foreachBatch(function)
    writer = writer.option("checkpointLocation", str(folders.checkpoint))
    return writer.trigger(**(trigger or UNTIL_END)).start()


def until_driver_has_ended(folders: Folders) -> None:
    """Wait until the state of a query that has ended can be copied or deleted.

    Spark does not wait for the process of a source that it stops, which deletes files of its own.
    """
    drivers = "*/drivers/*.alive"
    until(lambda: not [*folders.state.glob(drivers)], lambda: [*folders.state.glob(drivers)])


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """A query that is stopped at the end of the block."""
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def filters_pushed(spark: SparkSession) -> Iterator[None]:
    """A block in which Spark passes filters to Python sources."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def run_files(spark: SparkSession, folders: Folders, **options: Any) -> None:
    """Write the lines of the landed files to the lake, until all are read."""
    run_to_end(to_lake(file_stream(spark, folders, **options), folders))


def run_to_end(query: StreamingQuery, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a query has read what was there when it started, and has ended."""
    if PASSES_LIMITS:
        assert query.awaitTermination(deadline_s), "the query did not end"
        return
    late = Timer(deadline_s, query.stop)
    late.start()
    try:
        query.processAllAvailable()
        assert late.is_alive(), "the query did not end"
    finally:
        late.cancel()
        query.stop()


def lake_lines(spark: SparkSession, folders: Folders) -> list[str]:
    """Return the lines that reached the lake, sorted."""
    rows = spark.read.schema("value string").parquet(str(folders.lake)).collect()
    return sorted(row.value for row in rows)


def wait_for(
    condition: Callable[[], object], query: StreamingQuery | None = None, *, deadline_s: float = DEADLINE_S
) -> None:
    """Wait until ``condition`` holds; raise at once if the query fails."""
    deadline = monotonic() + deadline_s
    while not condition():
        if query is not None and (error := query.exception()) is not None:
            raise error
        assert monotonic() < deadline, "the condition did not hold in time"
        sleep(0.05)


def committed_batches(folders: Folders) -> list[int]:
    """Return the numbers of the batches in Spark's commit log, sorted."""
    names = (path.name for path in (folders.checkpoint / "commits").glob("*"))
    return sorted(int(name) for name in names if name.isdigit())


def forget_commit(folders: Folders, batch_id: int) -> None:
    """Remove a batch from Spark's commit log, as if the driver had died before writing it."""
    (folders.checkpoint / "commits" / str(batch_id)).unlink()
    (folders.checkpoint / "commits" / f".{batch_id}.crc").unlink(missing_ok=True)
