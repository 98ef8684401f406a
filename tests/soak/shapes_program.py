"""The program that the disasters strike: several queries in one Spark process, restarted when they fail.

Its argument is JSON: root, state, shapes, given (options of the sources), settings (of Spark). Lines on
standard input are commands: ``restart <shape>``; ``once``: do not restart queries that fail from now on;
``finish``: read to the end and report it. Lines of JSON on standard output report what happens.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from flip27_source.cli.demo.process import obey_parent
from tests.spark.jvm import jvm_of
from tests.spark.streams import ENDING, UNTIL_END, run_to_end

from .mysql_disasters import MysqlCopy
from .shapes import SHAPES, Places, Shape
from .table_copies import TableCopy
from .topic_copies import TopicCopy

PAUSE_S = 0.05
RESTART_AFTER_S = 0.3
TELL_EVERY_S = 0.2
MOST_ATTEMPTS = 3
FINISH_S = 1800.0
QUICK = {"pageMs": "0", "maxRowsPerSplit": "5000"}
SETTINGS = {
    # Lives are short, and a JVM that compiles less starts faster.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataProgressEventInterval": "300",
}


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def give_up_the_power_of_root() -> None:
    """Restart this program without root's capability to ignore permissions, if it has it."""
    if os.geteuid() != 0:
        return
    capabilities = Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0]
    if int(capabilities, 16) & 0b110 and shutil.which("setpriv"):
        dropped = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        os.execvp("setpriv", [*dropped, sys.executable, "-m", "tests.soak.shapes_program", *sys.argv[1:]])


class Supervisor:
    """Runs the queries and restarts those that fail."""

    def __init__(self, spark: SparkSession, shapes: list[Shape]) -> None:
        self.spark = spark
        self.shapes = {shape.name: shape for shape in shapes}
        self.running: dict[str, StreamingQuery] = {}
        self.commands: queue.Queue[str] = queue.Queue()
        self._start_at = dict.fromkeys(self.shapes, 0.0)
        self._told: dict[str, tuple[float, str]] = {}
        self._stays_down = False

    def run(self) -> None:
        """Run the queries until the command to finish."""
        while True:
            for name in self.shapes:
                self._look_after(name)
            try:
                command, _, name = self.commands.get(timeout=PAUSE_S).partition(" ")
            except queue.Empty:
                continue
            if command == "finish":
                return self._finish()
            if command == "once":
                self._stays_down = True
            if command == "restart" and name in self.running:
                self.running.pop(name).stop()

    def _look_after(self, name: str) -> None:
        query = self.running.get(name)
        if query is None:
            if not self._stays_down and time.monotonic() >= self._start_at[name]:
                self._start(name)
        elif not query.isActive:
            del self.running[name]
            self._ended(name, f"{query.exception()}\n{_causes(query)}")
        else:
            self._progress(name, query)

    def _start(self, name: str) -> None:
        try:
            self.running[name] = self._query(self.shapes[name], {"processingTime": "0 seconds"})
        except Exception as error:  # noqa: BLE001 - reported to the parent process
            jvm_of(self.spark).java.lang.System.nanoTime()  # if the JVM is dead, this program ends
            self._ended(name, str(error))

    def _query(self, shape: Shape, trigger: dict[str, Any]) -> StreamingQuery:
        for key, value in shape.settings.items():
            self.spark.conf.set(key, value)
        try:
            writer = shape.writer(self.spark).option("checkpointLocation", str(shape.places.checkpoint))
            return writer.trigger(**trigger).start()
        finally:
            for key in shape.settings:
                self.spark.conf.unset(key)

    def _ended(self, name: str, error: str) -> None:
        self._start_at[name] = time.monotonic() + RESTART_AFTER_S
        tell(event="ended", shape=name, error=error)

    def _progress(self, name: str, query: StreamingQuery) -> None:
        now_s, (told_s, told) = time.monotonic(), self._told.get(name, (0.0, ""))
        if now_s - told_s < TELL_EVERY_S:
            return
        progress = query.lastProgress
        if progress is not None and progress.timestamp != told:
            self._told[name] = now_s, progress.timestamp
            tell(event="alive", shape=name, at=progress.timestamp, batch=progress.batchId)

    def _finish(self) -> None:
        for query in self.running.values():
            query.stop()
        for name, shape in self.shapes.items():
            shape.given = {**shape.given, **QUICK}
            shape.run_options = ENDING
            if not any(self._finished(name) for _ in range(MOST_ATTEMPTS)):
                return tell(event="failed", shape=name)
        return tell(event="finished")

    def _finished(self, name: str) -> bool:
        try:
            run_to_end(self._query(self.shapes[name], UNTIL_END), deadline_s=FINISH_S)
        except Exception as error:  # noqa: BLE001 - reported to the parent process
            self._ended(name, str(error))
            return False
        return True


def _causes(query: StreamingQuery) -> str:
    """The exception classes that ended a query. A dead process is an EOFException without a message."""
    failure, names = query._jsq.exception(), []
    cause = failure.get() if failure.isDefined() else None
    while cause is not None:
        names.append(cause.getClass().getName())
        cause = cause.getCause()
    return "caused by " + ", ".join(names)


def main(argument: str) -> None:
    asked = json.loads(argument)
    builder = SparkSession.builder
    for key, value in {**SETTINGS, **asked["settings"]}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    known = {**SHAPES, **{shape.name: shape for shape in (TableCopy, MysqlCopy, TopicCopy)}}
    shapes = [
        known[name](
            Places(root=Path(asked["root"]) / name, state=Path(asked["state"]) / name), asked["given"]
        )
        for name in asked["shapes"]
    ]
    supervisor = Supervisor(spark, shapes)
    obey_parent(supervisor.commands.put)
    jvm = jvm_of(spark).java.lang.ProcessHandle.current().pid()
    tell(event="started", jvm=jvm)
    supervisor.run()


def run_and_exit(main: Callable[[str], None]) -> None:
    """Run a program with its argument, and end this process whatever happens."""
    code = 0
    try:
        main(sys.argv[1])
    except BaseException:  # noqa: BLE001 - on any error this process ends
        traceback.print_exc()
        code = 5
    # If the JVM is dead, Python's regular clean-up would never end.
    os._exit(code)


if __name__ == "__main__":
    give_up_the_power_of_root()
    run_and_exit(main)
