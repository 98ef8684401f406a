"""The program that the soak kills: it streams the counters to Parquet until the audit is delivered.

Arguments: the root folder of the query, options of the source as JSON, settings of Spark as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from flip27_source.cli.demo.process import obey_parent
from tests.spark.streams import Folders


def main(root: str, options: str, settings: str) -> None:
    folders = Folders(Path(root))
    builder = SparkSession.builder
    spark_settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        **json.loads(settings),
    }
    for key, value in spark_settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = (
        spark.readStream.format("flip27")
        .option("enumerator", "tests.audited_source:AuditedEnumerator")
        .option("reader", "tests.soak.source:SoakReader")
        .option("stateLocation", str(folders.state))
        .option("parallelism", 2)
        .options(**json.loads(options))
        .load()
    )
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folders.checkpoint))
        .option("path", str(folders.lake))
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)
    query.awaitTermination()
    print(f"finished {query.lastProgress.batchId if query.lastProgress else -1}", flush=True)


if __name__ == "__main__":
    obey_parent(lambda _line: None)
    main(*sys.argv[1:])
