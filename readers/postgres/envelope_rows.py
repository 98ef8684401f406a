"""Makes the rows of ``changeFormat=envelope``, with key, before and after as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from flip27_source.enumerators.postgres import schema as names
from flip27_source.enumerators.postgres.column_types import PgType
from flip27_source.readers.postgres.change_rows import (
    Columns,
    batch_of,
    check_columns,
    op_texts,
    positions,
    table_names,
    unchanged_names,
)
from flip27_source.readers.postgres.delivered_changes import DeliveredChanges
from flip27_source.readers.postgres.json_objects import JsonObjects
from flip27_source.readers.postgres.json_values import envelope_encoder


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
        columns: Columns = {
            "table": lambda: table_names(changes),
            "op": lambda: op_texts(changes.op),
            "key": lambda: self._objects.key(changes, types, key),
            "before": lambda: self._objects.before(changes, types, has_before=changes.has_before),
            "after": lambda: self._objects.after(changes, types),
            "unchanged": lambda: unchanged_names(changes),
            **positions(changes),
        }
        return batch_of(self._schema, columns)
