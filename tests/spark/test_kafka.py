"""The kafka source in a real session: a frame that occurs twice in a query, and one that is read twice."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from tests.enumerators.kafka.reading import options_of
from tests.kafka_server import KafkaBroker
from tests.spark_features import has

from .streams import ENDING, Folders, lake_lines, run_to_end, to_lake


def test_a_self_union_of_a_topic_has_every_record_twice_and_a_stream_of_it_one_offset(
    spark: SparkSession, folders: Folders, kafka: KafkaBroker
) -> None:
    topic = kafka.filled_topic([b"a", b"b", b"c"])
    options = options_of(kafka, topic)
    once = spark.read.format("flip27").options(**options).load().selectExpr("string(value) as value")
    assert sorted(row.value for row in once.union(once).collect()) == [*"aabbcc"]
    options |= {"stateLocation": str(folders.state), "maxOffsetsPerTrigger": "2", **ENDING}
    frame = spark.readStream.format("flip27").options(**options).load().selectExpr("string(value) as value")
    query = to_lake(frame.union(frame), folders)
    run_to_end(query)
    assert lake_lines(spark, folders) == [*"aabbcc"]
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    assert [(batch["numInputRows"], len(batch["sources"])) for batch in batches] == [(4, 1), (2, 1)]
    for batch_id, checkpoint in ((0, 1), (1, 2)):
        first, second = (folders.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2:]
        assert first == second
        assert json.loads(first)["checkpoint"] == checkpoint


def test_a_loaded_batch_frame_keeps_its_records_and_a_new_load_has_later_ones(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    topic = kafka.filled_topic([b"a", b"b"])

    def loaded() -> DataFrame:
        frame = spark.read.format("flip27").options(**options_of(kafka, topic)).load()
        return frame.selectExpr("string(value) as value")

    def values(frame: DataFrame) -> list[str]:
        return sorted(row.value for row in frame.collect())

    frame = loaded()
    frame.createOrReplaceTempView("records")
    assert values(frame) == ["a", "b"]
    kafka.produce(topic, [b"c"])
    assert values(frame) == ["a", "b"]
    keeps = has("the plan of a loaded batch frame")
    assert values(spark.table("records")) == (["a", "b"] if keeps else ["a", "b", "c"])
    assert values(loaded()) == ["a", "b", "c"]
