"""Decodes values that are Avro records of one writer's schema, with fastavro."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.errors import RegistryError, SchemaError
from flip27_source.readers.columnar.avro_types import AvroTypes
from flip27_source.readers.columnar.conversions import MismatchError
from flip27_source.readers.columnar.named_columns import NamedColumns
from flip27_source.readers.kafka.decoding.decoder import (
    Decoded,
    ValueDecoder,
    joined,
    struct_of,
    structs_that_fit,
)
from flip27_source.readers.schemas.merging import spark_type

_NAMED = ("record", "error", "enum", "fixed")


class AvroSchema:
    """A writer's schema.

    Args:
        schema: the schema, as JSON.
        named: the schemas of types that ``schema`` uses by name without defining them.
        where: where the schema comes from, for messages.

    Raises:
        SchemaError: the schema is invalid, or is not that of a record.
    """

    def __init__(self, schema: Any, *, where: str, named: Mapping[str, Any] | None = None) -> None:
        fastavro = _fastavro()
        self.where = where
        try:
            schema = fastavro.parse_schema(_with_types(schema, dict(named or {})), _write_hint=False)
        except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types
            raise SchemaError(
                f"the Avro schema of {where} is invalid: {type(error).__name__}: {error}",
                remedy="correct the schema",
            ) from None
        if not isinstance(schema, dict) or schema["type"] not in ("record", "error"):
            raise SchemaError(
                f"the Avro schema of {where} is {str(schema)[:100]}, but values must be records",
                remedy="leave valueFormat out and decode the values in the query",
            )
        types = AvroTypes(schema)
        try:
            self.stored = pa.schema(
                [(field["name"], types.arrow_type(field["type"])) for field in schema["fields"]]
            )
        except MismatchError as mismatch:
            raise SchemaError(
                f"the Avro schema of {where}: {mismatch}", remedy="leave valueFormat out"
            ) from None
        self._decoded_by = fastavro.parse_schema(types.decoded_by(schema))
        self._read = fastavro.schemaless_reader

    @property
    def type(self) -> pa.DataType:
        """The type of the records, in Spark's types."""
        return pa.struct([pa.field(field.name, spark_type(field.type)) for field in self.stored])

    def record(self, value: bytes) -> dict[str, Any] | str:
        """The fields of one value, or why it cannot be decoded."""
        data = io.BytesIO(value)
        try:
            record: dict[str, Any] = self._read(data, self._decoded_by)
        except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types
            return f"it is not an Avro record of {self.where}: {type(error).__name__}: {error}"[:500]
        left = len(value) - data.tell()
        return f"{left} bytes follow the Avro record of {self.where}" if left else record


class AvroValues(ValueDecoder):
    """Decodes Avro records of one schema to structs.

    Raises:
        SchemaError: a field's type does not match the writer's schema.
    """

    def __init__(self, kind: pa.StructType, schema: AvroSchema) -> None:
        self.type = kind
        self._schema = schema
        wanted = pa.schema([kind.field(number) for number in range(kind.num_fields)])
        self._nullable = pa.schema([field.with_nullable(True) for field in wanted])
        self._columns = NamedColumns(schema.where, self._nullable, schema.stored.names)
        self._kinds = {name: schema.stored.field(name).type for name in self._columns.wanted}
        self._batch([])

    def decode(self, values: pa.Array) -> Decoded:
        """The values as structs."""
        records: list[dict[str, Any]] = []
        rows: list[int] = []
        failures: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            record = self._schema.record(value)
            if isinstance(record, str):
                failures[row] = record
            else:
                records.append(record)
                rows.append(row)
        structs = structs_that_fit(records, rows, self._batch, failures)
        return Decoded(values=joined(structs, len(values), self.type), failures=failures)

    def _batch(self, records: Sequence[dict[str, Any]]) -> pa.Array:
        if not self._kinds:
            nulls = [pa.nulls(len(records), field.type) for field in self._nullable]
            return struct_of(nulls, self.type, len(records))
        arrays = [pa.array([record[name] for record in records], kind) for name, kind in self._kinds.items()]
        batch = self._columns.batch(pa.RecordBatch.from_arrays(arrays, names=list(self._kinds)))
        return struct_of(batch.columns, self.type, len(records))


def _with_types(schema: Any, named: dict[str, Any], space: str = "") -> Any:
    """The schema, where the first use of each name in ``named`` is replaced by the type's definition."""
    if isinstance(schema, str):
        name = next((name for name in (f"{space}.{schema}", schema) if name in named), None)
        return schema if name is None else _with_types(named.pop(name), named)
    if isinstance(schema, list):
        return [_with_types(branch, named, space) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in _NAMED:
        space = _namespace(schema, space)
    found = dict(schema)
    for inner in ("items", "values", "type"):
        if inner in found:
            found[inner] = _with_types(found[inner], named, space)
    if isinstance(found.get("fields"), list):
        found["fields"] = [_with_types(field, named, space) for field in found["fields"]]
    return found


def _namespace(schema: Mapping[str, Any], space: str) -> str:
    """The namespace of a named type inside the namespace ``space``; one in its name comes first."""
    before, dot, _ = str(schema.get("name")).rpartition(".")
    return before if dot else schema.get("namespace", space) or ""


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise RegistryError(
            "valueFormat=avro needs the package fastavro, which is not installed here",
            remedy="pip install 'flip27-source[kafka,avro]' on the driver and on every executor node",
        ) from None
    return fastavro
