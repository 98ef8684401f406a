"""The parent's side of the processes that measure: it starts them, sends them rounds and ends them."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.child_processes import ChildProcess

from .query_process import FLIP27, SPARK
from .rounds import KnownFiles, KnownFilesSpec, Round, RoundSpec

_ROUND_DEADLINE_S = 3600.0


class BenchmarkError(Exception):
    """A case could not be measured."""


class QueryProcess:
    """The process with the Spark session of one side."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child

    def run(self, spec: RoundSpec) -> Round:
        """Have the process run a round; return what it measured."""
        self._child.tell(msgspec.json.encode(spec).decode())
        return msgspec.json.decode(one_line(self._child), type=Round)


class Pair:
    """The processes of both sides, with the same configuration."""

    def __init__(self, *, spark: QueryProcess, flip27: QueryProcess) -> None:
        self.spark = spark
        self.flip27 = flip27


@contextlib.contextmanager
def open_pair(conf: Mapping[str, str]) -> Iterator[Pair]:
    """Start the processes of both sides; end them on exit."""
    words = [f"{key}={value}" for key, value in conf.items()]
    with contextlib.ExitStack() as stack:
        started = {}
        for side in (SPARK, FLIP27):
            # A short path, because it holds sockets, whose whole path may have only about 100 characters.
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flip27-bench-")))
            child = ChildProcess(
                "benchmarks.query_process",
                [side, str(scratch), *words],
                log=scratch / "log",
                stdout=subprocess.PIPE,
            )
            started[side] = QueryProcess(stack.enter_context(child))
        yield Pair(spark=started[SPARK], flip27=started[FLIP27])


def measure_known_files(spec: KnownFilesSpec) -> KnownFiles:
    """Measure the case of many known files in another process, without Spark."""
    with tempfile.TemporaryDirectory(prefix="flip27-bench-") as name:
        scratch = Path(name)
        folder = scratch / "landing"
        folder.mkdir()
        arguments = [msgspec.json.encode(spec).decode(), str(folder)]
        child = ChildProcess("benchmarks.known_files", arguments, log=scratch / "log", stdout=subprocess.PIPE)
        with child:
            return msgspec.json.decode(one_line(child), type=KnownFiles)


def one_line(child: ChildProcess) -> bytes:
    """The next line that a measuring process writes."""
    deadline = threading.Timer(_ROUND_DEADLINE_S, child.kill)
    deadline.start()
    try:
        line = child.stdout.readline()
    finally:
        deadline.cancel()
    if not line:
        raise BenchmarkError(f"a measuring process failed:\n{child.log_tail(60)}")
    return line
