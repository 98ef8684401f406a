"""Makes rows of changes: with a column for each column of the table (typed), or with JSON (envelope)."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql import schema as names
from flip27_source.enumerators.mysql.options import CHANGE_FORMAT
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.options import Options
from flip27_source.readers.mysql.changes import TRUNCATE, Changes
from flip27_source.readers.mysql.log import DELETE, UPDATE
from flip27_source.readers.scalars.text_bytes import Bools


class ChangeRows(Protocol):
    """Makes the batches of one schema."""

    @property
    def columns_read(self) -> Sequence[str] | None:
        """The names of the columns that are read from a table; None for all of them."""

    def batch(self, changes: Changes) -> pa.RecordBatch:
        """A batch of changes, or of rows of a chunk."""


def change_rows(schema: pa.Schema, options: Options) -> ChangeRows:
    return EnvelopeRows(schema) if options[CHANGE_FORMAT] == "envelope" else TypedRows(schema)


class TypedRows:
    """Makes the batches of one schema, which was inferred from the tables or given by the user."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @property
    def columns_read(self) -> list[str]:
        return [name for name in self._schema.names if name not in names.CHANGE_COLUMNS]

    def batch(self, changes: Changes) -> pa.RecordBatch:
        is_delete = pa.array(changes.is_op(DELETE))

        def value(field: pa.Field) -> pa.Array:
            if field.name not in changes.after:
                return pa.nulls(len(changes), field.type)
            found = pc.if_else(is_delete, changes.before[field.name], changes.after[field.name])
            return _cast(found, field, changes)

        def before() -> pa.Array:
            kind = self._schema.field(names.BEFORE).type
            fields = [kind.field(number) for number in range(kind.num_fields)]
            arrays = [
                _cast(changes.before[field.name], field, changes)
                if field.name in changes.before
                else pa.nulls(len(changes), field.type)
                for field in fields
            ]
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~_has_before(changes)))

        columns = {names.BEFORE: before, **_columns(changes, prefix="_")}
        arrays = [
            columns[field.name]().cast(field.type) if field.name in columns else value(field)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class EnvelopeRows:
    """Makes the batches of ``ENVELOPE_SCHEMA``, or of some of its columns."""

    columns_read = None

    def __init__(self, schema: pa.Schema) -> None:
        others = [name for name in schema.names if name not in names.ENVELOPE_SCHEMA.names]
        if others:
            raise SchemaError(
                f"the schema has the column {others[0]}, which changeFormat=envelope does not have",
                remedy=f"use only the columns {', '.join(names.ENVELOPE_SCHEMA.names)}",
            )
        self._schema = schema

    def batch(self, changes: Changes) -> pa.RecordBatch:
        has_before, is_delete = _has_before(changes), changes.is_op(DELETE)
        has_after = ~is_delete & ~changes.is_op(TRUNCATE)
        identity = {
            name: pc.if_else(pa.array(is_delete), changes.before[name], changes.after[name])
            for name in changes.key
        }
        columns = {
            "key": lambda: _objects(identity, (has_after | is_delete) & bool(identity)),
            "before": lambda: _objects(changes.before, has_before),
            "after": lambda: _objects(changes.after, has_after),
            **_columns(changes),
        }
        arrays = [columns[field.name]().cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _has_before(changes: Changes) -> Bools:
    return changes.is_op(UPDATE) | changes.is_op(DELETE)


def _cast(values: pa.Array, field: pa.Field, changes: Changes) -> pa.Array:
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid as error:
        raise SplitReadError(
            f"column {field.name} of table {changes.table} has a value that is not a {field.type}: {error}",
            remedy="give the column a type in the schema that has all of its values, such as string",
        ) from None
    except pa.ArrowNotImplementedError:
        raise SplitReadError(
            f"column {field.name} of table {changes.table} has the type {values.type}, which cannot become "
            f"{field.type}",
            remedy="give the column the type of the table in the schema",
        ) from None


def _columns(changes: Changes, *, prefix: str = "") -> Mapping[str, Callable[[], pa.Array]]:
    """The columns that both formats have; rows of a chunk are in no transaction."""

    def of_transaction(values: Sequence[Any], type: pa.DataType) -> pa.Array:
        if not values:
            return pa.nulls(len(changes), type)
        return pa.array(values, type).take(pa.array(changes.transactions))

    known = changes.known
    times = pa.timestamp("us", "UTC")
    return {
        f"{prefix}op": lambda: changes.op,
        f"{prefix}table": lambda: pa.repeat(pa.scalar(str(changes.table)), len(changes)),
        names.POS: lambda: pa.array(changes.pos),
        names.SEQ: lambda: pa.array(changes.seq),
        names.GTID: lambda: of_transaction([one.gtid for one in known], pa.string()),
        names.COMMITTED_AT: lambda: of_transaction([one.at_s * 1_000_000 for one in known], times),
    }


def _objects(columns: Mapping[str, pa.Array], has: Bools) -> pa.Array:
    """JSON objects where there is a row, and nulls elsewhere."""
    lists = {name: values.to_pylist() for name, values in columns.items()}
    texts: list[str | None] = [None] * len(has)
    for row in np.flatnonzero(has).tolist():
        found = {name: values[row] for name, values in lists.items()}
        texts[row] = json.dumps(found, ensure_ascii=False, separators=(",", ":"), default=_json_value)
    return pa.array(texts, pa.string())


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ") if value.tzinfo is None else value.astimezone(dt.UTC).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot become JSON")
