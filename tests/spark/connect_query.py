"""The program of the Spark Connect test: it uses a local Connect server."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

import flip27_source
from flip27_source import DiscoveringEnumerator, Discovery, Options, SplitReader
from flip27_source.metrics import QueryMetrics, listener_for
from flip27_source.native import native_batches
from tests.spark.streams import (
    ENDING,
    Folders,
    each_batch,
    file_stream,
    lake_lines,
    run_to_end,
    to_lake,
    wait_for,
)

DEADLINE_SECONDS = 220
"""Shorter than the test's deadline, so that the test shows what each thread of this program waits for."""


@dataclass(frozen=True)
class Letter:
    """A split that is defined in the main program, as in a notebook."""

    split_id: str


class Letters(DiscoveringEnumerator[Letter]):
    """Finds three letters."""

    def discover(self, position: int | None) -> Discovery[Letter, int]:
        return Discovery([Letter(c) for c in "abc"][position or 0 :], 3)


class LettersReader(SplitReader[Letter]):
    """Reads one row for each letter."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def read(self, split: Letter) -> Iterator[tuple[str]]:
        yield (split.split_id,)


class Ends(StreamingQueryListener):
    """Counts the queries that have ended."""

    ended = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended += 1


def rows_told(metrics: QueryMetrics) -> list[float]:
    """Return the numbers of rows that the listener has received."""
    return [sample.value for sample in metrics.samples() if sample.metric.name == "flip27_rows"]


def native_query(spark: SparkSession, landed: Folders, folders: Folders) -> StreamingQuery:
    """Copy the landed files as Spark's own reader reads them."""
    lake = str(folders.lake)

    def write(frame: DataFrame, _batch_id: int) -> None:
        frame.write.mode("append").parquet(lake)

    files = file_stream(spark, landed, reader="splits", ignoreCorruptFiles="true", uid="native")
    return each_batch(files, folders, native_batches(write, format="csv", header=True))


def main(root: str) -> None:
    """Print the rows of several streams and batches, one of them before and after a restart."""
    faulthandler.dump_traceback_later(DEADLINE_SECONDS, exit=True)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    folders = Folders(Path(root))
    folders.land("a.txt", ["1", "2"])
    metrics = QueryMetrics()
    listener, ends = listener_for(metrics), Ends()
    spark.streams.addListener(listener)
    spark.streams.addListener(ends)
    run_to_end(to_lake(file_stream(spark, folders), folders))
    wait_for(lambda: rows_told(metrics) and ends.ended)
    # To remove the last listener, PySpark takes a lock and waits for its listener thread, which takes it for
    # each event: an event at that moment would block both forever.
    spark.streams.removeListener(listener)
    spark.streams.removeListener(ends)
    print("metrics", rows_told(metrics))
    print("files", lake_lines(spark, folders))
    folders.land("b.txt", ["3"])
    run_to_end(to_lake(file_stream(spark, folders), folders))
    print("restarted", lake_lines(spark, folders))
    flip27_source.register(spark, "letters", enumerator=Letters, reader=LettersReader)
    letters = Folders(Path(root) / "letters")
    run_to_end(to_lake(spark.readStream.format("letters").options(**ENDING).load(), letters))
    print("registered", lake_lines(spark, letters))
    batch = spark.read.format("flip27").options(enumerator="sequence", end="5").load()
    print("batch", sorted(row.id for row in batch.collect()))
    orders = Folders(Path(root) / "orders")
    orders.land("a.csv", ["id,name", "1,a", "x,b", "2"])
    schema = "id int, name string, _corrupt_record string"
    lines = file_stream(spark, orders, header="true")
    run_to_end(to_lake(flip27_source.parsed(lines, "csv", schema, header=True), orders))
    rows = spark.read.schema(schema).parquet(str(orders.lake)).collect()
    print("parsed", sorted((row.id or 0, row.name, row["_corrupt_record"]) for row in rows))
    run_to_end(native_query(spark, orders, Folders(Path(root) / "native")))
    native = spark.read.parquet(str(Path(root) / "native" / "lake")).collect()
    print("native", sorted((row.id, row.name) for row in native))
    arrays = spark.sql("""select '[{"id": 1}, {"id": 2}]' as value""")
    print("arrays", [row.id for row in flip27_source.parsed(arrays, "json", "id int").collect()])
    spark.stop()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(sys.argv[1])
