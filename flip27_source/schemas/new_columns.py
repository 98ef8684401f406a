"""Columns that a source has and its recorded schema does not have, or has with a narrower type.

Pure: no I/O.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from .wider_types import NoCommonTypeError, wider

WIDENING_MODE = "addNewColumnsWithTypeWidening"
"""The schemaEvolutionMode that also widens the types of known columns."""
RECORDING_MODES = ("addNewColumns", WIDENING_MODE)
"""The values of schemaEvolutionMode with which the schema grows."""


def additions(schema: pa.Schema, found: pa.Schema, *, widens: bool = False) -> pa.Schema:
    """Columns that only ``found`` has, and columns whose structs have more fields in ``found``.

    Names are case-insensitive.

    Args:
        widens: also return columns whose values in ``found`` need a wider type; otherwise the types of
            common columns do not matter. A type that cannot be widened stays.
    """
    known = {field.name.lower(): field for field in schema}
    new = []
    for field in found:
        held = known.get(field.name.lower())
        kind = field.type if held is None else _grown(held.type, field.type, widens)
        if held is None or kind != held.type:
            new.append(pa.field(field.name if held is None else held.name, kind))
    return pa.schema(new)


def evolved(schema: pa.Schema, new: pa.Schema, *, widens: bool = False) -> pa.Schema:
    """``schema`` with ``additions``: existing columns keep their places, new columns come last."""
    fields = {field.name.lower(): field for field in schema}
    for field in additions(schema, new, widens=widens):
        fields[field.name.lower()] = field
    return pa.schema(list(fields.values()))


def _grown(held: pa.DataType, found: pa.DataType, widens: bool) -> pa.DataType:
    """``held`` with the fields that only ``found`` has, and with wider types if ``widens``."""
    if types.is_struct(held) and types.is_struct(found):
        grown = evolved(pa.schema(list(held)), pa.schema(list(found)), widens=widens)
        return held if grown == pa.schema(list(held)) else pa.struct(list(grown))
    if types.is_list(held) and types.is_list(found):
        value = _grown(held.value_type, found.value_type, widens)
        return held if value == held.value_type else pa.list_(value)
    if types.is_map(held) and types.is_map(found):
        key = _grown(held.key_type, found.key_type, widens) if widens else held.key_type
        item = _grown(held.item_type, found.item_type, widens)
        return held if (key, item) == (held.key_type, held.item_type) else pa.map_(key, item)
    if not widens:
        return held
    try:
        return wider(held, found)
    except NoCommonTypeError:
        return held
