"""Converts an Avro schema to Arrow types, and to the schema for decoding the records.

The types are those of Spark's Avro source: enum and uuid are strings, fixed is binary, a union with null is
its other type. A union of several types is a struct of ``member0``, ``member1``, ... with one field set.
Dates and timestamps are decoded as their stored numbers, which Arrow uses directly. No I/O.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from flip27_source.readers.columnar.conversions import MismatchError, union_member, wanted_fields
from flip27_source.schemas.new_columns import MOST_DIGITS

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}
_MOST_DIGITS_OF_ARROW = 76
_MOST_FRAMES = 20_000
"""Of Python, which has them on its heap: six for each level of a record that contains itself."""
_NAMED = ("record", "error", "enum", "fixed")


class AvroTypes:
    """The types of one file.

    Args:
        schema: the writer's schema, with full names (``fastavro.parse_schema``).
    """

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self._branches = 0
        self._collect(schema)

    def arrow_type(
        self, schema: Any, inside: tuple[str, ...] = (), *, wanted: pa.DataType | None = None
    ) -> pa.DataType:
        """The Arrow type of the values that ``decoded_by(schema)`` decodes.

        Args:
            wanted: the type to which the values will be converted, if it is known. Fields that it does not
                have are left out if they have no type, and a record may contain itself as deep as it does.

        Raises:
            MismatchError: a record contains itself, or a decimal has more digits than Spark and Arrow have.
        """
        if isinstance(schema, list):
            return self._type_of_union(schema, inside, wanted)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._type_of_name(schema, inside, wanted)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.arrow_type(kind, inside, wanted=wanted)
        return _type_of_leaf(schema) or self._type_of_nested(schema, inside, wanted)

    def decoded_by(self, schema: Any) -> Any:
        """The schema, with the same encoding, that decodes to values for ``arrow_type``."""
        if isinstance(schema, list):
            return self._decoded_union(schema)
        if isinstance(schema, str):
            return schema
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.decoded_by(kind)
        decoded = {key: value for key, value in schema.items() if not key.startswith("__")}
        if decoded.get("logicalType") != "decimal":
            decoded.pop("logicalType", None)
        if kind in ("record", "error"):
            decoded["fields"] = [
                {"name": field["name"], "type": self.decoded_by(field["type"])} for field in schema["fields"]
            ]
        for inner in ("items", "values"):
            if inner in decoded:
                decoded[inner] = self.decoded_by(schema[inner])
        return decoded

    def _collect(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        elif isinstance(schema, dict):
            if schema["type"] in _NAMED:
                self._named[schema["name"]] = schema
            for field in schema.get("fields", ()):
                self._collect(field["type"])
            for inner in ("items", "values", "type"):
                if isinstance(schema.get(inner), dict | list):
                    self._collect(schema[inner])

    def _type_of_name(self, name: str, inside: tuple[str, ...], wanted: pa.DataType | None) -> pa.DataType:
        if name in inside and wanted_fields(wanted) is None:
            raise MismatchError(f"it has the type {name}, which contains itself")
        return self.arrow_type(self._named[name], inside, wanted=wanted)

    def _type_of_nested(
        self, schema: Any, inside: tuple[str, ...], wanted: pa.DataType | None
    ) -> pa.DataType:
        kind = schema["type"]
        if kind == "array":
            items = getattr(wanted, "value_type", None)
            return pa.list_(self.arrow_type(schema["items"], inside, wanted=items))
        if kind == "map":
            items = getattr(wanted, "item_type", None)
            return pa.map_(pa.string(), self.arrow_type(schema["values"], inside, wanted=items))
        if kind not in ("record", "error"):
            return self._type_of_name(kind, inside, wanted)
        fields = ((field["name"], field["type"]) for field in schema["fields"])
        return pa.struct(list(self._typed(fields, (*inside, schema["name"]), wanted)))

    def _typed(
        self, fields: Iterable[tuple[str, Any]], inside: tuple[str, ...], wanted: pa.DataType | None
    ) -> Iterator[tuple[str, pa.DataType]]:
        kinds = wanted_fields(wanted)
        for name, schema in fields:
            field = None if kinds is None else kinds.get(name.lower())
            try:
                kind = self.arrow_type(schema, inside, wanted=field)
            except MismatchError:
                if kinds is None or field is not None:
                    raise
            else:
                yield name, kind

    def _type_of_union(
        self, branches: list[Any], inside: tuple[str, ...], wanted: pa.DataType | None
    ) -> pa.DataType:
        others = [branch for branch in branches if not _is_null(branch)]
        if not others:
            return pa.null()
        wider = _wider(others)
        if len(others) == 1 or wider is not None:
            return self.arrow_type(wider or others[0], inside, wanted=wanted)
        members = ((f"member{at}", branch) for at, branch in enumerate(others))
        return pa.struct([union_member(*member) for member in self._typed(members, inside, wanted)])

    def _decoded_union(self, branches: list[Any]) -> list[Any]:
        others = [branch for branch in branches if not _is_null(branch)]
        if len(others) < 2 or _wider(others) is not None:
            return [self.decoded_by(branch) for branch in branches]
        # A record of one field has the same bytes as the field, and identifies the branch.
        decoded: list[Any] = []
        member = 0
        for branch in branches:
            if _is_null(branch):
                decoded.append(branch)
                continue
            field = {"name": f"member{member}", "type": self.decoded_by(branch)}
            self._branches += 1
            # A namespace in this name would also be the namespace of types in the branch that have none.
            decoded.append({"type": "record", "name": f"flip27_branch{self._branches}", "fields": [field]})
            member += 1
        return decoded


def record_reader(schema: Any) -> Callable[[Any, Any], Any]:
    """fastavro's reader of records of this schema, called with a stream and the parsed schema.

    For a record that may contain itself it is the one in Python: that in C has no limit of its depth, so that
    a value of a few kilobytes ends the process.
    """
    import fastavro

    if not _contains_itself(schema):
        return fastavro.schemaless_reader
    from fastavro import _read_py

    def limited(stream: Any, parsed: Any) -> Any:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _MOST_FRAMES))
        try:
            return _read_py.schemaless_reader(stream, parsed)
        finally:
            sys.setrecursionlimit(before)

    return limited


def _contains_itself(schema: Any, inside: tuple[str, ...] = ()) -> bool:
    if not isinstance(schema, dict):
        return (
            schema in inside if isinstance(schema, str) else any(_contains_itself(b, inside) for b in schema)
        )
    if schema["type"] in ("record", "error"):
        inside = (*inside, schema["name"])
        return any(_contains_itself(field["type"], inside) for field in schema["fields"])
    return any(_contains_itself(schema[key], inside) for key in ("items", "values", "type") if key in schema)


def with_valid_logical_types(schema: Any) -> Any:
    """A writer's schema without the logical types that its types cannot have: Avro ignores these."""
    if isinstance(schema, list):
        return [with_valid_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    valid = dict(schema)
    if not _has_valid_logical_type(schema):
        del valid["logicalType"]
    for inner in ("items", "values", "type"):
        if inner in valid:
            valid[inner] = with_valid_logical_types(valid[inner])
    if isinstance(valid.get("fields"), list):
        valid["fields"] = [
            {**field, "type": with_valid_logical_types(field["type"])}
            if isinstance(field, dict) and "type" in field
            else field
            for field in valid["fields"]
        ]
    return valid


def _has_valid_logical_type(schema: dict[str, Any]) -> bool:
    """Whether a logical type, if there is one, is a text, and a decimal has the digits that it can have."""
    if schema.get("logicalType") != "decimal":
        return isinstance(schema.get("logicalType", ""), str)
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return False
    if schema.get("type") != "fixed":
        return schema.get("type") == "bytes"
    size = schema.get("size")
    return isinstance(size, int) and precision <= math.log10(2) * (8 * size - 1)


def _type_of_leaf(schema: Any) -> pa.DataType | None:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > _MOST_DIGITS_OF_ARROW:
            raise MismatchError(f"Spark has no type for a decimal of {precision} digits")
        return (pa.decimal128 if precision <= MOST_DIGITS else pa.decimal256)(precision, scale)
    if kind == "enum":
        return pa.string()
    if kind == "fixed":
        return pa.binary(schema["size"])
    return _LOGICAL.get((kind, logical)) or _PRIMITIVES.get(kind)


def _is_null(branch: Any) -> bool:
    return branch == "null" or (isinstance(branch, dict) and branch["type"] == "null")


def _wider(others: list[Any]) -> str | None:
    names = [branch for branch in others if isinstance(branch, str)]
    return _WIDER.get(frozenset(names)) if len(names) == len(others) == 2 else None
