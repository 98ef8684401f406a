"""Maps the named columns of a file to the columns of the schema; all columnar formats use it.

Names are compared without regard to case. Missing columns are null; extra columns are not read.
``conversions`` converts a column. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.readers.columnar.conversions import WIDENING, Conversions, MismatchError, converted, nulls

NO_COLUMN = pa.field("\0", pa.null())
"""A column that no file has; a reader has it if it needs the number of rows only."""

_BATCH_ROWS = 1 << 18


class NamedColumns:
    """The columns of one file that match the columns of the schema.

    Attributes:
        names: the file's name for each column of the schema; None if the file does not have the column.
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
        names_in_file: list[str | None] = []
        for field in schema:
            names = by_name.get(field.name.lower(), [])
            if len(names) > 1:
                raise SchemaError(
                    f"{path}: column {field.name} occurs more than once: {', '.join(names)}",
                    remedy="remove the column from the schema, or write the file with distinct names",
                )
            names_in_file.append(names[0] if names else None)
        self.names = tuple(names_in_file)

    @property
    def names_to_read(self) -> list[str]:
        """The file's names of the wanted columns that it has."""
        return [name for name in self.names if name is not None]

    def batch(
        self, stored: pa.RecordBatch, prepare: Callable[[pa.Array, pa.Field], pa.Array] | None = None
    ) -> pa.RecordBatch:
        """The rows of ``stored`` in the schema.

        Args:
            prepare: a format's preparation of each column; may raise MismatchError.
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
        """Handle a column that does not fit the schema: raise an error."""
        problem = f"{self.path}: column {field.name}: {mismatch}"
        raise SchemaError(problem, remedy=mismatch.remedy) from None

    def without_columns(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of ``rows`` rows in total, from a file that has none of the wanted columns."""
        for start in range(0, rows, _BATCH_ROWS):
            placeholder = pa.nulls(min(_BATCH_ROWS, rows - start))
            yield self.batch(pa.RecordBatch.from_arrays([placeholder], names=[""]))
