"""A process with its own Spark session that runs rounds: it reads a JSON line and answers with one.

``python -m benchmarks.query_process <spark|flip27> <scratch> [key=value ...]``. Both sides get the
same session; they differ in the three lines that name the source.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import queue
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import flip27_source
from flip27_source.cli.demo.process import obey_parent
from flip27_source.native import native_batches
from tests.child_processes import FINISH

from .rounds import Round, RoundSpec
from .usage import UsageWatch

SPARK = "spark"
FLIP27 = "flip27"


def start_session(scratch: Path, conf: dict[str, str]) -> SparkSession:
    """A session with Spark's defaults, also for memory. Other settings only make rounds comparable."""
    usual = {
        "spark.master": f"local[{os.cpu_count()}]",
        "spark.app.name": "flip27 benchmarks",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.config(map={**usual, **conf}).getOrCreate()


def read(session: SparkSession, side: str, spec: RoundSpec, checkpoint: Path) -> DataFrame:
    """The stream of one side."""
    reader = session.readStream.options(**spec.options).option("maxFilesPerTrigger", spec.files_per_trigger)
    if side == SPARK:
        return reader.format(spec.reader).schema(spec.schema).load(spec.folder)
    reader = reader.format("flip27").option("enumerator", "files")
    reader = reader.option("stateLocation", str(checkpoint / "flip27"))
    if spec.native_files:
        return reader.option("reader", "splits").load(spec.folder)
    if spec.is_parsed:
        lines = reader.option("reader", "text").load(spec.folder)
        return flip27_source.parsed(lines, spec.reader, spec.schema, **spec.options)
    return reader.option("reader", spec.reader).schema(spec.schema).load(spec.folder)


def narrowed(frame: DataFrame, spec: RoundSpec) -> DataFrame:
    """The stream with the filter and the columns of the round."""
    frame = frame.where(spec.where) if spec.where else frame
    return frame.select(*spec.select) if spec.select else frame


class NativeSink:
    """Writes the batches of native reads to a sink that keeps nothing.

    Attributes:
        rows: the rows so far, if the round counts them.
    """

    def __init__(self, spec: RoundSpec) -> None:
        self._spec = spec
        self.rows = 0

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        if self._spec.is_counted:
            self.rows += frame.count()
        narrowed(frame, self._spec).write.format("noop").mode("append").save()


def run_round(session: SparkSession, side: str, spec: RoundSpec, scratch: Path) -> Round:
    """Run a query with a new checkpoint, or with a copy of the template, to its end."""
    checkpoint = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=scratch))
    if spec.template is not None:
        shutil.copytree(spec.template, checkpoint, dirs_exist_ok=True)
    is_native = bool(spec.native_files) and side == FLIP27
    loading = time.perf_counter()
    stream, native = read(session, side, spec, checkpoint), NativeSink(spec)
    load_s = time.perf_counter() - loading
    if is_native:
        function = native_batches(native, format=spec.reader, schema=spec.schema, **spec.options)
        writer = stream.writeStream.foreachBatch(function)
    else:
        writer = narrowed(stream, spec).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    with UsageWatch() as usage:
        began, began_at = time.perf_counter(), time.time()
        if spec.batches is None:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        else:
            query = writer.start()
            _await_batches(query, spec.batches)
        seconds = time.perf_counter() - began
    batches = _progress(query)
    progress = [entry for entry in batches if entry["numInputRows"]]
    if spec.batches is not None:
        query.stop()
        progress = progress[: spec.batches]
    if spec.keep is not None:
        checkpoint.rename(spec.keep)
    else:
        shutil.rmtree(checkpoint)
    rows = sum(entry["numInputRows"] for entry in progress)
    if is_native and rows == spec.native_files:  # numInputRows counts files here
        rows = native.rows if spec.is_counted else spec.expected_rows
    return Round(
        rows=rows,
        load_ms=1000 * load_s,
        start_ms=1000 * (_begin_of(batches[0]) - began_at) if batches else 0.0,
        seconds=seconds,
        batch_ms=[entry["durationMs"]["triggerExecution"] for entry in progress],
        phases_ms=_medians([entry["durationMs"] for entry in progress]),
        memory=usage.memory(),
        cpu=usage.cpu(),
    )


def _await_batches(query: StreamingQuery, batches: int) -> None:
    """Wait until the query has run this many batches. Polling costs the query next to nothing."""
    while not query.awaitTermination(0.2):  # type: ignore[arg-type]
        last = query.lastProgress
        if last is not None and last["batchId"] >= batches:
            return
    raise RuntimeError("the query ended by itself")


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [msgspec.json.decode(progress.json) for progress in query.recentProgress]


def _begin_of(progress: dict[str, Any]) -> float:
    """When a batch began, in seconds since 1970; Spark rounds to milliseconds."""
    return dt.datetime.fromisoformat(progress["timestamp"]).timestamp()


def _medians(durations: list[dict[str, int]]) -> dict[str, float]:
    phases = sorted({phase for duration in durations for phase in duration})
    return {phase: statistics.median(duration.get(phase, 0) for duration in durations) for phase in phases}


def main() -> None:
    """Run the rounds that standard input names until it says to finish."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=(SPARK, FLIP27))
    parser.add_argument("scratch", type=Path)
    parser.add_argument("conf", nargs="*")
    arguments = parser.parse_args()
    answers = _answers()
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    obey_parent(asked.put)
    conf = dict(pair.split("=", 1) for pair in arguments.conf)
    session = start_session(arguments.scratch, conf)
    session.sparkContext.setLogLevel("ERROR")
    while (line := asked.get()) != FINISH:
        spec = msgspec.json.decode(line, type=RoundSpec)
        done = run_round(session, arguments.side, spec, arguments.scratch)
        answers.write(msgspec.json.encode(done) + b"\n")
        answers.flush()
    session.stop()


def _answers() -> IO[bytes]:
    """Return a stream to the original standard output, for the answers only.

    All other output is redirected to standard error.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


if __name__ == "__main__":
    main()
