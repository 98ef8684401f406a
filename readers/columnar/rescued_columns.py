"""RescuedColumns: the columns of a file and a column of rescued data, for formats with named types.

It rescues columns that the schema does not have, columns that do not fit their type, and structs with
extra fields. Each is rescued as a whole, in the rows where it is not null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from flip27_source.readers.columnar.conversions import WIDENING, Conversions, MismatchError, nulls
from flip27_source.readers.columnar.named_columns import NamedColumns
from flip27_source.readers.schemas.evolution import SchemaEvolution, rescued_text, rescued_value
from flip27_source.schemas.new_columns import additions

_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""JSON has texts for these, as Spark's to_json writes them."""


class RescuedColumns(NamedColumns):
    """NamedColumns that also fills the schema's column of rescued data."""

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        evolution: SchemaEvolution,
        stored: pa.Schema,
        conversions: Conversions = WIDENING,
    ) -> None:
        super().__init__(path, evolution.schema, stored.names, conversions)
        self._whole = schema
        self._evolution = evolution
        known = {name for name in self.names if name is not None}
        elsewhere = {name.lower() for name in evolution.elsewhere}
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
        self, stored: pa.RecordBatch, prepare: Callable[[pa.Array, pa.Field], pa.Array] | None = None
    ) -> pa.RecordBatch:
        """The rows of ``stored`` in the schema, with rescued data."""
        self._misfits = []
        fitting = super().batch(stored, prepare)
        left = dict.fromkeys((*self._others, *self._grown, *self._misfits))
        rescued = pa.nulls(stored.num_rows, pa.string())
        if left:
            rescued = _as_json({name: stored.column(name) for name in left}, self.path)
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


def _as_json(columns: dict[str, pa.Array], path: str) -> pa.Array:
    rows = zip(*columns.values(), strict=True)
    present = ({name: _value(v) for name, v in zip(columns, row, strict=True) if v.is_valid} for row in rows)
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
        return dict(zip(keys, map(_value, values.field(1)), strict=True))
    return list(map(_value, values))
