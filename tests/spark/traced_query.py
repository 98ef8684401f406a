"""The program of the trace tests: it streams a folder until everything is read, and its tasks have troubles.

Argument: the root folder of the query. A task that reads ``hangs.txt`` in the first life waits to be killed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from flip27_source.log import LOG
from flip27_source.readers.text import TextReader
from tests import checkpoint_files
from tests.spark.streams import Folders, file_stream, run_to_end, to_lake

HANGS = "hanging"
"""The file that says that a task waits to be killed."""


class TroubledText(TextReader):
    """Fails in the first attempt at ``fails.txt``, and hangs once in ``hangs.txt``."""

    def read_together(self, splits: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        path = Path(splits[0].path)
        LOG.warning("a task has begun")
        if path.name == "fails.txt" and self.context.attempt_number == 0:
            raise ValueError("the disk says: hunter2")
        hangs = path.parent.parent / HANGS
        if path.name == "hangs.txt" and not hangs.exists():
            hangs.touch()
            while True:
                time.sleep(60)
        yield from super().read_together(splits)


def main(root: str) -> None:
    folders = Folders(Path(root))
    spark = (
        SparkSession.builder.config(map=checkpoint_files.USUAL)
        .master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    frame = file_stream(
        spark,
        folders,
        reader="tests.spark.traced_query:TroubledText",
        maxFilesPerTrigger=2,
        parallelism=2,
        uid="orders",
        tracing="true",
    )
    run_to_end(to_lake(frame, folders), deadline_s=600)
    rows = (
        spark.read.format("flip27")
        .options(reader="text", tracing="true", uid="again", parallelism=2)
        .load(str(folders.landing))
    )
    print("rows", rows.count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
