"""Sources of a query that wait for each other, and a replay: in the processes that Spark starts for them."""

from __future__ import annotations

import time
from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.event_logs import write_logs
from tests.spark.streams import ENDING, Folders, each_batch, run_to_end, running, wait_for

S_US = 1_000_000


def logs(
    spark: SparkSession, folders: Folders, name: str, times_s: range, *, ends: bool = True, **options: str
) -> DataFrame:
    """A stream of one log; ``ends``: whether its query is for ``run_to_end``."""
    folder = write_logs(folders.root / name, {name: [second * S_US for second in times_s]})
    given = {
        "enumerator": "tests.event_logs:LogEnumerator",
        "reader": "tests.event_logs:LogReader",
        "uid": name,
        "logs": folder,
        "stateLocation": str(folders.state),
    }
    return spark.readStream.format("flip27").options(**given, **(ENDING if ends else {}), **options).load()


def test_two_sources_of_a_query_wait_for_each_other(spark: SparkSession, folders: Folders) -> None:
    """One of them has a hundred times as much event time in each row; each has a process of its own."""
    aligned = {"alignmentGroup": "orders", "maxEventTimeDrift": "10s", "maxRowsPerTrigger": "20"}
    slow = logs(spark, folders, "slow", range(60), **aligned)
    fast = logs(spark, folders, "fast", range(0, 4000, 100), **aligned)
    batches: list[dict[str, list[int]]] = []

    def collect(frame: DataFrame, _number: int) -> None:
        found: dict[str, list[int]] = defaultdict(list)
        for log, time_us in frame.collect():
            found[log].append(time_us // S_US)
        batches.append(found)

    run_to_end(each_batch(slow.union(fast), folders, collect))
    assert [row for found in batches for row in found["slow"]] == list(range(60))
    assert [row for found in batches for row in found["fast"]] == list(range(0, 4000, 100))
    reached_s = 0
    for found in batches:
        reached_s = max([reached_s, *found["slow"]])
        if reached_s < 59:
            # At most ten seconds after what the other source can reach in the next batch.
            assert max(found["fast"], default=0) <= reached_s + 20 + 10
    # Without the group, three batches would have it all.
    assert len(batches) > 4


def test_a_query_is_held_by_another_one_until_that_is_stopped(spark: SparkSession, folders: Folders) -> None:
    """The slow one waits for its next trigger, and is alive; the timeout is longer than this test."""
    aligned = {"alignmentGroup": "queries", "maxEventTimeDrift": "10s", "alignmentTimeout": "1 hour"}
    slow = logs(spark, folders, "slow", range(60), ends=False, maxRowsPerTrigger="20", **aligned)
    fast = logs(spark, folders, "fast", range(0, 600, 10), ends=False, **aligned)
    read: dict[str, list[int]] = {"slow": [], "fast": []}

    def start(stream: DataFrame, name: str, interval: str) -> StreamingQuery:
        def collect(frame: DataFrame, _number: int) -> None:
            read[name] += sorted(row[1] // S_US for row in frame.collect())

        own = Folders(folders.root / f"query-{name}")
        return each_batch(stream, own, collect, processingTime=interval)

    # It has met nobody, and goes on by one drift.
    with running(start(slow, "slow", "1 hour")) as holding:
        wait_for(lambda: read["slow"] == list(range(11)), holding)
        with running(start(fast, "fast", "0 seconds")) as held:
            # The other one could reach second 31 in its next batch.
            wait_for(lambda: read["fast"] == list(range(0, 50, 10)), held)
            wait_for(lambda: "slow" in str(held.lastProgress), held)
            assert read["fast"] == list(range(0, 50, 10))
            holding.stop()
            wait_for(lambda: read["fast"] == list(range(0, 600, 10)), held)


def test_a_replay_comes_in_pace(spark: SparkSession, folders: Folders) -> None:
    """A minute of records of two days ago, sixty times as fast: no row comes before it is due."""
    start_s = int(time.time()) - 2 * 86_400
    replayed = logs(spark, folders, "replayed", range(start_s, start_s + 60), replaySpeed="60")
    rows: list[tuple[float, int]] = []

    def collect(frame: DataFrame, _number: int) -> None:
        at = time.monotonic()
        rows.extend((at, second) for second in sorted(row[1] // S_US - start_s for row in frame.collect()))

    began = time.monotonic()
    run_to_end(each_batch(replayed, folders, collect))
    assert [second for _, second in rows] == list(range(60))
    # The replay began after ``began``, and a batch arrives after it was planned.
    assert [second for at, second in rows if at - began < second / 60] == []
