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
from tests.spark.streams import Folders


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
    frame = (
        spark.readStream.format("flip27")
        .option("enumerator", "tests.spark.authors:CrashingFiles")
        .option("reader", "tests.spark.authors:CrashingText")
        .option("stateLocation", state)
        .option("maxFilesPerTrigger", 4)
        .load(str(folders.landing))
    )
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folders.checkpoint))
        .option("path", str(folders.lake))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("finished", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
