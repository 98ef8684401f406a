"""Makes the rows of ``changeFormat=typed``, with a column for each column of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.readers.changes.rows import typed_batch
from flip27_source.readers.postgres.change_rows import change_columns
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.values import ValueConverter


class TypedRows:
    """Makes the batches of one schema, which was inferred from the tables or given by the user."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._converter = cache(ValueConverter)

    @property
    def columns_read(self) -> list[str]:
        """The names of the table's columns that the schema has."""
        return [name for name in self._schema.names if name not in names.CHANGE_COLUMNS]

    def batch(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        def converted(field: pa.Field, texts: pa.Array) -> pa.Array:
            converter = self._converter(column=field.name, type=types[field.name], target=field.type)
            return converter.convert(texts, where=str(changes.relation))

        columns = [column.name for column in changes.relation.columns]
        return typed_batch(
            self._schema,
            change_columns(changes, prefix="_"),
            op=changes.op,
            after=dict(zip(columns, changes.after, strict=True)),
            before=dict(zip(columns, changes.before, strict=True)),
            has_before=changes.has_before,
            convert=converted,
        )
