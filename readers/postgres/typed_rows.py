"""Makes the rows of ``changeFormat=typed``, with a column for each column of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.readers.postgres.delivered_changes import DELETE, DeliveredChanges
from flip27_source.readers.postgres.values import ValueConverter

_OPS = {ord(op): op for op in "cudtr"}


class TypedRows:
    """Makes the batches of one schema, which was inferred from the tables or given by the user."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._converters: dict[tuple[str, PgType, pa.DataType], ValueConverter] = {}

    @property
    def wanted(self) -> list[str]:
        """The names of the table's columns that the schema has."""
        return [name for name in self._schema.names if name not in _CHANGE_COLUMNS]

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
        """A batch of rows that were read from the table.

        Args:
            texts: the values of the wanted columns that the table has.
            lsn: the position of the log that the rows precede.
        """
        constants: dict[str, Any] = {
            names.OP: "r", names.LSN: lsn, names.SEQ: 0, names.TABLE: str(table),
        }  # fmt: skip

        def column(field: pa.Field) -> pa.Array:
            if field.name in _CHANGE_COLUMNS:
                value = constants.get(field.name)
                return pa.nulls(rows, field.type) if value is None else constant(value, rows, field.type)
            found = texts.get(field.name)
            if found is None:
                return pa.nulls(rows, field.type)
            return self._converted(field.name, types[field.name], field.type, found, str(table))

        return self._batch(column)

    def changes(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        """A batch of changes from the log, in its order."""
        table = str(changes.relation)
        numbers = {column.name: i for i, column in enumerate(changes.relation.columns)}

        def column(field: pa.Field) -> pa.Array:
            if field.name in _CHANGE_COLUMNS:
                return self._change_column(field, changes, types, numbers)
            number = numbers.get(field.name)
            if number is None:
                return pa.nulls(len(changes), field.type)
            texts = changes.after[number]
            deletes = changes.op == DELETE
            if deletes.any():
                texts = pc.if_else(pa.array(deletes), changes.before[number], texts)
            return self._converted(field.name, types[field.name], field.type, texts, table)

        return self._batch(column)

    def _change_column(
        self,
        field: pa.Field,
        changes: DeliveredChanges,
        types: Mapping[str, PgType],
        numbers: Mapping[str, int],
    ) -> pa.Array:
        if field.name == names.OP:
            return op_texts(changes.op)
        if field.name == names.TABLE:
            return constant(str(changes.relation), len(changes), field.type)
        if field.name == names.UNCHANGED:
            return unchanged_names(changes)
        if field.name == names.BEFORE:
            return self._before(field.type, changes, types, numbers)
        numbers_of = {
            names.LSN: changes.lsn,
            names.SEQ: changes.seq,
            names.XID: changes.xid,
            names.COMMITTED_AT: changes.committed_at,
        }
        return pa.array(numbers_of[field.name]).cast(field.type)

    def _before(
        self,
        kind: pa.StructType,
        changes: DeliveredChanges,
        types: Mapping[str, PgType],
        numbers: Mapping[str, int],
    ) -> pa.Array:
        if not changes.has_before.any():
            return pa.nulls(len(changes), kind)
        fields = [kind.field(i) for i in range(kind.num_fields)]
        arrays = [
            self._converted(
                field.name,
                types[field.name],
                field.type,
                changes.before[numbers[field.name]],
                str(changes.relation),
            )
            if field.name in numbers
            else pa.nulls(len(changes), field.type)
            for field in fields
        ]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~changes.has_before))

    def _converted(
        self, name: str, kind: PgType, target: pa.DataType, texts: pa.Array, table: str
    ) -> pa.Array:
        key = (name, kind, target)
        converter = self._converters.get(key)
        if converter is None:
            converter = self._converters[key] = ValueConverter(column=name, type=kind, target=target)
        return converter.convert(texts, where=table)

    def _batch(self, column: Callable[[pa.Field], pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([column(field) for field in self._schema], schema=self._schema)


def unchanged_names(changes: DeliveredChanges) -> pa.Array:
    """For each change, the names of the columns whose values it does not have; null if it has all values."""
    kind = pa.list_(pa.string())
    masks = {
        column.name: mask
        for column, mask in zip(changes.relation.columns, changes.unchanged, strict=True)
        if mask is not None and mask.any()
    }
    if not masks:
        return pa.nulls(len(changes), kind)
    rows = np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist()
    found: list[list[str] | None] = [None] * len(changes)
    for row in rows:
        found[row] = [name for name, mask in masks.items() if mask[row]]
    return pa.array(found, kind)


def op_texts(op: np.ndarray[Any, np.dtype[np.uint8]]) -> pa.Array:
    """The letter of each change's operation."""
    codes = np.zeros(256, dtype=np.int8)
    for place, number in enumerate(_OPS):
        codes[number] = place
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[op]), pa.array(list(_OPS.values()))
    ).dictionary_decode()


def constant(value: Any, rows: int, kind: pa.DataType) -> pa.Array:
    """The same value in each row."""
    return pa.repeat(pa.scalar(value, kind), rows)


_CHANGE_COLUMNS = frozenset(
    (
        names.OP, names.BEFORE, names.UNCHANGED, names.LSN, names.SEQ, names.XID, names.COMMITTED_AT,
        names.TABLE,
    )
)  # fmt: skip
