"""The time that each part of a query's start takes, also of the imports in the coordinator's process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import msgspec
import pyspark

from .outcomes import Outcome, Rounds, Spread, Target
from .rounds import Round

HALF_A_SECOND = Target("at most", 500, "ms")
LIKE_SPARK = Target("at most", 1.0)

_PROBE = """
import json, time
began = time.perf_counter()
import pyspark.sql.streaming.python_streaming_source_runner
spark = time.perf_counter()
import flip27_source.spark.stream_reader
from flip27_source.driver.holder import CoordinatorHolder
from flip27_source.enumerator_context import Boundedness
from flip27_source.snapshots.offsets import INITIAL_OFFSET
from flip27_source.source import Source
source = Source.resolve({
    "enumerator": "files", "reader": "json", "path": "landing", "stateLocation": "state",
})
imported = time.perf_counter()
holder = CoordinatorHolder(source, Boundedness.BOUNDED)
holder.latest_offset(INITIAL_OFFSET.to_json(), None)
planned = time.perf_counter()
holder.close()
print(json.dumps({"pyspark": spark - began, "flip27": imported - spark, "first": planned - imported}))
"""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that the parts of a start take in the coordinator's process.

    Attributes:
        pyspark: importing what Spark runs in the process.
        flip27: importing the source, its enumerator and its reader.
        first: planning the first offset of a folder with one file.
    """

    pyspark: float
    flip27: float
    first: float


def measure_parts(times: int = 3) -> Parts:
    """The medians over some processes. Each has the import path that Spark would give it."""
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    archives = sorted(str(file) for file in Path(home, "python", "lib").glob("*.zip"))
    path = os.pathsep.join([*archives, *filter(None, [os.environ.get("PYTHONPATH")])])
    found = []
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="flip27-bench-") as folder:
            landing = Path(folder, "landing")
            landing.mkdir()
            (landing / "one.json").write_text('{"id": 1}\n')
            answer = subprocess.run(
                [sys.executable, "-c", _PROBE],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path},
                check=True,
                capture_output=True,
            )
            found.append(msgspec.json.decode(answer.stdout, type=Parts))
    return Parts(
        **{name: statistics.median(getattr(one, name) for one in found) for name in Parts.__struct_fields__}
    )


def start_outcomes(rounds: Rounds, parts: Parts, *, rows: int) -> list[Outcome]:
    """One line of the table for each part of a query's start, and one for the whole start."""
    wrong = {one.rows for one in (*rounds.spark, *rounds.flip27)} - {rows}
    imports = (
        f"in the coordinator's process: pyspark {parts.pyspark * 1000:.0f} ms, "
        f"flip27 {parts.flip27 * 1000:.0f} ms, first offset {parts.first * 1000:.0f} ms"
    )
    lines: list[tuple[str, Callable[[Round], float], str]] = [
        ("load()", attrgetter("load_ms"), ""),
        ("start() to the first batch", attrgetter("start_ms"), imports),
        ("the first batch", _batch_ms, ""),
        ("load() to the first batch", _before_batches_ms, ""),
    ]
    outcomes = []
    for what, of, note in lines:
        spark, flip27 = (Spread.of([of(one) for one in side]) for side in (rounds.spark, rounds.flip27))
        whole = of is _before_batches_ms
        result = flip27 if whole else _ratio(flip27, spark)
        target = HALF_A_SECOND if whole else LIKE_SPARK
        outcomes.append(
            Outcome(
                case=f"start of a query: {what}",
                what="ms",
                spark=spark,
                flip27=flip27,
                result=result,
                target=target,
                reached=not wrong and target.reached_by(result.median),
                rounds=(len(rounds.spark), len(rounds.flip27)),
                note=note,
                failure=f"the data has {rows} rows, but {sorted(wrong)} were read" if wrong else None,
                spark_rounds=rounds.spark if whole else (),
                flip27_rounds=rounds.flip27 if whole else (),
            )
        )
    return outcomes


def _ratio(flip27: Spread, spark: Spread) -> Spread:
    median, least, most = (max(value, 1.0) for value in (spark.median, spark.least, spark.most))
    return Spread(flip27.median / median, flip27.least / most, flip27.most / least)


def _batch_ms(one: Round) -> float:
    return float(one.batch_ms[0])


def _before_batches_ms(one: Round) -> float:
    return one.load_ms + one.start_ms
