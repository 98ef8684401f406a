"""Makes the rows of ``changeFormat=typed``, with a column for each column of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.readers.postgres.change_rows import change_columns
from flip27_source.readers.postgres.delivered_changes import DELETE, DeliveredChanges
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
        numbers = {column.name: i for i, column in enumerate(changes.relation.columns)}
        deletes = changes.op == DELETE
        is_delete = pa.array(deletes) if deletes.any() else None

        def converted(field: pa.Field, texts: pa.Array) -> pa.Array:
            converter = self._converter(column=field.name, type=types[field.name], target=field.type)
            return converter.convert(texts, where=str(changes.relation))

        def value(field: pa.Field) -> pa.Array:
            number = numbers.get(field.name)
            if number is None:
                return pa.nulls(len(changes), field.type)
            texts = changes.after[number]
            if is_delete is not None:
                texts = pc.if_else(is_delete, changes.before[number], texts)
            return converted(field, texts)

        def before() -> pa.Array:
            kind = self._schema.field(names.BEFORE).type
            if not changes.has_before.any():
                return pa.nulls(len(changes), kind)
            fields = [kind.field(i) for i in range(kind.num_fields)]
            arrays = [
                converted(field, changes.before[numbers[field.name]])
                if field.name in numbers
                else pa.nulls(len(changes), field.type)
                for field in fields
            ]
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~changes.has_before))

        columns = {names.BEFORE: before, **change_columns(changes, prefix="_")}
        arrays = [
            columns[field.name]().cast(field.type) if field.name in columns else value(field)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
