"""Makes the rows of ``changeFormat=envelope``, with key, before and after as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.errors import SchemaError
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.json_objects import JsonObjects
from flip27_source.readers.postgres.json_values import envelope_encoder
from flip27_source.readers.postgres.typed_rows import constant, op_texts, unchanged_names

Columns = Mapping[str, Callable[[], pa.Array]]
"""The functions that make the columns of a format, by name; a schema may have only some of the columns."""


class EnvelopeRows:
    """Makes the batches of ``ENVELOPE_SCHEMA``, or of some of its columns."""

    wanted = None

    def __init__(self, schema: pa.Schema) -> None:
        check_columns(schema, names.ENVELOPE_SCHEMA, change_format="envelope")
        self._schema = schema
        self._objects = JsonObjects(envelope_encoder)

    def snapshot(
        self,
        table: TableName,
        types: Mapping[str, PgType],
        texts: Mapping[str, pa.Array],
        *,
        key: Sequence[str],
        rows: int,
        lsn: int,
    ) -> pa.RecordBatch:
        """A batch of rows that were read from the table."""
        columns: Columns = {
            "table": lambda: constant(str(table), rows, pa.string()),
            "op": lambda: constant("r", rows, pa.string()),
            "key": lambda: self._objects.snapshot_key(texts, types, key, rows=rows, table=str(table)),
            "before": lambda: pa.nulls(rows, pa.string()),
            "after": lambda: self._objects.rows(texts, types, rows=rows, table=str(table)),
            "unchanged": lambda: pa.nulls(rows, pa.list_(pa.string())),
            **snapshot_position(rows, lsn),
        }
        return batch_of(self._schema, columns)

    def changes(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        """A batch of changes from the log, in its order."""
        columns: Columns = {
            "table": lambda: constant(str(changes.relation), len(changes), pa.string()),
            "op": lambda: op_texts(changes.op),
            "key": lambda: self._objects.key(changes, types, key),
            "before": lambda: self._objects.before(changes, types, has_before=changes.has_before),
            "after": lambda: self._objects.after(changes, types),
            "unchanged": lambda: unchanged_names(changes),
            **change_position(changes),
        }
        return batch_of(self._schema, columns)


def check_columns(schema: pa.Schema, known: pa.Schema, *, change_format: str) -> None:
    """Check that a schema has only columns of the format.

    Raises:
        SchemaError: it has another column.
    """
    others = [name for name in schema.names if name not in known.names]
    if others:
        raise SchemaError(
            f"the schema has the column {others[0]}, which changeFormat={change_format} does not have",
            remedy=f"remove the schema, or use only the columns {', '.join(known.names)}",
        )


def snapshot_position(rows: int, lsn: int) -> Columns:
    """The columns with the position of a chunk's rows in the log."""
    return {
        names.LSN: lambda: constant(lsn, rows, pa.int64()),
        names.SEQ: lambda: constant(0, rows, pa.int64()),
        names.XID: lambda: pa.nulls(rows, pa.int64()),
        names.COMMITTED_AT: lambda: pa.nulls(rows, pa.timestamp("us", "UTC")),
    }


def change_position(changes: DeliveredChanges) -> Columns:
    """The columns with the positions of changes in the log."""
    return {
        names.LSN: lambda: pa.array(changes.lsn),
        names.SEQ: lambda: pa.array(changes.seq),
        names.XID: lambda: pa.array(changes.xid),
        names.COMMITTED_AT: lambda: pa.array(changes.committed_at).cast(pa.timestamp("us", "UTC")),
    }


def batch_of(schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    """A batch of those columns that the schema has, with the schema's types."""
    made: Iterable[pa.Array] = (columns[field.name]().cast(field.type) for field in schema)
    return pa.RecordBatch.from_arrays(list(made), schema=schema)
