"""What rows of changes have in common: operations, the columns of formats, and changes of keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import SchemaError
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s

OP, BEFORE = "_op", "_before"
OTHER_FORMAT = (
    "if you gave no schema, it was recorded by an earlier run with another changeFormat: set that one again, "
    "or start a query with a new checkpoint and stateLocation"
)


class Op:
    """The operations of changes, each as the number of its letter."""

    CREATE, UPDATE, DELETE, TRUNCATE, READ = map(ord, "cudtr")


Columns = Mapping[str, Callable[[], pa.Array]]
"""The functions that make the columns of a format, by name; a schema may have only some of the columns."""

ChangesT = TypeVar("ChangesT", bound=Any)

_OPS = {ord(op): op for op in "cudtr"}


def check_columns(schema: pa.Schema, known: pa.Schema, *, change_format: str) -> None:
    """Check that a schema has only columns of the format."""
    others = [name for name in schema.names if name not in known.names]
    if others:
        raise SchemaError(
            f"the schema has the column {others[0]}, which changeFormat={change_format} does not have",
            remedy=f"remove the schema, or use only the columns {', '.join(known.names)}; {OTHER_FORMAT}",
        )


def batch_of(schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    """A batch of those columns that the schema has, with the schema's types."""
    arrays = [columns[field.name]().cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def typed_batch(
    schema: pa.Schema,
    columns: Columns,
    *,
    op: Bytes,
    after: Mapping[str, pa.Array],
    before: Mapping[str, pa.Array],
    has_before: Bools,
    convert: Callable[[pa.Field, pa.Array], pa.Array],
) -> pa.RecordBatch:
    """A batch of those columns of a table and of its changes that the schema has.

    A column of the table has the value after a change, and of a deleted row the value before it.

    Args:
        columns: the columns of the change, except for the old row.
        after, before: the columns of the table, as the log has their values.
        has_before: which changes have an old row.
        convert: gives the values of a column the type of a field.
    """
    deletes = op == Op.DELETE
    is_delete = pa.array(deletes) if deletes.any() else None

    def converted(field: pa.Field, values: Mapping[str, pa.Array]) -> pa.Array:
        found = values.get(field.name)
        return pa.nulls(len(op), field.type) if found is None else convert(field, found)

    def old_rows(kind: pa.StructType) -> pa.Array:
        if not has_before.any():
            return pa.nulls(len(op), kind)
        arrays = [converted(field, before) for field in kind.fields]
        return pa.StructArray.from_arrays(arrays, fields=kind.fields, mask=pa.array(~has_before))

    def value(field: pa.Field) -> pa.Array:
        if is_delete is None or field.name not in after:
            return converted(field, after)
        return convert(field, pc.if_else(is_delete, before[field.name], after[field.name]))

    made = {BEFORE: lambda: old_rows(schema.field(BEFORE).type), **columns}
    arrays = [made[field.name]().cast(field.type) if field.name in made else value(field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def op_texts(op: Bytes) -> pa.Array:
    """The letter of each change's operation."""
    codes = np.zeros(256, dtype=np.int8)
    for place, number in enumerate(_OPS):
        codes[number] = place
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[op]), pa.array(list(_OPS.values()))
    ).dictionary_decode()


def split_moves(changes: ChangesT, moved: Bools) -> tuple[ChangesT, Bools, Bools]:
    """Updates that give a row another key, each as a delete of the old row and an insert of the new one.

    Args:
        moved: true for these updates.

    Returns:
        The changes, and which of them are such deletes and inserts.
    """
    rows = np.repeat(np.arange(len(moved)), np.where(moved, 2, 1))
    is_moved, is_first = moved[rows], np.append(True, rows[1:] != rows[:-1])
    deletes, inserts = is_moved & is_first, is_moved & ~is_first
    split = taken(changes, rows)
    split.op[deletes], split.op[inserts] = Op.DELETE, Op.CREATE
    return split, deletes, inserts


def taken(changes: ChangesT, rows: Int64s) -> ChangesT:
    """Changes, a dataclass, with these rows alone: of its arrays, and of those in its lists and mappings."""
    places = pa.array(rows)

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(one) for one in value]
        if isinstance(value, dict):
            return {name: of(one) for name, one in value.items()}
        if isinstance(value, np.ndarray):
            return value[rows]
        return value.take(places) if isinstance(value, pa.Array) else value

    return replace(changes, **{one.name: of(getattr(changes, one.name)) for one in fields(changes)})


def differ(before: pa.Array, after: pa.Array) -> Bools:
    """True where two values differ; a null differs from every value."""
    is_null = pc.xor(before.is_null(), after.is_null())
    found: Bools = pc.coalesce(pc.not_equal(before, after), is_null).to_numpy(zero_copy_only=False)
    return found


def without(values: pa.Array, rows: Bools) -> pa.Array:
    """The values, with nulls in these rows."""
    return pc.if_else(pa.array(rows), pa.scalar(None, values.type), values)


def placed(values: pa.Array, mask: Bools) -> pa.Array:
    """An array with the values, in order, where the mask is true; null elsewhere."""
    return values if mask.all() else values.take(pa.array(np.cumsum(mask) - 1, mask=~mask))
