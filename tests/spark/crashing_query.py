"""The program that the crash tests run and kill: it streams a folder to Parquet until everything is read.

Arguments: the root folder of the query, and the state location.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests import checkpoint_files
from tests.spark.jvm import jvm_of
from tests.spark.streams import Folders, file_stream, run_to_end, to_lake


def main(root: str, state: str) -> None:
    folders = Folders(Path(root))
    requests = Path(os.environ["FLIP27_TEST_CRASH_DIR"])
    spark = (
        SparkSession.builder.config(map=checkpoint_files.USUAL)
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    jvm = jvm_of(spark).java.lang.ProcessHandle.current().pid()
    (requests / "FLIP27_TEST_JVM_PID").write_text(str(jvm))
    (requests / "FLIP27_TEST_DRIVER_PID").write_text(str(os.getpid()))
    here = "tests.spark.authors"
    classes = {"enumerator": f"{here}:CrashingFiles", "reader": f"{here}:CrashingText"}
    frame = file_stream(spark, folders, **classes, stateLocation=state, maxFilesPerTrigger=4)
    run_to_end(to_lake(frame, folders), deadline_s=600)
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
