"""Converts parsed JSON values to Arrow arrays of exactly the schema's types.

The values come from :mod:`flip27_source.readers.json_lines.values`. pyarrow alone can build most arrays,
but it does not keep nullability or strings that are not UTF-8. Spark passes such strings on unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_STORED_AS = {pa.date32(): pa.int32(), pa.string(): pa.binary()}


def arrays_of_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else ([() for _ in schema])
    return [build_array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]


def build_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of ``kind`` from values in Arrow's storage form."""
    if pt.is_struct(kind):
        fields = list(kind)
        children = [
            build_array([None if value is None else value[number] for value in values], field.type)
            for number, field in enumerate(fields)
        ]
        if not fields:
            return pa.array([None if value is None else {} for value in values], kind)
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pt.is_list(kind):
        items = build_array([item for value in values for item in value or ()], kind.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=kind)
    if pt.is_map(kind):
        pairs = [pair for value in values for pair in value or ()]
        keys = build_array([key for key, _ in pairs], kind.key_type)
        items = build_array([item for _, item in pairs], kind.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind)
    stored = pa.int64() if pt.is_timestamp(kind) else _STORED_AS.get(kind, kind)
    array = pa.array(values, stored)
    unchecked = pc.CastOptions(target_type=kind, allow_invalid_utf8=True)
    return array if stored == kind else pc.cast(array, options=unchecked)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """The start of each list (null for a null list), then the end of the last list."""
    ends = list(accumulate((len(value or ()) for value in values), initial=0))
    starts = [None if value is None else start for value, start in zip(values, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32())
