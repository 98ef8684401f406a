"""Malformed records of texts, and the batches with a column for them; nulls that NOT NULL forbids.

A batch may also have a column of rescued data. What must not live here: formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.errors import SchemaError, SplitReadError, quotation
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN
from flip27_source.readers.schemas.evolution import SchemaEvolution


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The columns of a reader of records.

    Attributes:
        evolution: the columns that are read from the records, which are all others than the next two.
        corrupt_at: the index of the column for malformed records; None if there is none.
        has_not_null: some field is NOT NULL.
    """

    schema: pa.Schema
    evolution: SchemaEvolution
    corrupt_at: int | None
    has_not_null: bool

    @classmethod
    def of(cls, context: SourceReaderContext, constant_names: tuple[str, ...]) -> Self:
        """The columns of a reader.

        Args:
            constant_names: known columns that are not in ``context.schema``.
        """
        name = context.options[CORRUPT_RECORD_COLUMN]
        corrupt_at = _index_of_corrupt(context.schema, name)
        corrupt = () if corrupt_at is None else (name,)
        evolution = SchemaEvolution.of(context.schema, context.options, (*constant_names, *corrupt))
        return cls(
            schema=context.schema,
            evolution=evolution.without(corrupt),
            corrupt_at=corrupt_at,
            has_not_null=has_inner_not_null(pa.struct(list(context.schema))),
        )

    def batch(
        self, columns: list[pa.Array], rows: int, *, corrupt: pa.Array | None, rescued: pa.Array | None
    ) -> pa.RecordBatch:
        """The batch of the columns that were read, with the malformed records and the rescued data."""
        added: Mapping[int | None, pa.Array | None] = {
            self.corrupt_at: corrupt,
            self.evolution.rescued_at: rescued,
        }
        arrays = list(columns)
        for at in sorted(at for at in added if at is not None):
            texts = added[at]
            arrays.insert(at, pa.nulls(rows, pa.string()) if texts is None else texts)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def refuse_nulls(
        self, batch: pa.RecordBatch, record_at: Callable[[int], tuple[object, str | bytes]]
    ) -> None:
        """Refuse nulls in NOT NULL columns; Spark trusts the schema and would read undefined values there.

        Args:
            record_at: the place and the text of the record of a row, for the error.
        """
        if not self.has_not_null:
            return
        numbers = np.arange(batch.num_rows)
        for field, column in zip(batch.schema, batch.columns, strict=True):
            nulls = [rows.min() for _, rows in forbidden_nulls(column, field, numbers, field.name)]
            if nulls:
                place, record = record_at(int(min(nulls)))
                raise SplitReadError(
                    f"{place}: the column {field.name} is NOT NULL, but the record has no value for it: "
                    f"{quotation(record)}",
                    remedy="declare the column without NOT NULL; Spark's own source ignores NOT NULL",
                )


def _index_of_corrupt(schema: pa.Schema, name: str) -> int | None:
    """The index of the column for malformed records; None if the schema has none."""
    index = int(schema.get_field_index(name))
    if index < 0:
        return None
    field = schema.field(index)
    if not pt.is_string(field.type) or not field.nullable:
        raise SchemaError(
            f"the column {name} for malformed records has the type "
            f"{field.type}{'' if field.nullable else ' NOT NULL'}; it must be a nullable string",
            remedy=f"declare {name} as a nullable string, or set columnNameOfCorruptRecord to another column",
        )
    return index


def has_inner_not_null(kind: pa.DataType) -> bool:
    """True if a field within the type is NOT NULL, except keys of maps, which are always NOT NULL."""
    return any(not field.nullable or has_inner_not_null(field.type) for field in _inner_fields(kind))


def forbidden_nulls(
    values: pa.Array, field: pa.Field, rows: np.ndarray, name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names of the field, and of fields in it, that have forbidden nulls, and the rows of these.

    Args:
        rows: the row of each value; -1 for a value within a null.
        name: the name of the field; empty for a value without a name, whose fields have names.
    """
    if not field.nullable and values.null_count:
        nulls = rows[np.asarray(values.is_null())]
        if (nulls >= 0).any():
            yield name, nulls[nulls >= 0]
    if not has_inner_not_null(field.type):
        return
    if pt.is_struct(field.type):
        given = np.where(values.is_valid(), rows, -1)
        for number, inner in enumerate(field.type):
            path = f"{name}.{inner.name}" if name else inner.name
            yield from forbidden_nulls(values.field(number), inner, given, path)
        return
    # Arrow has no parent indices of maps. After the take there are no nulls, and the offsets begin at 0.
    present = pc.indices_nonzero(values.is_valid())
    lists = values.take(present)
    parents = np.repeat(rows[np.asarray(present)], np.diff(np.asarray(lists.offsets)))
    [inner] = _inner_fields(field.type)
    is_map = pt.is_map(field.type)
    yield from forbidden_nulls(
        lists.items if is_map else lists.values, inner, parents, f"{name}.value" if is_map else name
    )


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """The fields, elements or values within a type; keys of maps are left out."""
    if pt.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)]
