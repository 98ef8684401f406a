"""Queries that decode values: what they deliver, and how they handle values that cannot be decoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from flip27_source.errors import SchemaError, SplitReadError
from tests.enumerators.kafka.reading import read, stream
from tests.kafka_server import KafkaBroker
from tests.readers.kafka.decoding.test_values import avro
from tests.schema_registry_server import SchemaRegistryServer, framed

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
SCHEMA = pa.schema(
    [pa.field("value", ORDER), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)


def test_json_values_are_structs_next_to_the_columns_that_the_schema_names(kafka: KafkaBroker) -> None:
    topic = kafka.filled_topic([b'{"id": 1, "name": "a"}', None, b'{"name": "b",\n"id": 2}'])
    engine = read(kafka, topic, valueFormat="json", schema=SCHEMA)
    assert engine.rows == [({"id": 1, "name": "a"}, 0, 0), (None, 0, 1), ({"id": 2, "name": "b"}, 0, 2)]
    engine.stop()


def test_a_value_that_does_not_decode_stops_the_query_with_its_record(kafka: KafkaBroker) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [b'{"id": 1}'])
    kafka.produce(topic, [b'{"id": 2}', b'{"id": "x"}', b"broken"], partition=1)
    engine = stream(kafka, topic, valueFormat="json", schema=SCHEMA, parallelism=1)
    with pytest.raises(
        SplitReadError, match=rf"the record {topic}/1 at offset 1 cannot be decoded: its field id "
    ):
        engine.process_all_available()
    assert engine.rows == []
    again = read(kafka, topic, valueFormat="json", schema=SCHEMA, onRecordError="null")
    assert sorted(row[1:] for row in again.rows if row[0] is None) == [(1, 1), (1, 2)]
    assert len(again.rows) == 4
    again.stop()


def test_the_columns_come_from_the_schema_in_the_registry(
    kafka: KafkaBroker, registry: SchemaRegistryServer
) -> None:
    topic = kafka.topic()
    order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    number = registry.add(f"{topic}-value", order)
    kafka.produce(topic, [framed(number, avro({"id": 7}, order))])
    engine = stream(kafka, topic, valueFormat="avro", schemaRegistryUrl=registry.url)
    assert engine.schema.field("value").type == pa.struct([("id", pa.int64())])
    engine.process_all_available()
    assert [row[1] for row in engine.rows] == [{"id": 7}]
    engine.stop()


def test_a_schema_that_does_not_match_the_value_format_is_refused(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.filled_topic([b"{}"])
    flat = pa.schema([pa.field("id", pa.int64())])
    engine = stream(kafka, topic, valueFormat="json", schema=flat)
    with pytest.raises(SchemaError, match="the schema has id int64"):
        engine.process_all_available()
    with pytest.raises(SchemaError, match="the fields of the values are not known"):
        stream(kafka, topic, valueFormat="json")
