"""The kafka reader: records as Arrow batches, with the columns of Spark's Kafka source."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from flip27_source.enumerators.kafka.client_properties import client_properties
from flip27_source.enumerators.kafka.options import (
    FAIL_ON_DATA_LOSS,
    INCLUDE_HEADERS,
    POLL_TIMEOUT,
    SUBSCRIBE,
)
from flip27_source.enumerators.kafka.split import KafkaSplit
from flip27_source.errors import AccessError, SchemaError
from flip27_source.options import Option, Options
from flip27_source.reader import ReadsTogether, SourceReaderContext, SplitReader
from flip27_source.readers.datetimes.options import DATETIME_OPTIONS
from flip27_source.readers.json_lines.options import JSON_DIALECT_OPTIONS
from flip27_source.readers.kafka.arrow_records import VALUE, Run, bytes_of, columns, record_schema
from flip27_source.readers.kafka.consumers import other_topics, pooled_consumer
from flip27_source.readers.kafka.decoding.options import DECODING_OPTIONS, ON_RECORD_ERROR, decodes_values
from flip27_source.readers.kafka.decoding.value_schemas import (
    check_packages,
    takes_newest,
    value_decoder,
    value_type,
)
from flip27_source.readers.kafka.fetches import Fetches
from flip27_source.readers.kafka.poisoned_records import QUARANTINE, RecordErrors, place_of, run_of
from flip27_source.schemas.inference import FindsSchema
from flip27_source.source_checks import ChecksBeforeStart
from flip27_source.source_options import STATE_LOCATION, TIME_ZONE

_NULL_VALUE = "it is null, and the column value is NOT NULL"


class KafkaReader(ReadsTogether[KafkaSplit], SplitReader[KafkaSplit], FindsSchema, ChecksBeforeStart):
    """Reads ranges of partitions, and quarantined records.

    Attributes:
        most_rows, most_bytes: when a batch is full.
        most_held_bytes: of the messages of a task that wait for earlier ranges.
    """

    options: ClassVar[tuple[Option[Any], ...]] = (
        *DECODING_OPTIONS, TIME_ZONE, *DATETIME_OPTIONS, *JSON_DIALECT_OPTIONS,
    )  # fmt: skip
    loses_whole_splits: ClassVar[bool] = False
    # Compaction removes records, and with another isolation level aborted ones are read or left out.
    repeatable: ClassVar[bool] = False
    most_rows: ClassVar[int] = 65_536
    most_bytes: ClassVar[int] = 32 * 1024 * 1024
    most_held_bytes: ClassVar[int] = 64 * 1024 * 1024

    @classmethod
    def check_before_start(cls, options: Options) -> None:
        """Check the packages that decode values."""
        check_packages(options)

    @classmethod
    def quarantines(cls, options: Options) -> bool:
        return decodes_values(options) and options[ON_RECORD_ERROR] == QUARANTINE

    @classmethod
    def default_schema(cls, options: Options) -> pa.Schema | None:
        """The columns of Spark's Kafka source; None if values are decoded."""
        return None if decodes_values(options) else record_schema(include_headers=options[INCLUDE_HEADERS])

    @classmethod
    def find_schema(cls, options: Options) -> pa.Schema:
        """The columns of Spark's Kafka source; the type of values is from a file or a schema registry."""
        records = record_schema(include_headers=options[INCLUDE_HEADERS])
        topics = options[SUBSCRIBE]
        kind = value_type(options, () if topics is None else topics)
        return records.set(records.get_field_index(VALUE), pa.field(VALUE, kind))

    @classmethod
    def records_schema(cls, options: Options) -> bool:
        """Only the newest schema of a registry changes by itself."""
        return takes_newest(options)

    @classmethod
    def complete_found(cls, schema: pa.Schema, options: Options) -> pa.Schema:
        """The recorded type of values, and the columns that the options select."""
        records = record_schema(include_headers=options[INCLUDE_HEADERS])
        return records.set(records.get_field_index(VALUE), schema.field(VALUE))

    def open(self, context: SourceReaderContext) -> None:
        super().open(context)
        known = record_schema(include_headers=True)
        for field in context.schema:
            index = known.get_field_index(field.name)
            if field.name == VALUE and decodes_values(context.options):
                continue
            if index < 0 or known.field(index).type != field.type:
                raise SchemaError(
                    f"the schema has {field.name} {field.type}, but Kafka records have "
                    + ", ".join(f"{column.name} {column.type}" for column in known),
                    remedy="leave .schema(...) out, or use only these columns",
                )
        self._properties = client_properties(context.options)
        self._value_decoder = None
        if decodes_values(context.options) and VALUE in context.schema.names:
            time_zone = context.options[TIME_ZONE] or context.time_zone
            kind = context.schema.field(VALUE).type
            self._value_decoder = value_decoder(kind, context.options, time_zone)
        self._errors = RecordErrors(context)

    def read(self, split: KafkaSplit) -> Iterator[pa.RecordBatch]:
        return self.read_together([split])

    def read_together(self, splits: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        ranges = [split for split in splits if split.end is not None and split.end > split.next]
        for is_poisoned, group in itertools.groupby(ranges, key=lambda split: split.record is not None):
            together = list(group)
            yield from self._batches(map(run_of, together)) if is_poisoned else self._fetched(together)

    def _fetched(self, ranges: Sequence[KafkaSplit]) -> Iterator[pa.RecordBatch]:
        timeout_s = self.context.options[POLL_TIMEOUT] / 1000
        others = self._recreated(ranges, timeout_s)
        ranges = [split for split in ranges if split.topic not in others]
        size_of = partial(bytes_of, with_headers="headers" in self.context.schema.names)
        with pooled_consumer(self._properties, ranges) as (consumer, causes), _no_automatic_collection():
            fetches = Fetches(
                consumer,
                self._properties,
                timeout_s=timeout_s,
                lost=self._lost,
                size_of=size_of,
                causes=causes,
                most_held_bytes=self.most_held_bytes,
            )
            for batch in self._batches(fetches.runs(ranges)):
                yield batch
                gc.collect(0)
            # librdkafka fetches by name: records of a topic that was recreated since look like those planned.
            others = self._recreated(ranges, timeout_s, fetches.seen)
            if others:
                raise AccessError(
                    f"topic {min(others)} was deleted and recreated while its records were read",
                    remedy="nothing of this task is delivered. Spark repeats the task, or restart the query: "
                    "the loss is then reported",
                )

    def _recreated(
        self, ranges: Sequence[KafkaSplit], timeout_s: float, read: Collection[str] = ()
    ) -> dict[str, str]:
        """The topics that now have another id, after reporting the loss of their ranges."""
        others = other_topics(self._properties, ranges, timeout_s=timeout_s, read=read)
        for split in ranges:
            if split.topic in others:
                gone = f"offsets {split.next} to {(split.end or 0) - 1} are gone"
                self._lost(split, f"{gone}: the topic was deleted and recreated (id {others[split.topic]})")
        return others

    def _batches(self, runs: Iterator[Run]) -> Iterator[pa.RecordBatch]:
        """The records of the runs, in batches of limited size."""
        together: list[Run] = []
        rows = size = 0
        for run in runs:
            together.append(run)
            rows += len(run.messages)
            size += run.size
            if rows >= self.most_rows or size >= self.most_bytes:
                yield self._batch(together)
                together, rows, size = [], 0, 0
        if together:
            yield self._batch(together)

    def _batch(self, runs: Sequence[Run]) -> pa.RecordBatch:
        schema = self.context.schema
        arrays = columns(schema.names, runs)
        failures: Mapping[int, str] = {}
        if self._value_decoder is not None:
            at = schema.get_field_index(VALUE)
            decoded = self._value_decoder.decode(arrays[at])
            arrays[at], failures = decoded.values, decoded.failures
            if not schema.field(at).nullable:
                failures = {**dict.fromkeys(_nulls(arrays[at]), _NULL_VALUE), **failures}
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        quarantined = self._errors.quarantined(failures, runs)
        for field, array in zip(schema, arrays, strict=True):
            if not field.nullable and (rows := set(_nulls(array)).difference(quarantined)):
                raise SchemaError(
                    f"the column {field.name} is NOT NULL in the schema, but null in the record "
                    f"{place_of(min(rows), runs)}",
                    remedy=f"leave NOT NULL of {field.name} out in .schema(...)",
                )
        return _without(batch, quarantined) if quarantined else batch

    def _lost(self, split: KafkaSplit, what: str) -> None:
        options = self.context.options
        option = "onDataLoss=report"
        if options.is_set(FAIL_ON_DATA_LOSS) or options[STATE_LOCATION] is None:
            option = f"failOnDataLoss=false, Spark's name for {option}"
        self.context.report_data_loss(
            what,
            split_id=split.split_id,
            remedy=f"restart the query with {option}, at least until this batch is complete: it then reads "
            "the remaining records, and the loss is recorded. An edit takes effect after the batch",
        )


@contextmanager
def _no_automatic_collection() -> Iterator[None]:
    """Turn Python's automatic garbage collection off while messages are read.

    Otherwise every few hundred new messages start a collection, which visits thousands of them and doubles
    the time. Messages are in no reference cycle, so they are freed without it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _nulls(array: pa.Array) -> list[int]:
    return np.flatnonzero(array.is_null()).tolist() if array.null_count else []


def _without(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    remains = np.ones(batch.num_rows, np.bool_)
    remains[rows] = False
    return batch.filter(pa.array(remains))
