"""Finds nulls in NOT NULL columns; Spark trusts the schema and would read undefined values there."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def has_not_null(fields: Iterable[pa.Field]) -> bool:
    """True if some field is NOT NULL on any level, except keys of maps, which are always NOT NULL."""
    return any(not field.nullable or has_not_null(_inner_fields(field.type)) for field in fields)


def first_forbidden_null(batch: pa.RecordBatch) -> tuple[str, int] | None:
    """The first column with a null that the schema forbids, and the first row with such a null."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        row = _first_null(column, field)
        if row is not None:
            return field.name, row
    return None


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pt.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)]


def _first_null(column: pa.Array, field: pa.Field) -> int | None:
    if not field.nullable and column.null_count:
        return _first(column.is_null())
    rows: list[int] = []
    if pt.is_struct(field.type):
        present = pc.indices_nonzero(column.is_valid())
        for inner, values in zip(_inner_fields(field.type), column.take(present).flatten(), strict=True):
            row = _first_null(values, inner)
            if row is not None:
                rows.append(present[row].as_py())
    elif pt.is_list(field.type) or pt.is_map(field.type):
        values = column.items if pt.is_map(field.type) else column.values
        position = _first_null(values, _inner_fields(field.type)[0])
        if position is not None:
            ends = column.offsets[1:]
            rows.append(_first(pc.greater(ends, position)))
    return min(rows, default=None)


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())
