"""A table's rows from PostgreSQL, then its changes from a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import hybrid
from flip27_source.enumerators.kafka.split import KafkaSplit
from flip27_source.enumerators.sequence import SequenceSplit
from flip27_source.options import Options
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.kafka.arrow_records import record_schema
from flip27_source.readers.kafka.reader import KafkaReader
from flip27_source.readers.sequence import SequenceReader
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.kafka.reading import options_of
from tests.kafka_server import KafkaBroker
from tests.postgres_server import PostgresServer

ORDERS = pa.schema({"id": pa.int64(), "v": pa.string()})


class OrdersOfTopic(KafkaReader):
    """Reads the values of records as rows of the table."""

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema:
        return ORDERS

    def open(self, context: SourceReaderContext) -> None:
        super().open(replace(context, schema=record_schema(include_headers=False)))

    def read_together(self, splits: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        for batch in super().read_together(splits):
            values = [json.loads(value) for value in batch.column("value").to_pylist()]
            yield pa.RecordBatch.from_pylist(values, schema=ORDERS)


class OrdersByNumber(SequenceReader):
    def read(self, split: SequenceSplit) -> Iterator[Any]:
        for batch in super().read(split):
            yield from ((number, "n") for number in batch.column(0).to_pylist())


def test_a_topic_goes_on_where_the_rows_of_a_table_began_to_be_read(
    postgres: PostgresServer, kafka: KafkaBroker
) -> None:
    topic = kafka.topic()

    def change(number: int, value: str) -> None:
        control.execute("INSERT INTO orders VALUES (%s, %s)", [number, value])
        kafka.produce(topic, [json.dumps({"id": number, "v": value}).encode()])

    with postgres.database() as database, postgres.connect(database) as control:
        control.execute("CREATE TABLE orders (id bigint PRIMARY KEY, v text)")
        change(1, "before")
        table = postgres.options(database, tables="orders", snapshot="only")
        live = options_of(kafka, topic, startingTimestamp="{switch}", reader=f"{__name__}:OrdersOfTopic")
        chain = hybrid((table.pop("enumerator"), table), (live.pop("enumerator"), live))
        engine = MicroBatchEngine(chain, schema=ORDERS)
        engine.run_batch()
        change(2, "meanwhile")
        engine.restart()
        engine.process_all_available()
        change(3, "after")
        engine.process_all_available()
        assert engine.rows == [(1, "before"), (2, "meanwhile"), (3, "after")]


def test_a_slot_that_nothing_reads_any_more_is_named_at_the_switch_and_at_each_start(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with postgres.database() as database, postgres.connect(database) as control:
        control.execute("CREATE TABLE orders (id bigint PRIMARY KEY, v text)")
        control.execute("INSERT INTO orders VALUES (1, 'a')")
        table = postgres.options(database, tables="orders", snapshot="initial", slotName=database)
        numbers = {"start": 0, "end": 2, "rowsPerSplit": 1, "reader": f"{__name__}:OrdersByNumber"}
        chain = hybrid((table.pop("enumerator"), table), ("sequence", numbers))
        engine = MicroBatchEngine(chain, schema=ORDERS)
        named = f"slot {database} makes the server keep its log"
        while not any("starts at" in one for one in caplog.messages):
            assert named not in caplog.text
            with caplog.at_level("INFO"):
                engine.run_batch()
        assert caplog.text.count(named) == 1
        engine.restart()
        engine.process_all_available()
        assert caplog.text.count(named) == 2
        assert f"flip27 postgres drop --slot {database}" in caplog.text
        engine.holder.close()
