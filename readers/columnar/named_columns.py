"""Maps the named columns of a file to the columns of the schema; all columnar formats use it.

Names are compared without regard to case. Missing columns are null; extra columns are not read.
``conversions`` converts a column. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from flip27_source.errors import SchemaError
from flip27_source.readers.columnar.conversions import WIDENING, Conversions, MismatchError, converted, nulls
from flip27_source.readers.schemas.evolution import SchemaEvolution, by_name, rescued_text, rescued_value
from flip27_source.schemas.new_columns import additions

NO_COLUMN = pa.field("\0", pa.null())
"""A column that no file has; a reader has it if it needs the number of rows only."""

_BATCH_ROWS = 1 << 18
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""JSON has texts for these, as Spark's to_json writes them."""


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
        self, stored: pa.RecordBatch, prepare: Callable[[pa.Array], pa.Array] | None = None
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
                prepared = column if prepare is None else prepare(column)
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


class RescuedColumns(NamedColumns):
    """NamedColumns that also fills the schema's column of rescued data."""

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        evolution: SchemaEvolution,
        stored: pa.Schema,
        conversions: Conversions,
    ) -> None:
        super().__init__(path, evolution.schema, stored.names, conversions)
        self._whole = schema
        self._evolution = evolution
        known = {name for name in self.names if name is not None}
        # A column of the file that has the name of the column of rescued data is rescued in it.
        elsewhere = {name.lower() for name in evolution.elsewhere if name != evolution.rescued_name}
        self._others = [n for n in stored.names if n not in known and n.lower() not in elsewhere]
        self._grown = [
            name
            for field, name in zip(evolution.schema, self.names, strict=True)
            if name is not None and len(additions(pa.schema([field]), pa.schema([stored.field(name)])))
        ]
        self._misfits: list[str] = []

    @property
    def names_to_read(self) -> list[str]:
        """The file's names of all columns to read."""
        return [*super().names_to_read, *self._others]

    def batch(
        self, stored: pa.RecordBatch, prepare: Callable[[pa.Array], pa.Array] | None = None
    ) -> pa.RecordBatch:
        """The rows of ``stored`` in the schema, with rescued data."""
        self._misfits = []
        fitting = super().batch(stored, prepare)
        left = dict.fromkeys((*self._others, *self._grown, *self._misfits))
        rescued = pa.nulls(stored.num_rows, pa.string())
        if left:
            found = [(name, at) for name in left for at in stored.schema.get_all_field_indices(name)]
            rescued = _as_json([(name, stored.column(at)) for name, at in found], self.path)
        arrays = self._evolution.with_rescued(list(fitting.columns), rescued)
        return pa.RecordBatch.from_arrays(arrays, schema=self._whole)

    def misfit(
        self, stored: pa.RecordBatch, field: pa.Field, name: str | None, mismatch: MismatchError
    ) -> pa.Array:
        """Return nulls and rescue the values."""
        if name is None or not field.nullable:
            return super().misfit(stored, field, name, mismatch)
        self._misfits.append(name)
        return nulls(stored.num_rows, field)


def _as_json(columns: Sequence[tuple[str, pa.Array]], path: str) -> pa.Array:
    names = [name for name, _ in columns]
    rows = zip(*(column for _, column in columns), strict=True)
    present = (
        by_name((name, _value(v)) for name, v in zip(names, row, strict=True) if v.is_valid) for row in rows
    )
    return pa.array([rescued_text(values, path) if values else None for values in present], pa.string())


def _value(scalar: pa.Scalar) -> Any:
    """A value of JSON, or one that ``rescued_text`` makes one."""
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    if scalar.is_valid and types.is_nested(scalar.type):
        return _nested(scalar)
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes()
    except (OverflowError, ValueError):  # a year that Python does not have
        unit: Any = "D" if types.is_date32(scalar.type) else getattr(scalar.type, "unit", "ms")
        value = str(np.datetime64(scalar.value, unit)).replace("T", " ")
        return f"{value}+00:00" if getattr(scalar.type, "tz", None) else value
    return _NO_NUMBERS.get(str(value), value) if isinstance(value, float) else value


def _nested(scalar: pa.Scalar) -> Any:
    if types.is_struct(scalar.type):
        return {name: _value(value) for name, value in scalar.items()}
    values = scalar.values
    if types.is_map(scalar.type):
        keys = ((key if isinstance(key, str) else rescued_value(key)) for key in map(_value, values.field(0)))
        return by_name(zip(keys, map(_value, values.field(1)), strict=True))
    return list(map(_value, values))
