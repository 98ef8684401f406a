"""The Spark program whose classes ``scripts/class_archive.py`` archives: it uses a little of everything.

Argument: an empty folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col


def main(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.port", "0")
        .getOrCreate()
    )
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.sparkContext.setLogLevel("ERROR")
    _batch(spark, folder)
    _streams(spark, folder)
    spark.stop()
    # The JVM writes the archive when it ends.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _batch(spark: SparkSession, folder: Path) -> None:
    numbers = spark.range(9).select("id", col("id").cast("string").alias("text"))
    for form in ("parquet", "json"):
        numbers.write.format(form).save(str(folder / form))
        spark.read.format(form).load(str(folder / form)).createOrReplaceTempView("numbers")
        spark.sql("select text, count(*) from numbers group by text order by text").collect()


def _streams(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(2):
        (folder / "in" / f"{number}.txt").write_text("first\nsecond\n")
    options = {"enumerator": "files", "reader": "text", "maxFilesPerTrigger": "1"}
    source = spark.readStream.format("flip27").options(stateLocation=str(folder / "state"), **options)
    lines = source.load(str(folder / "in"))

    def into_parquet(batch: DataFrame, _number: int) -> None:
        batch.write.mode("append").parquet(str(folder / "batches"))

    streams = [
        lines.groupBy("value").count().writeStream.foreachBatch(into_parquet).outputMode("complete"),
        lines.writeStream.format("parquet").option("path", str(folder / "lake")),
    ]
    for place, stream in enumerate(streams):
        checkpoint = str(folder / f"checkpoint-{place}")
        query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
