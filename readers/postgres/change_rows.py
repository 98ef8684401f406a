"""The interface that makes rows of chunks and changes, and the choice of its implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.enumerators.postgres.options import CHANGE_FORMAT
from flip27_source.enumerators.postgres.split import TableName
from flip27_source.options import Options

if TYPE_CHECKING:
    from flip27_source.readers.postgres.delivered_changes import DeliveredChanges


class ChangeRows(Protocol):
    """Makes the batches of one schema."""

    @property
    def wanted(self) -> Sequence[str] | None:
        """The names of the columns that are read from a table; None for all of them."""

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
            texts: the values of the wanted columns that the table has, in the order of the table.
            key: the names of the key's columns.
            lsn: the position of the log that the rows precede.
        """

    def changes(
        self, changes: DeliveredChanges, types: Mapping[str, PgType], *, key: Sequence[str]
    ) -> pa.RecordBatch:
        """A batch of changes from the log, in its order.

        Args:
            key: the names of the key's columns; empty if the table has no key.
        """


def change_rows(schema: pa.Schema, options: Options) -> ChangeRows:
    """The implementation for the format that the options select; the others are not imported."""
    if options[CHANGE_FORMAT] == "envelope":
        from flip27_source.readers.postgres.json_rows import EnvelopeRows

        return EnvelopeRows(schema)
    if options[CHANGE_FORMAT] == "debezium":
        from flip27_source.readers.postgres.debezium_rows import DebeziumRows

        return DebeziumRows.of(schema, options)
    from flip27_source.readers.postgres.typed_rows import TypedRows

    return TypedRows(schema)
