"""Rows of changes: the interface of the formats, the choice of one, and the columns that they share.

Each format is a module of its own, and only the one that is chosen is imported: ``typed_rows``,
``envelope_rows`` or ``debezium_rows``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.options import CHANGE_FORMAT
from flip27_source.enumerators.tables_with_log.schema import COMMITTED_AT, SEQ
from flip27_source.options import Options
from flip27_source.readers.changes.rows import Columns, op_texts
from flip27_source.readers.scalars.text_bytes import Int64s

if TYPE_CHECKING:
    from flip27_source.readers.postgres.delivered_changes import DeliveredChanges


class ChangeRows(Protocol):
    """Makes the batches of one schema."""

    @property
    def columns_read(self) -> Sequence[str] | None:
        """The names of the columns that are read from a table; None for all of them."""

    def batch(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        """A batch of changes from the log, in its order, or of rows of a chunk.

        Args:
            key: the names of the key's columns; empty if the table has no key.
        """


def change_rows(schema: pa.Schema, options: Options) -> ChangeRows:
    if options[CHANGE_FORMAT] == "envelope":
        from flip27_source.readers.postgres.envelope_rows import EnvelopeRows

        return EnvelopeRows(schema)
    if options[CHANGE_FORMAT] == "debezium":
        from flip27_source.readers.postgres.debezium_rows import DebeziumRows

        return DebeziumRows.of(schema, options)
    from flip27_source.readers.postgres.typed_rows import TypedRows

    return TypedRows(schema)


def change_columns(changes: DeliveredChanges, *, prefix: str = "") -> Columns:
    """The columns that all formats may have; rows of a chunk are in no transaction.

    Args:
        prefix: ``_`` for typed rows, whose other columns have the names of the table's columns.
    """

    def of_transaction(numbers: Int64s) -> pa.Array:
        return pa.nulls(len(changes), pa.int64()) if changes.is_chunk else pa.array(numbers)

    return {
        f"{prefix}op": lambda: op_texts(changes.op),
        f"{prefix}table": lambda: pa.repeat(pa.scalar(str(changes.relation)), len(changes)),
        f"{prefix}unchanged": lambda: _unchanged_names(changes),
        names.LSN: lambda: pa.array(changes.lsn),
        SEQ: lambda: pa.array(changes.seq),
        names.XID: lambda: of_transaction(changes.xid),
        COMMITTED_AT: lambda: of_transaction(changes.committed_at).cast(pa.timestamp("us", "UTC")),
    }


def _unchanged_names(changes: DeliveredChanges) -> pa.Array:
    """For each change, the names of the columns whose values it does not have; null if it has all values."""
    kind = pa.list_(pa.string())
    masks = {
        column.name: mask
        for column, mask in zip(changes.relation.columns, changes.unchanged, strict=True)
        if mask is not None and mask.any()
    }
    if not masks:
        return pa.nulls(len(changes), kind)
    unchanged: list[list[str] | None] = [None] * len(changes)
    for row in np.flatnonzero(np.logical_or.reduce(list(masks.values()))).tolist():
        unchanged[row] = [name for name, mask in masks.items() if mask[row]]
    return pa.array(unchanged, kind)
