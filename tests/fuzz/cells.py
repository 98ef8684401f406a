"""Columns as values that compare exactly, also for NaN, minus zero, text that is not UTF-8, and any year."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
from pyarrow import types


def cells(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, in a form that compares exactly."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if types.is_nested(kind):
        return _nested(pa.concat_arrays([column[:0], column]))
    if types.is_string(kind):
        return column.view(pa.binary()).to_pylist()
    if types.is_timestamp(kind):
        return column.view(pa.int64()).to_pylist()
    if types.is_date32(kind):
        return column.view(pa.int32()).to_pylist()
    if types.is_floating(kind):
        return [None if value is None else _float(value) for value in column.to_pylist()]
    return column.to_pylist()


def _nested(column: pa.Array) -> list[Any]:
    kind, valid = column.type, column.is_valid().to_pylist()
    if types.is_struct(kind):
        children = [cells(column.field(number)) for number in range(kind.num_fields)]
        rows: list[Any] = list(zip(*children, strict=True)) if children else [()] * len(column)
        return [row if there else None for row, there in zip(rows, valid, strict=True)]
    if types.is_map(kind):
        items: list[Any] = list(zip(cells(column.keys), cells(column.items), strict=True))
    else:
        items = cells(column.values)
    ends = column.offsets.to_pylist()
    return [items[ends[row] : ends[row + 1]] if valid[row] else None for row in range(len(column))]


def _float(value: float) -> str:
    # The bits distinguish 0.0 from -0.0; those of NaN have no meaning.
    return "NaN" if value != value else f"{value!r} ({struct.pack('>d', value).hex()})"  # noqa: PLR0124
