"""The kafka source keeps the laws of sources, on a real broker."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.testing import SourceUnderTest, check_enumerator, check_reader, check_source
from tests.enumerators.kafka.reading import options_of
from tests.kafka_server import KafkaBroker


@pytest.fixture
def options(kafka: KafkaBroker) -> dict[str, str]:
    """Three partitions with records, some of them aborted, which are read a few offsets at a time."""
    topic = kafka.topic(3)
    for partition in range(3):
        kafka.produce(topic, [b"%d" % number for number in range(4)], partition=partition)
    kafka.produce(topic, [b"never"], transaction="aborted")
    kafka.produce(topic, [b"last"], partition=1)
    return options_of(kafka, topic, maxRowsPerTrigger="5")


def test_the_enumerator_keeps_the_laws(options: dict[str, str]) -> None:
    check_enumerator(options)


def test_the_reader_keeps_the_laws(options: dict[str, str]) -> None:
    check_reader(options)


@pytest.mark.slow
def test_the_source_keeps_the_laws(options: dict[str, str]) -> None:
    check_source(options, fast=True)


@pytest.fixture
def decoding(kafka: KafkaBroker) -> SourceUnderTest:
    """Two partitions with records that cannot be decoded."""
    topic = kafka.topic(2)
    for partition in range(2):
        kafka.produce(topic, [b'{"id": 1}', b"broken", None, b'{"id": 2}', b"{}}"], partition=partition)
    options = options_of(
        kafka,
        topic,
        maxRowsPerTrigger="4",
        valueFormat="json",
        onRecordError="quarantine",
        includeHeaders="true",
    )
    schema = record_schema(include_headers=True).set(1, pa.field("value", pa.struct([("id", pa.int64())])))
    return SourceUnderTest(options=options, schema=schema)


def test_a_reader_that_sets_records_aside_keeps_the_laws(decoding: SourceUnderTest) -> None:
    check_reader(decoding)


@pytest.mark.slow
def test_a_source_that_sets_records_aside_keeps_the_laws(decoding: SourceUnderTest) -> None:
    check_source(decoding, fast=True)
