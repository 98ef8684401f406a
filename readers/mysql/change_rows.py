"""Makes rows of changes: with a column for each column of the table (typed), or with JSON (envelope)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql import schema as names
from flip27_source.enumerators.mysql.errors import START_AGAIN
from flip27_source.enumerators.mysql.options import CHANGE_FORMAT
from flip27_source.enumerators.tables_with_log.schema import COMMITTED_AT, SEQ
from flip27_source.errors import SplitReadError
from flip27_source.options import Options
from flip27_source.readers.changes.exact_casts import exactly, plain_texts
from flip27_source.readers.changes.json_objects import JsonTexts, Member, joined, json_strings, objects
from flip27_source.readers.changes.rows import (
    Columns,
    Op,
    batch_of,
    check_columns,
    op_texts,
    placed,
    typed_batch,
)
from flip27_source.readers.mysql.changes import Changes
from flip27_source.readers.scalars.text_bytes import Bools

_UTC = pa.timestamp("us", "UTC")


class TypedRows:
    """Makes the batches of one schema, which was inferred from the tables or given by the user."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._own_names = {name.lower(): name for name in self.columns_read or ()}

    @property
    def columns_read(self) -> list[str] | None:
        """The names of the columns that are read from a table; None for all of them."""
        return [name for name in self._schema.names if name not in names.CHANGE_COLUMNS]

    def own_name(self, column: str) -> str:
        """The schema's name of a table's column: MariaDB takes v and V for one column."""
        return self._own_names.setdefault(column.lower(), column)

    def batch(self, changes: Changes) -> pa.RecordBatch:
        return typed_batch(
            self._schema,
            _columns(changes, prefix="_"),
            op=changes.op,
            after=changes.after,
            before=changes.before,
            has_before=changes.has_before,
            convert=lambda field, values: _cast(values, field, changes),
        )


class EnvelopeRows(TypedRows):
    """Makes the batches of ``ENVELOPE_SCHEMA``, or of some of its columns."""

    columns_read = None

    def __init__(self, schema: pa.Schema) -> None:
        check_columns(schema, names.ENVELOPE_SCHEMA, change_format="envelope")
        super().__init__(schema)

    def own_name(self, column: str) -> str:
        return column

    def batch(self, changes: Changes) -> pa.RecordBatch:
        has_row = changes.op != Op.TRUNCATE
        columns = {
            "key": lambda: _objects(changes.key_columns(changes.key), has_row & bool(changes.key)),
            "before": lambda: _objects(changes.before, changes.has_before),
            "after": lambda: _objects(changes.after, has_row & (changes.op != Op.DELETE)),
            **_columns(changes),
        }
        return batch_of(self._schema, columns)


def change_rows(schema: pa.Schema, options: Options) -> TypedRows:
    if options[CHANGE_FORMAT] == "envelope":
        return EnvelopeRows(schema)
    return TypedRows(schema)


def _cast(values: pa.Array, field: pa.Field, changes: Changes) -> pa.Array:
    try:
        return exactly(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SplitReadError(
            f"column {field.name} of table {changes.table} has a value that is not a {field.type}: {error}",
            remedy="give the column a type in the schema that has all of its values, such as string; if the "
            f"table was altered and you gave no schema, {START_AGAIN}",
        ) from None


def _columns(changes: Changes, *, prefix: str = "") -> Columns:
    """The columns that both formats have; rows of a chunk are in no transaction."""

    def of_transaction(values: Sequence[Any], type: pa.DataType) -> pa.Array:
        found = pa.array(values, type)
        return found.take(pa.array(changes.numbers)) if values else pa.nulls(len(changes), type)

    transactions = changes.transactions
    return {
        f"{prefix}op": lambda: op_texts(changes.op),
        f"{prefix}table": lambda: pa.repeat(pa.scalar(str(changes.table)), len(changes)),
        names.POS: lambda: pa.array(changes.pos),
        SEQ: lambda: pa.array(changes.seq),
        names.GTID: lambda: of_transaction([one.gtid for one in transactions], pa.string()),
        COMMITTED_AT: lambda: of_transaction([one.at_s * 1_000_000 for one in transactions], _UTC),
    }


def _objects(columns: Mapping[str, pa.Array], has: Bools) -> pa.Array:
    """JSON objects where there is a row, and nulls elsewhere."""
    if not has.any():
        return pa.nulls(len(has), pa.string())
    mask = pa.array(has)
    members = [Member(name=name, values=_json(values.filter(mask))) for name, values in columns.items()]
    return placed(objects(members, int(has.sum())), has)


def _json(values: pa.Array) -> JsonTexts:
    """The JSON values of a column. Decimal numbers are strings: many readers would round them."""
    type = values.type
    if pa.types.is_integer(type):
        return JsonTexts(values.cast(pa.string()))
    if pa.types.is_floating(type):
        return JsonTexts(values.cast(pa.float64()).cast(pa.string()))
    if pa.types.is_binary(type):
        texts = [None if one is None else b64encode(one).decode() for one in values.to_pylist()]
        return JsonTexts(pa.array(texts, pa.string()), is_string=True)
    if pa.types.is_timestamp(type):
        texts = pc.replace_substring(values.cast(pa.timestamp("us")).cast(pa.string()), ".000000", "")
        if type.tz is not None:
            texts = joined(pc.replace_substring(texts, " ", "T"), "+00:00")
        return JsonTexts(texts, is_string=True)
    return json_strings(plain_texts(values))
