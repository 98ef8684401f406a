"""A join of two streams, one of which is read 100 times faster: the rows in Spark's state, with and without
``maxEventTimeDrift``.

``python -m benchmarks.alignment --plot state.svg`` joins orders with payments of the ten minutes before.
Both have the same number of rows in a minute; a batch takes 40 minutes of the orders, and 100 times as many
of the payments. Without alignment the join keeps the payments until the orders have come to their times.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from flip27_source import (
    BoundedRange,
    Budget,
    FollowsEventTime,
    Option,
    Options,
    SplitEnumerator,
    SplitReader,
)
from flip27_source.options import FirstStartOption, integer
from flip27_source.split import SplitSize
from scripts.svg import line, svg, text

SCHEMA = "at timestamp, id long"
MINUTE_US = 60_000_000
BEGIN_US = 1_704_067_200_000_000
MINUTES: Option[int] = FirstStartOption(
    name="minutes", parse=integer(minimum=1), default=1440, doc="The minutes of data."
)
PER_MINUTE: Option[int] = FirstStartOption(
    name="perMinute", parse=integer(minimum=1), default=60, doc="Rows in a minute."
)
STYLE = """\
text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2430; }
.axis { stroke: #b7bdc9; }
polyline { fill: none; stroke-width: 2; }
polyline.with { stroke: #3f51b5; }
polyline.without { stroke: #b5651d; stroke-dasharray: 6 4; }"""
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 300, 70, 44, 30


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows ``next`` to ``end`` of a stream."""

    split_id: str
    per_minute: int
    next: int
    end: int

    @property
    def size(self) -> SplitSize:
        return SplitSize(files=0, rows=self.end - self.next)


class Stream(FollowsEventTime[Rows], SplitEnumerator[Rows]):
    """One split with rows at regular event times."""

    options: ClassVar[tuple[Option[Any], ...]] = (MINUTES, PER_MINUTE)

    def __init__(self, context: Any, options: Options, state: bool | None = None) -> None:
        super().__init__(context, options, state)
        self._is_assigned = bool(state)

    def start(self) -> None: ...

    def handle_split_request(self, subtask_id: int) -> None:
        if not self._is_assigned:
            self._is_assigned = True
            per_minute = self.options_given[PER_MINUTE]
            end = per_minute * self.options_given[MINUTES]
            self.context.assign_split(Rows(split_id="rows", per_minute=per_minute, next=0, end=end))

    def add_splits_back(self, splits: Sequence[Rows], subtask_id: int) -> None:
        self._is_assigned = False

    def snapshot_state(self, checkpoint_id: int) -> bool:
        return self._is_assigned

    def bound_split(self, split: Rows, budget: Budget) -> BoundedRange[Rows] | None:
        ends = [split.end] if budget.rows is None else [split.end, split.next + budget.rows]
        if budget.latest_us is not None:
            ends.append((budget.latest_us - BEGIN_US) * split.per_minute // MINUTE_US + 1)
        end = min(ends)
        if end <= split.next:
            return None
        rest = None if end == split.end else replace(split, next=end)
        return BoundedRange(read=replace(split, end=end), rest=rest)

    def event_time_at(self, split: Rows) -> int:
        return time_us(split.next, split.per_minute)


class StreamReader(SplitReader[Rows]):
    """Reads the times and the numbers of rows."""

    def read(self, split: Rows) -> Iterator[pa.RecordBatch]:
        ids = range(split.next, split.end)
        times = pa.array([time_us(number, split.per_minute) for number in ids], pa.timestamp("us", "UTC"))
        yield pa.record_batch({"at": times, "id": pa.array(ids, pa.int64())})


def time_us(number: int, per_minute: int) -> int:
    """The event time of a row."""
    return BEGIN_US + number * MINUTE_US // per_minute


def given_by(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alignment")
    parser.add_argument("--hours", type=float, default=24.0, help="of data in each stream")
    parser.add_argument("--per-minute", type=int, default=60, help="rows of each stream")
    parser.add_argument("--batch-minutes", type=int, default=40, help="of the orders that a batch holds")
    parser.add_argument("--drift", default="30 minutes")
    parser.add_argument("--plot", type=Path, help="an SVG file of the state's rows by batch")
    return parser.parse_args(words)


def aligned_by(given: argparse.Namespace) -> dict[str, str]:
    """The options of alignment."""
    return {"maxEventTimeDrift": given.drift, "alignmentGroup": "join"}


def main(words: Sequence[str] | None = None) -> int:
    """Join with and without alignment, and print one JSON object."""
    given = given_by(words)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sparkContext.setLogLevel("OFF")
    found = {"without": joined(spark, {}, given), "with": joined(spark, aligned_by(given), given)}
    spark.stop()
    if given.plot is not None:
        given.plot.write_text(picture({name: one["state rows"] for name, one in found.items()}))
    shown = vars(given) | {"plot": given.plot and str(given.plot)}
    print(json.dumps({"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **shown, **found}))
    return 0


def joined(spark: Any, options: dict[str, str], given: argparse.Namespace) -> dict[str, Any]:
    """Join the streams; return the rows of the state after each batch, and what came out."""
    from pyspark.sql import functions as f

    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:

        def stream(name: str, rows: int) -> Any:
            own = {
                "enumerator": "benchmarks.alignment:Stream", "reader": "benchmarks.alignment:StreamReader",
                "uid": name, "minutes": str(round(given.hours * 60)), "perMinute": str(given.per_minute),
                "maxRowsPerTrigger": str(rows), "stateLocation": f"{folder}/checkpoint/flip27",
            }  # fmt: skip
            read = spark.readStream.format("flip27").schema(SCHEMA).options(**own, **options).load()
            named = read.select(f.col("at").alias(f"{name}_at"), f.col("id").alias(f"{name}_id"))
            return named.withWatermark(f"{name}_at", "10 minutes")

        rows = given.per_minute * given.batch_minutes
        orders, payments = stream("orders", rows), stream("payments", 100 * rows)
        condition = f.expr(
            "orders_id = payments_id AND orders_at >= payments_at "
            "AND orders_at <= payments_at + INTERVAL 10 MINUTES"
        )
        matches: list[int] = []
        query = (
            orders.join(payments, condition)
            .writeStream.foreachBatch(lambda batch, _: matches.append(batch.count()))
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        state = [
            sum(one["numRowsTotal"] for one in batch["stateOperators"])
            for batch in (json.loads(progress.json) for progress in query.recentProgress)
            if batch["stateOperators"]
        ]
    return {
        "largest state": max(state),
        "matches": sum(matches),
        "batches": len(state),
        "seconds": round(time.monotonic() - started_s, 1),
        "state rows": state,
    }


def picture(courses: dict[str, list[int]]) -> str:
    """The rows of the state after each batch, as an SVG."""
    most, batches = max(map(max, courses.values())), max(map(len, courses.values()))

    def x(batch: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * batch / batches

    def y(rows: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * rows / most

    parts = [line("axis", LEFT, y(0), x(batches), y(0))]
    parts += [text(8, y(most * part) + 4, f"{most * part:,.0f}") for part in (0, 0.5, 1)]
    parts += [text(x(at) - 4, HEIGHT - 24, str(at)) for at in range(0, batches, max(1, batches // 8))]
    parts += [text(x(batches / 2) - 20, HEIGHT - 6, "batch")]
    for kind, course in courses.items():
        points = " ".join(f"{x(batch):.0f},{y(rows):.0f}" for batch, rows in enumerate(course))
        parts.append(f'<polyline class="{kind}" points="{points}"/>')
        parts.append(text(x(len(course) / 3), y(course[len(course) // 3]) - 8, kind))
    return svg(WIDTH, HEIGHT, "Rows in the state of a join of two streams", STYLE, parts)


if __name__ == "__main__":
    raise SystemExit(main())
