"""The files enumerator's options in a real session, compared with Spark's own file source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from .streams import DEADLINE_S, Folders, each_batch, file_stream, run_to_end, running, wait_for


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.txt"))


@pytest.mark.parametrize("clean", ["archive", pytest.param("delete", marks=pytest.mark.long)])
def test_files_are_cleaned_only_after_their_batch_is_committed_so_a_repeated_batch_finds_them(
    spark: SparkSession, folders: Folders, tmp_path: Path, clean: str
) -> None:
    """The second batch fails after all of it has been written and before it is committed."""
    archive = tmp_path / "archive"
    options = {"cleanSource": clean, "maxFilesPerTrigger": 1}
    if clean == "archive":
        options["sourceArchiveDir"] = str(archive)
    for number in range(3):
        folders.land(f"{number}.txt", [f"line {number}"])
    seen: list[tuple[int, list[str]]] = []
    crashes = [1]

    def keep(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, [row.value for row in batch.collect()]))
        if batch_id in crashes:
            crashes.remove(batch_id)
            raise RuntimeError("crash")

    def start() -> StreamingQuery:
        frame = file_stream(spark, folders, **options)
        return each_batch(frame, folders, keep, processingTime="50 milliseconds")

    with pytest.raises(StreamingQueryException, match="crash"):
        start().awaitTermination(DEADLINE_S)
    assert {"1.txt", "2.txt"} <= set(names(folders.landing))
    with running(start()) as query:
        wait_for(lambda: not names(folders.landing), query)
    assert seen == [(0, ["line 0"]), (1, ["line 1"]), (1, ["line 1"]), (2, ["line 2"])]
    archived = names(archive / str(folders.landing).lstrip("/"))
    assert archived == (["0.txt", "1.txt", "2.txt"] if clean == "archive" else [])


def batches(frame: DataFrame, checkpoint: Path) -> list[list[str]]:
    """Run a query to its end; return the lines of each batch."""
    found: list[list[str]] = []

    def keep(batch: DataFrame, _id: int) -> None:
        found.append(sorted(row.value for row in batch.collect()))

    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    run_to_end(writer.foreachBatch(keep).trigger(availableNow=True).start())
    return found


def put(path: Path, modified_s: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{path.parent.name}/{path.name}\n")
    os.utime(path, (modified_s, modified_s))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"latestFirst": "true", "maxFilesPerTrigger": "2"}, marks=pytest.mark.long),
        {"maxFileAge": "1h"},
    ],
    ids=str,
)
def test_the_batches_are_the_same_as_those_of_sparks_own_source_for_a_glob_and_its_options(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    landing, day = tmp_path / "landing", 1_700_000_000
    for number, folder in enumerate(("2026-01", "2026-02", "2026-02", "2027-01", "other")):
        put(landing / folder / f"{number}.txt", day + number)
    put(landing / "2026-01" / "deep" / "below.txt", day)
    glob = f"{landing}/202[67]-*"
    read: dict[str, list[list[str]]] = {"flip27": [], "text": []}
    for late in (None, ("old.txt", day - 7200), ("young.txt", day - 60)):
        if late is not None:
            put(landing / "2026-02" / late[0], late[1])
        for source, found in read.items():
            reader = spark.readStream.format(source).options(**options)
            if source == "flip27":
                reader = reader.options(
                    enumerator="files", reader="text", stateLocation=str(tmp_path / "ours" / "state")
                )
            found += batches(reader.load(glob), tmp_path / source)
    assert read["flip27"] == read["text"]
    assert len(read["text"]) >= 2
