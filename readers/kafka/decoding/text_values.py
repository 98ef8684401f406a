"""Decodes values that are text in UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder


class TextValues(ValueDecoder):
    """Decodes UTF-8."""

    type = pa.string()

    def decode(self, values: pa.Array) -> Decoded:
        """The values as strings."""
        try:
            return Decoded(values=pc.cast(values, pa.string()))
        except pa.ArrowInvalid:
            return _one_by_one(values)


def _one_by_one(values: pa.Array) -> Decoded:
    texts: list[str | None] = []
    failures: dict[int, str] = {}
    for row, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            failures[row] = f"it is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}"
    return Decoded(values=pa.array(texts, pa.string()), failures=failures)
