"""The contract of decoders, which turn a block of values into decoded values and failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from flip27_source.readers.files.malformed_records import forbidden_nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The decoded values of a block.

    Attributes:
        values: one for each value of the block; null if the value is null or cannot be decoded.
        failures: why a value cannot be decoded, by its row.
    """

    values: pa.Array
    failures: Mapping[int, str] = field(default_factory=dict)


class ValueDecoder(ABC):
    """Decodes blocks of values.

    Attributes:
        type: the type of the decoded values.
    """

    type: pa.DataType

    @abstractmethod
    def decode(self, values: pa.Array) -> Decoded:
        """Decode a block.

        Args:
            values: an array of type binary. A null value is null in the result, and is not a failure.
        """


class NotNullValues(ValueDecoder):
    """Decodes values with another decoder, and refuses values with a null that the type forbids."""

    def __init__(self, decoder: ValueDecoder) -> None:
        self.type = decoder.type
        self._decoder = decoder

    def decode(self, values: pa.Array) -> Decoded:
        """The values of the other decoder; values with forbidden nulls are failures."""
        decoded = self._decoder.decode(values)
        failures, rows = dict(decoded.failures), np.arange(len(values))
        for name, nulls in forbidden_nulls(decoded.values, pa.field("", self.type), rows, ""):
            for row in nulls:
                failures.setdefault(int(row), f"its field {name} is NOT NULL, but has no value")
        if len(failures) == len(decoded.failures):
            return decoded
        has_failed = np.isin(rows, list(failures))
        return Decoded(values=decoded.values.take(pa.array(rows, mask=has_failed)), failures=failures)


def joined(
    pieces: Sequence[tuple[Sequence[int] | np.ndarray, pa.Array]], rows: int, kind: pa.DataType
) -> pa.Array:
    """An array of ``rows`` values from pieces and the row of each of their values; other rows are null."""
    numbers = [np.asarray(number, np.int64) for number, _ in pieces]
    places = np.full(rows, -1, np.int64)
    start = 0
    for number in numbers:
        places[number] = np.arange(start, start + len(number))
        start += len(number)
    if not start:
        return pa.nulls(rows, kind)
    values = pa.concat_arrays([values for _, values in pieces])
    if start == rows and (places[:-1] < places[1:]).all():
        return values
    return values.take(pa.array(places, mask=places < 0))


def struct_of(columns: Sequence[pa.Array], kind: pa.DataType, rows: int) -> pa.Array:
    if not kind.num_fields:
        return pa.array([{}] * rows, kind)
    return pa.StructArray.from_arrays(list(columns), fields=list(kind))
