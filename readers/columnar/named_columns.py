"""From columns that a file knows by name to the columns of the schema: what columnar formats have in common.

Names are compared without regard to case; missing columns are null, others are not read. How a column is
converted is in ``parquet_columns``. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.readers.columnar.parquet_columns import (
    WIDENING,
    Conversions,
    MismatchError,
    converted,
    nulls,
)

_BATCH_ROWS = 1 << 18


class NamedColumns:
    """Where the columns of a schema are in one file.

    Attributes:
        names: the file's name of each column of the schema; None where it has none.

    Args:
        path: for messages.
        schema: what is wanted.
        stored: the names that the file has.
        conversions: which types become which.

    Raises:
        SchemaError: a name is there more than once.
    """

    def __init__(
        self, path: str, schema: pa.Schema, stored: Sequence[str], conversions: Conversions = WIDENING
    ) -> None:
        self.path = path
        self._schema = schema
        self._conversions = conversions
        by_name: dict[str, list[str]] = {}
        for name in stored:
            by_name.setdefault(name.lower(), []).append(name)
        found: list[str | None] = []
        for field in schema:
            names = by_name.get(field.name.lower(), [])
            if len(names) > 1:
                raise SchemaError(
                    f"{path}: column {field.name} occurs more than once: {', '.join(names)}",
                    remedy="remove the column from the schema, or write the file with distinct names",
                )
            found.append(names[0] if names else None)
        self.names = tuple(found)

    @property
    def wanted(self) -> list[str]:
        """The file's names of the columns that it has."""
        return [name for name in self.names if name is not None]

    def batch(
        self, stored: pa.RecordBatch, prepare: Callable[[pa.Array, pa.Field], pa.Array] | None = None
    ) -> pa.RecordBatch:
        """The rows of ``stored`` in the schema.

        Args:
            prepare: what a format has to do to a column first; may raise MismatchError.
        """
        if prepare is None and stored.schema.equals(self._schema):
            return stored.replace_schema_metadata(None)
        arrays = []
        for field, name in zip(self._schema, self.names, strict=True):
            try:
                if name is None:
                    arrays.append(nulls(stored.num_rows, field))
                    continue
                column = stored.column(name)
                prepared = column if prepare is None else prepare(column, field)
                arrays.append(converted(prepared, field, self._conversions))
            except MismatchError as mismatch:
                arrays.append(self.misfit(stored, field, name, mismatch))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def misfit(
        self, stored: pa.RecordBatch, field: pa.Field, name: str | None, mismatch: MismatchError
    ) -> pa.Array:
        """What a column becomes that the schema has no room for: an error."""
        raise SchemaError(
            f"{self.path}: column {field.name}: {mismatch}",
            remedy="give the column a type that can represent the values of the files",
        ) from None


def rows_without_columns(rows: int) -> Iterator[pa.RecordBatch]:
    """So many rows of a file that has none of the wanted columns."""
    for start in range(0, rows, _BATCH_ROWS):
        placeholder = pa.nulls(min(_BATCH_ROWS, rows - start))
        yield pa.RecordBatch.from_arrays([placeholder], names=[""])


def middle_of_part(number: int, count: int, length: int) -> int:
    """The byte by which part ``number`` of ``count`` belongs to a range of a file of ``length`` bytes.

    For formats that do not tell where their parts are: whatever the ranges, each part is in exactly one.
    """
    return length * (2 * number + 1) // (2 * count)
