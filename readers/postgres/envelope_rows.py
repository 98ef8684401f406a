"""Makes the rows of ``changeFormat=envelope``, with key, before and after as JSON objects.

``debezium_rows`` makes its objects here too, with its own encoders of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.errors import SplitReadError, quotation
from flip27_source.readers.changes.json_objects import JsonTexts, Member, objects
from flip27_source.readers.changes.rows import Op, batch_of, check_columns, placed
from flip27_source.readers.postgres.change_rows import change_columns
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.json_values import Encode, envelope_encoder
from flip27_source.readers.postgres.parsers import UnfitError
from flip27_source.readers.postgres.values import ValueConverter
from flip27_source.readers.scalars.text_bytes import Bools

_SHOWN_CHARS = 60


class JsonObjects:
    """Makes objects of the columns of tables.

    Args:
        encoder: returns the encoder for the values of a type.
        placeholder: returns the JSON value for unchanged TOAST values of a type; None if objects have only
            the columns whose values are known.
    """

    def __init__(
        self, encoder: Callable[[PgType], Encode], placeholder: Callable[[PgType], str] | None = None
    ) -> None:
        self._encoder = cache(encoder)
        self._placeholder = placeholder

    def after(self, changes: DeliveredChanges, types: Mapping[str, PgType]) -> pa.Array:
        """The row after each change, and each row of a chunk; null for a delete and a TRUNCATE."""
        has_after = (changes.op != Op.DELETE) & (changes.op != Op.TRUNCATE)
        if not has_after.any():
            return pa.nulls(len(changes), pa.string())
        some = changes if has_after.all() else changes.take(np.flatnonzero(has_after))
        members = [
            self._member(column.name, types[column.name], texts, str(changes.relation), mask)
            for column, texts, mask in zip(changes.relation.columns, some.after, some.unchanged, strict=True)
        ]
        return placed(objects(members, len(some)), has_after)

    def before(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, has_before: Bools
    ) -> pa.Array:
        """The row before each change, with those values that the log has.

        Args:
            has_before: true for the changes whose row is wanted; others get null.
        """
        if not has_before.any():
            return pa.nulls(len(changes), pa.string())
        some = changes if has_before.all() else changes.take(np.flatnonzero(has_before))
        columns = changes.relation.columns
        has_all = self._placeholder is not None
        # Partitions may have a key that their table does not have: then the log's old rows tell the columns.
        is_of_partition = not has_all and not any(column.is_key for column in columns)
        members = [
            self._member(
                column.name,
                types[column.name],
                texts,
                str(changes.relation),
                np.asarray(texts.is_null()) if is_of_partition else None,
            )
            for column, texts in zip(columns, some.before, strict=True)
            if column.is_key or has_all or is_of_partition
        ]
        return placed(objects(members, len(some)), has_before)

    def key(self, changes: DeliveredChanges, types: Mapping[str, PgType], key: Sequence[str]) -> pa.Array:
        """The key of each changed row; null for a TRUNCATE, and for tables without a key."""
        has_key = changes.op != Op.TRUNCATE
        if not key or not has_key.any():
            return pa.nulls(len(changes), pa.string())
        some = changes if has_key.all() else changes.take(np.flatnonzero(has_key))
        members = [
            self._key_member(some, number, types[column.name])
            for number, column in enumerate(changes.relation.columns)
            if column.name in key
        ]
        return placed(objects(members, len(some)), has_key)

    def _key_member(self, changes: DeliveredChanges, number: int, kind: PgType) -> Member:
        after, before, unchanged = changes.after[number], changes.before[number], changes.unchanged[number]
        is_old = changes.op == Op.DELETE
        if unchanged is not None:
            # If a part of the key is a TOAST value, the log has the old key.
            is_old = is_old | (unchanged & changes.has_before)
            unchanged = unchanged & ~changes.has_before
        texts = pc.if_else(pa.array(is_old), before, after) if is_old.any() else after
        name = changes.relation.columns[number].name
        return self._member(name, kind, texts, str(changes.relation), unchanged)

    def _member(
        self, name: str, kind: PgType, texts: pa.Array, table: str, unchanged: Bools | None = None
    ) -> Member:
        texts = ValueConverter(column=name, type=kind, target=pa.string()).convert(texts, where=table)
        try:
            values = self._encoder(kind)(texts)
        except UnfitError as unfit:
            raise _refused(unfit, name, kind, table) from None
        if unchanged is None or not unchanged.any():
            return Member(name=name, values=values)
        if self._placeholder is None:
            return Member(name=name, values=values, omitted=unchanged)
        filled = pc.if_else(pa.array(unchanged), self._placeholder(kind), values.complete())
        return Member(name=name, values=JsonTexts(filled))


def _refused(unfit: UnfitError, column: str, kind: PgType, table: str) -> SplitReadError:
    return SplitReadError(
        f"{table}: the column {column} of the type {kind} has the value "
        f"{quotation(unfit.text, _SHOWN_CHARS)}, which cannot become JSON: {unfit.reason}",
        remedy=unfit.remedy or "set changeFormat=typed, with the type string for this column in the schema",
    )


class EnvelopeRows:
    """Makes the batches of ``ENVELOPE_SCHEMA``, or of some of its columns."""

    columns_read = None

    def __init__(self, schema: pa.Schema) -> None:
        check_columns(schema, names.ENVELOPE_SCHEMA, change_format="envelope")
        self._schema = schema
        self._objects = JsonObjects(envelope_encoder)

    def batch(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        columns = {
            "key": lambda: self._objects.key(changes, types, key),
            "before": lambda: self._objects.before(changes, types, has_before=changes.has_before),
            "after": lambda: self._objects.after(changes, types),
            **change_columns(changes),
        }
        return batch_of(self._schema, columns)
