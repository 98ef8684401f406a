"""A backlog of a Kafka topic behind a watermark: the rows that Spark drops as late, with and without
``eventTimeOrder``.

``python -m benchmarks.kafka_event_time`` fills a topic whose partitions have the same days, and different
numbers of records, and counts the records in windows of an hour. The broker is noida-db, not Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tests.kafka_server import KafkaBroker, kafka_broker, raise_error

BEGIN_MS = 1_704_067_200_000
DAY_MS = 86_400_000


def main(words: Sequence[str] | None = None) -> int:
    """Read the topic in each way, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_event_time")
    parser.add_argument("--records", type=int, nargs="+", default=[50_000, 5_000, 500], help="by partition")
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--offsets-per-trigger", type=int, default=3_000)
    parser.add_argument("--delay", default="10 minutes", help="of the watermark")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **vars(given)}
    with kafka_broker() as broker, tempfile.TemporaryDirectory() as folder:
        topic = filled(broker, given)
        for name, more in (
            ("by offsets", {}),
            ("eventTimeOrder", {"eventTimeOrder": "true", "watermarkDelay": given.delay}),
            ("eventTimeOrder, 10 minutes", {"eventTimeOrder": "true", "maxEventTimeDrift": given.delay}),
        ):
            found[name] = lost_of(spark, broker, topic, more, folder, given)
    print(json.dumps(found, indent=1))
    spark.stop()
    return 0


def filled(broker: KafkaBroker, given: argparse.Namespace) -> str:
    """A topic whose partitions have records at random times of all days, in order."""
    chance, topic = random.Random(given.seed), broker.topic(len(given.records))
    producer = broker.producer(linger_ms=20)
    for partition, count in enumerate(given.records):
        for at_ms in sorted(chance.randrange(given.days * DAY_MS) for _ in range(count)):
            producer.produce(
                topic, b"v", partition=partition, timestamp=BEGIN_MS + at_ms, on_delivery=_delivered
            )
            producer.poll(0)
        assert producer.flush(60) == 0
    return topic


def _delivered(error: Any, message: Any) -> None:
    if error is not None:
        raise_error(error, message)


def lost_of(
    spark: Any, broker: KafkaBroker, topic: str, more: dict[str, str], folder: str, given: argparse.Namespace
) -> dict[str, Any]:
    """Count the records in windows of an hour, and return how many of them are in none."""
    from pyspark.sql import functions as f

    started_s = time.monotonic()
    checkpoint = tempfile.mkdtemp(dir=folder)
    options = {
        "enumerator": "kafka", "kafka.bootstrap.servers": broker.address, "subscribe": topic,
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(given.offsets_per_trigger),
        "stateLocation": f"{checkpoint}/flip27",
    }  # fmt: skip
    rows = spark.readStream.format("flip27").options(**options, **more).load()
    counts = rows.withWatermark("timestamp", given.delay).groupBy(f.window("timestamp", "1 hour")).count()
    writer = counts.writeStream.format("memory").queryName("counts").outputMode("update")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    newest = spark.table("counts").groupBy("window").agg(f.max("count").alias("count"))
    counted = newest.agg(f.sum("count"), f.count("count")).first()
    ends = [json.loads(batch.json)["sources"][0]["endOffset"]["summary"] for batch in query.recentProgress]
    delays = [end["smallestWatermarkDelayMs"] for end in ends if "smallestWatermarkDelayMs" in end]
    found = {"lost": sum(given.records) - counted[0], "of": sum(given.records), "windows": counted[1]}
    return found | {
        "batches": len(ends),
        "smallest_delay_ms": max(delays, default=None),
        "seconds": round(time.monotonic() - started_s, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
