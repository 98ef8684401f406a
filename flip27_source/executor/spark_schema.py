"""Converts Arrow batches to the exact schema that Spark expects; costs nothing if they already have it."""

from __future__ import annotations

import pyarrow as pa

from ..errors import SchemaError


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` with the columns, order, types and nullability of ``schema``.

    Raises:
        SchemaError: a column is missing, cannot be cast, or is NOT NULL and has nulls.
    """
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        raise SchemaError(
            f"the reader's batch has no column {field.name!r}; it has {batch.schema.names}",
            remedy="yield batches with every column of context.schema",
        )
    column = batch.column(index)
    if not field.nullable and column.null_count:
        raise SchemaError(
            f"column {field.name!r} is NOT NULL in the schema and has {column.null_count} nulls",
            remedy="remove NOT NULL from the schema, or correct the data",
        )
    if column.type.equals(field.type):
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} has type {column.type} and cannot be cast to {field.type}: {error}",
            remedy="change the schema given to .schema(...), or the reader",
        ) from error
