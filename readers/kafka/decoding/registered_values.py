"""Decodes values that begin with a header of a schema registry, with one decoder for each schema.

The header is a zero byte and the id of the schema in four bytes. The payload of a Protobuf value then begins
with the indexes of its message type in the schema's file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.errors import SchemaError
from flip27_source.readers.columnar.varints import signed, varint
from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder, joined
from flip27_source.readers.kafka.decoding.protobuf_message import ProtobufMessage
from flip27_source.readers.kafka.decoding.record_values import RecordValues
from flip27_source.readers.kafka.decoding.schema_registry import UnknownSchemaError

KeyT = TypeVar("KeyT", bound=Hashable)

_HEADER_BYTES = 5


Payloads: TypeAlias = Mapping[KeyT, tuple[Sequence[int], pa.Array]]
"""The rows and the payloads of the values with each header."""


class FramedValues(ValueDecoder, Generic[KeyT]):
    """Decodes values by their headers.

    Args:
        kind: the type of the decoded values.
        unframed: separates the headers from the values of a block; null values are left out. Also returns
            why a value has no header, by its row.
        decoder_of: returns the decoder for a header. It raises UnknownSchemaError if the registry has no such
            schema, or SchemaError if the schema does not fit ``kind``; values of such a schema are failures.
        label: the beginning of each failure, with the header in place of ``{}``.
    """

    def __init__(
        self,
        kind: pa.DataType,
        unframed: Callable[[pa.Array], tuple[Payloads[KeyT], dict[int, str]]],
        decoder_of: Callable[[KeyT], ValueDecoder],
        *,
        label: str = "",
    ) -> None:
        self.type = kind
        self._unframed = unframed
        self._decoder_of = cache(decoder_of)
        self._label = label

    def decode(self, values: pa.Array) -> Decoded:
        """The values, each decoded as its header says."""
        of_headers, failures = self._unframed(values)
        pieces: list[tuple[Sequence[int], pa.Array]] = []
        for header, (rows, payloads) in of_headers.items():
            label = self._label.format(header)
            try:
                decoder = self._decoder_of(header)
            except (UnknownSchemaError, SchemaError) as error:
                failures.update(dict.fromkeys(rows, f"{label}{error}"))
                continue
            decoded = decoder.decode(payloads)
            pieces.append((rows, decoded.values))
            failures.update({rows[row]: f"{label}{why}" for row, why in decoded.failures.items()})
        return Decoded(values=joined(pieces, len(values), self.type), failures=failures)


def registered_values(kind: pa.DataType, decoder_of: Callable[[int], ValueDecoder]) -> FramedValues[int]:
    """The decoder for values that begin with the id of their schema."""
    return FramedValues(kind, _by_schema, decoder_of, label="schema {}: ")


def protobuf_payloads(
    kind: pa.StructType, files: Sequence[bytes], where: str, name: str | None = None
) -> FramedValues[tuple[int, ...]]:
    """The decoder for payloads that begin with the indexes of their message type.

    Args:
        files: the descriptors; imported files come before those that import them.
        name: the full name of the only message type that is decoded; None decodes all.
    """

    def decoder_of(path: tuple[int, ...]) -> ValueDecoder:
        message = ProtobufMessage(files, where=where, path=path)
        if name not in (None, message.name):
            raise SchemaError(f"it is a {message.name} of {where}, but valueMessage is {name}")
        return RecordValues(kind, message)

    return FramedValues(kind, _by_message_type, decoder_of)


def _by_schema(values: pa.Array) -> tuple[Payloads[int], dict[int, str]]:
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0))
    is_given = np.asarray(values.is_valid())
    offsets = np.frombuffer(values.buffers()[1] or b"", np.int32)
    starts = offsets[values.offset : values.offset + len(values)].astype(np.int64)
    is_long_enough = is_given & (lengths >= _HEADER_BYTES)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    is_framed = is_long_enough.copy()
    is_framed[is_long_enough] = data[starts[is_long_enough]] == 0
    rows = np.flatnonzero(is_framed)
    digits = data[starts[rows][:, None] + np.arange(1, _HEADER_BYTES)].astype(np.int64)
    ids = digits @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    failures = {
        row: f"it has no header of a schema registry: it starts with 0x{values[row].as_py()[:5].hex()}"
        for row in np.flatnonzero(is_given & ~is_framed).tolist()
    }
    # Without a stop position, pyarrow computes a negative size for short values.
    longest = int(lengths.max(initial=_HEADER_BYTES))
    payloads = pc.binary_slice(values, _HEADER_BYTES, longest)
    of_schemas = {int(number): rows[ids == number] for number in np.unique(ids)}
    return {
        number: (rows.tolist(), payloads if len(rows) == len(values) else payloads.take(pa.array(rows)))
        for number, rows in of_schemas.items()
    }, failures


def _by_message_type(values: pa.Array) -> tuple[Payloads[tuple[int, ...]], dict[int, str]]:
    messages: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
    failures: dict[int, str] = {}
    for row, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        try:
            path, at = _message_path(value)
        except ValueError as error:
            failures[row] = str(error)
            continue
        rows, payloads = messages.setdefault(path, ([], []))
        rows.append(row)
        payloads.append(value[at:])
    arrays = {path: (rows, pa.array(payloads, pa.binary())) for path, (rows, payloads) in messages.items()}
    return arrays, failures


def _message_path(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes of a Protobuf payload's message type in its file, and the position of the message."""
    stream = io.BytesIO(payload)
    try:
        count = signed(varint(stream))
        path = tuple(signed(varint(stream)) for _ in range(count)) if count else (0,)
    except (EOFError, ValueError):
        path = ()
    if not path or min(path) < 0:
        raise ValueError("its header of message types is invalid")
    return path, stream.tell()
