"""Edits of a query's state while Spark runs the query."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from flip27_source import edits
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.checkpoint_rows import checkpoint_rows
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING

from .streams import Folders, each_batch, file_stream, running, wait_for


def test_a_running_query_that_is_rewound_sees_exactly_those_files_again(
    spark: SparkSession, folders: Folders
) -> None:
    seen: dict[int, list[str]] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        seen[batch_id] = sorted(row.value for row in batch.collect())

    def times_seen(line: str) -> int:
        return sum(line in lines for lines in seen.values())

    folders.land("a.txt", ["a"])
    stream = file_stream(spark, folders, requestInterval="100ms", discoveryInterval="10ms", ends=False)
    with running(each_batch(stream, folders, keep, processingTime="50 milliseconds")) as query:
        wait_for(lambda: times_seen("a") == 1, query)
        between = dt.datetime.now(dt.UTC)
        folders.land("b.txt", ["b", "c"])
        folders.land("d.txt", ["d"])
        wait_for(lambda: times_seen("b") == times_seen("d") == 1, query)
        state = str(folders.checkpoint)
        plan = edits.plan("rewind", state=state, to_time=between, why="bad deploy", who="tester")
        assert {Path(change.split_id).name for change in plan.changes} == {"b.txt", "d.txt"}
        edits.submit(plan)
        wait_for(lambda: times_seen("b") == times_seen("d") == 2, query)
    (lineage,) = find_lineages(state, {})
    rows = checkpoint_rows(History(lineage.store({}), lineage), EVERYTHING)
    (edited,) = [row for row in rows if row["edits"] is not None]
    assert seen[edited["batch_id"]] in ([], ["b", "c", "d"]), "found again now or later"
    assert '"why":"bad deploy"' in edited["edits"]
    assert sorted(line for lines in seen.values() for line in lines) == ["a", "b", "b", "c", "c", "d", "d"]
