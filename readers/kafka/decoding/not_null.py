"""Handles NOT NULL within decoded values: a value with a null there cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.readers.files.malformed_records import has_not_null, inner_fields
from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder


def has_inner_not_null(kind: pa.DataType) -> bool:
    """True if a field within the type is NOT NULL."""
    return has_not_null(inner_fields(kind))


class NotNullValues(ValueDecoder):
    """Decodes values with another decoder, and refuses values with a null that the type forbids."""

    def __init__(self, decoder: ValueDecoder) -> None:
        self.type = decoder.type
        self._decoder = decoder

    def decode(self, values: pa.Array) -> Decoded:
        """The values of the other decoder; values with forbidden nulls are failures."""
        decoded = self._decoder.decode(values)
        failures = dict(decoded.failures)
        for name, rows in _forbidden_nulls(decoded.values, self.type, np.arange(len(values)), ""):
            for row in rows:
                failures.setdefault(int(row), f"its field {name} is NOT NULL, but has no value")
        if len(failures) == len(decoded.failures):
            return decoded
        rows = np.arange(len(values))
        has_failed = np.isin(rows, list(failures))
        return Decoded(values=decoded.values.take(pa.array(rows, mask=has_failed)), failures=failures)


def _forbidden_nulls(
    values: pa.Array, kind: pa.DataType, rows: np.ndarray, name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names of fields with forbidden nulls, and their rows; ``rows`` has the row of each value."""
    if pt.is_struct(kind):
        is_given = np.asarray(values.is_valid())
        for number, field in enumerate(kind):
            column = values.field(number)
            inner = f"{name}.{field.name}" if name else field.name
            if not field.nullable and column.null_count:
                yield inner, rows[is_given & np.asarray(column.is_null())]
            if has_inner_not_null(field.type):
                present = pc.and_(values.is_valid(), column.is_valid())
                places = pc.indices_nonzero(present)
                yield from _forbidden_nulls(column.take(places), field.type, rows[np.asarray(places)], inner)
    elif pt.is_list(kind):
        parents = rows[np.asarray(pc.list_parent_indices(values))]
        items = values.flatten()
        if not kind.value_field.nullable and items.null_count:
            yield name, parents[np.asarray(items.is_null())]
        yield from _forbidden_nulls(items, kind.value_type, parents, name)
    elif pt.is_map(kind):
        # Arrow has no parent indices of maps. After the take there are no nulls, and the offsets begin at 0.
        present = pc.indices_nonzero(values.is_valid())
        maps = values.take(present)
        parents = np.repeat(rows[np.asarray(present)], np.diff(np.asarray(maps.offsets)))
        inner = f"{name}.value"
        if not kind.item_field.nullable and maps.items.null_count:
            yield inner, parents[np.asarray(maps.items.is_null())]
        yield from _forbidden_nulls(maps.items, kind.item_type, parents, inner)
