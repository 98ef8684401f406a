"""Malformed records of text files, and the batches with a column for them.

A batch may also have a column of rescued data. What must not live here: formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.errors import SchemaError, SplitReadError, quotation
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.text_options import CORRUPT_RECORD_COLUMN
from flip27_source.readers.schemas.evolution import SchemaEvolution


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The columns of a reader of text files.

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
        corrupt_at = index_of_corrupt(context.schema, name)
        corrupt = () if corrupt_at is None else (name,)
        evolution = SchemaEvolution.of(context.schema, context.options, (*constant_names, *corrupt))
        return cls(
            schema=context.schema,
            evolution=evolution.without(corrupt),
            corrupt_at=corrupt_at,
            has_not_null=has_not_null(context.schema),
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
        null = first_forbidden_null(batch) if self.has_not_null else None
        if null is not None:
            name, row = null
            place, record = record_at(row)
            raise SplitReadError(
                f"{place}: the column {name} is NOT NULL, but the line has no value for it: "
                f"{quotation(record)}",
                remedy="declare the column without NOT NULL; Spark's own source ignores NOT NULL",
            )


def index_of_corrupt(schema: pa.Schema, name: str, *, records: str = "lines") -> int | None:
    """The index of the column for malformed records; None if the schema has none.

    Args:
        records: what the reader's records are, for the error.
    """
    index = int(schema.get_field_index(name))
    if index < 0:
        return None
    field = schema.field(index)
    if not pt.is_string(field.type) or not field.nullable:
        raise SchemaError(
            f"the column {name} for malformed {records} has the type "
            f"{field.type}{'' if field.nullable else ' NOT NULL'}; it must be a nullable string",
            remedy=f"declare {name} as a nullable string, or set columnNameOfCorruptRecord to another column",
        )
    return index


def has_not_null(fields: Iterable[pa.Field]) -> bool:
    """True if some field is NOT NULL on any level, except keys of maps, which are always NOT NULL."""
    return any(not field.nullable or has_not_null(inner_fields(field.type)) for field in fields)


def first_forbidden_null(batch: pa.RecordBatch) -> tuple[str, int] | None:
    """The first column with a null that the schema forbids, and the first row with such a null."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        row = _first_null(column, field)
        if row is not None:
            return field.name, row
    return None


def inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """The fields, elements or values within a type; keys of maps are left out."""
    if pt.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)]


def _first_null(column: pa.Array, field: pa.Field) -> int | None:
    if not field.nullable and column.null_count:
        return _first(column.is_null())
    rows: list[int] = []
    if pt.is_struct(field.type):
        present = pc.indices_nonzero(column.is_valid())
        for inner, values in zip(inner_fields(field.type), column.take(present).flatten(), strict=True):
            row = _first_null(values, inner)
            if row is not None:
                rows.append(present[row].as_py())
    elif pt.is_list(field.type) or pt.is_map(field.type):
        values = column.items if pt.is_map(field.type) else column.values
        position = _first_null(values, inner_fields(field.type)[0])
        if position is not None:
            ends = column.offsets[1:]
            rows.append(_first(pc.greater(ends, position)))
    return min(rows, default=None)


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())
