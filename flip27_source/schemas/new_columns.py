"""Columns that a source has and its recorded schema does not. Pure: no I/O."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types


def additions(schema: pa.Schema, found: pa.Schema) -> pa.Schema:
    """Columns that only ``found`` has, and columns whose structs have more fields in ``found``.

    Names are case-insensitive; the types of common columns do not matter.
    """
    known = {field.name.lower(): field for field in schema}
    new = []
    for field in found:
        held = known.get(field.name.lower())
        kind = field.type if held is None else _grown(held.type, field.type)
        if held is None or kind != held.type:
            new.append(pa.field(field.name if held is None else held.name, kind))
    return pa.schema(new)


def evolved(schema: pa.Schema, new: pa.Schema) -> pa.Schema:
    """``schema`` with ``additions``: existing columns keep their places, new columns come last."""
    fields = {field.name.lower(): field for field in schema}
    for field in additions(schema, new):
        fields[field.name.lower()] = field
    return pa.schema(list(fields.values()))


def _grown(held: pa.DataType, found: pa.DataType) -> pa.DataType:
    """``held`` with the fields that only ``found`` has."""
    if types.is_struct(held) and types.is_struct(found):
        grown = evolved(pa.schema(list(held)), pa.schema(list(found)))
        return held if grown == pa.schema(list(held)) else pa.struct(list(grown))
    if types.is_list(held) and types.is_list(found):
        value = _grown(held.value_type, found.value_type)
        return held if value == held.value_type else pa.list_(value)
    if types.is_map(held) and types.is_map(found):
        item = _grown(held.item_type, found.item_type)
        return held if item == held.item_type else pa.map_(held.key_type, item)
    return held
