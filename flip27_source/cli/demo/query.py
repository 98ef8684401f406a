"""The demo's query: a process that streams the landing folder to Parquet until it is killed.

At the first line of its standard input it stops the stream and reads the remaining files in a run that lists
the folder once and then ends.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .folder import DemoFolder
from .process import obey_parent

# Each start of the query is a JVM that lives for seconds. Full compilation and parallel garbage collection
# would cost half of its CPU time and not pay off.
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SCHEMA = "id long, customer string, amount double, at timestamp"


def start_session(scratch: Path) -> SparkSession:
    """A session on two cores. A killed JVM leaves its temporary files; they all go to ``scratch``."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("flip27 demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch))
        .config("spark.driver.extraJavaOptions", f'"-Djava.io.tmpdir={scratch}" {_SHORT_LIVED_JVM}')
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.adaptive.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("WARN")
    return session


def start_query(
    session: SparkSession, folder: DemoFolder, *, files_per_batch: int, available_now: bool
) -> StreamingQuery:
    """The query as a user writes it; only its two locations survive a crash."""
    rows = (
        session.readStream.format("flip27")
        .option("enumerator", "files")
        .option("reader", "json")
        .option("stateLocation", str(folder.state))
        .option("maxFilesPerTrigger", files_per_batch)
        .option("availableNow", available_now)
        .schema(SCHEMA)
        .load(str(folder.landing))
    )
    return (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(folder.checkpoint))
        .option("path", str(folder.output))
        .start()
    )


def main(root: str, files_per_batch: str) -> None:
    folder, finish = DemoFolder(Path(root)), threading.Event()
    obey_parent(lambda _line: finish.set())
    session = start_session(folder.scratch)
    query = start_query(session, folder, files_per_batch=int(files_per_batch), available_now=False)
    while not finish.is_set():
        if query.awaitTermination(1):  # raises the query's error
            raise RuntimeError("the query ended unexpectedly")
    query.stop()
    # Trigger.AvailableNow would do the same from Spark 4.2 on.
    last = start_query(session, folder, files_per_batch=int(files_per_batch), available_now=True)
    last.processAllAvailable()
    last.stop()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
