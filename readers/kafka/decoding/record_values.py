"""Decodes values that are records of one writer's schema, such as Avro records and Protobuf messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.readers.columnar.named_columns import NO_COLUMN, NamedColumns
from flip27_source.readers.kafka.decoding.avro_schema import AvroSchema
from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder, joined, struct_of
from flip27_source.readers.kafka.decoding.protobuf_message import ProtobufMessage


class RecordValues(ValueDecoder):
    """Decodes records of one schema to structs."""

    def __init__(self, kind: pa.StructType, writer: AvroSchema | ProtobufMessage) -> None:
        self.type = kind
        self._record = writer.record
        nullable = pa.schema([field.with_nullable(True) for field in kind])
        self._columns = NamedColumns(writer.place, nullable, writer.names)
        self._fields = [
            writer.stored(name, field.type)
            for name, field in zip(self._columns.names, kind, strict=True)
            if name is not None
        ]
        self._batch([])

    def decode(self, values: pa.Array) -> Decoded:
        records: list[Any] = []
        rows: list[int] = []
        failures: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                records.append(self._record(value))
            except ValueError as error:
                failures[row] = str(error)
            else:
                rows.append(row)
        structs = _structs_that_fit(records, rows, self._batch, failures)
        return Decoded(values=joined(structs, len(values), self.type), failures=failures)

    def _batch(self, records: Sequence[Any]) -> pa.Array:
        arrays = [pa.array(map(getter, records), field.type) for field, getter in self._fields]
        fields = [field for field, _ in self._fields]
        if not fields:
            arrays, fields = [pa.nulls(len(records))], [NO_COLUMN]
        batch = self._columns.batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
        return struct_of(batch.columns, self.type, len(records))


def _structs_that_fit(
    records: Sequence[Any],
    rows: Sequence[int],
    batch: Callable[[Sequence[Any]], pa.Array],
    failures: dict[int, str],
) -> list[tuple[Sequence[int], pa.Array]]:
    """Structs of the records that fit their types, in pieces with the rows of their values.

    Args:
        rows: the row of each record in its block.
        batch: returns the structs of records, or raises an error if a value does not fit its type.
        failures: receives the other records: why they do not fit, by their rows.
    """
    if not records:
        return []
    try:
        return [(rows, batch(records))]
    except (pa.ArrowException, OverflowError, ValueError, TypeError, SchemaError) as error:
        if len(records) == 1:
            failures[rows[0]] = f"it has a value that does not fit its type: {error}"
            return []
    # Find the values that do not fit their type: a decimal with too many digits, or a date out of range.
    middle = len(records) // 2
    left = _structs_that_fit(records[:middle], rows[:middle], batch, failures)
    return left + _structs_that_fit(records[middle:], rows[middle:], batch, failures)
