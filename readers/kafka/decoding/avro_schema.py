"""The schemas with which Avro values were written, and their records, with fastavro."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.optional_packages import needed
from flip27_source.readers.columnar.avro_types import AvroTypes, record_reader, with_valid_logical_types
from flip27_source.readers.columnar.conversions import MismatchError
from flip27_source.readers.schemas.merging import spark_type

_NAMED = ("record", "error", "enum", "fixed")


def imported_fastavro() -> Any:
    with needed("fastavro", by="valueFormat=avro", extra="kafka,avro"):
        import fastavro
    return fastavro


class AvroSchema:
    """A writer's schema.

    Args:
        named: the schemas of types that ``schema`` uses by name without defining them.

    Attributes:
        place: where the schema comes from, for messages.
        names: the names of the fields.
    """

    def __init__(self, schema: Any, *, where: str, named: Mapping[str, Any] | None = None) -> None:
        fastavro = imported_fastavro()
        self.place = where
        try:
            complete = _with_types(schema, dict(named or {}))
            schema = fastavro.parse_schema(with_valid_logical_types(complete), _write_hint=False)
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
        self._types = AvroTypes(schema)
        self._fields = {field["name"]: field["type"] for field in schema["fields"]}
        self.names = list(self._fields)
        self._decoded_by = fastavro.parse_schema(self._types.decoded_by(schema))
        self._read = record_reader(schema)

    @property
    def type(self) -> pa.DataType:
        """The type of the records, in Spark's types."""
        return pa.struct([(name, spark_type(self.stored(name)[0].type)) for name in self.names])

    def stored(self, name: str, wanted: pa.DataType | None = None) -> tuple[pa.Field, Callable[[Any], Any]]:
        """The field with the Arrow type of its values, and the function that gets its value in a record.

        Args:
            wanted: the type to which the values will be converted, if it is known.

        Raises:
            SchemaError: Arrow has no type for the values.
        """
        try:
            return pa.field(name, self._types.arrow_type(self._fields[name], wanted=wanted)), itemgetter(name)
        except MismatchError as mismatch:
            raise SchemaError(
                f"the Avro schema of {self.place}: field {name}: {mismatch}",
                remedy="leave the field out in .schema(...), or leave valueFormat out",
            ) from None

    def record(self, value: bytes) -> Any:
        """The fields of one value; raises ValueError, which says why, if there are none."""
        data = io.BytesIO(value)
        try:
            record = self._read(data, self._decoded_by)
        except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types
            why = f"it is not an Avro record of {self.place}: {type(error).__name__}: {error}"
            raise ValueError(why[:500]) from None
        left = len(value) - data.tell()
        if left:
            raise ValueError(f"{left} bytes follow the Avro record of {self.place}")
        return record


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
        # A namespace in the name comes first.
        before, dot, _ = str(schema.get("name")).rpartition(".")
        space = before if dot else schema.get("namespace", space) or ""
    complete = dict(schema)
    for inner in ("items", "values", "type"):
        if inner in complete:
            complete[inner] = _with_types(complete[inner], named, space)
    if isinstance(complete.get("fields"), list):
        complete["fields"] = [_with_types(field, named, space) for field in complete["fields"]]
    return complete
