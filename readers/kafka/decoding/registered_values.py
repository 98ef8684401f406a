"""Decodes values that begin with the id of their schema in a registry, with one decoder per schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.readers.kafka.decoding.decoder import Decoded, ValueDecoder, joined
from flip27_source.readers.kafka.decoding.protobuf_values import ProtobufMessage, ProtobufValues
from flip27_source.readers.kafka.decoding.schema_registry import UnknownSchemaError
from flip27_source.readers.kafka.decoding.wire_format import message_path, unframed


class RegisteredValues(ValueDecoder):
    """Decodes values by the ids of their schemas.

    Args:
        kind: the type of the decoded values.
        decoder_of: returns the decoder for an id. It raises UnknownSchemaError if the registry has no such
            schema, or SchemaError if the schema does not fit ``kind``; values of such a schema are failures.
    """

    def __init__(self, kind: pa.DataType, decoder_of: Callable[[int], ValueDecoder]) -> None:
        self.type = kind
        self._decoder_of = decoder_of
        self._decoders: dict[int, ValueDecoder] = {}

    def decode(self, values: pa.Array) -> Decoded:
        """The values, each decoded with its schema."""
        framed = unframed(values)
        failures = dict(framed.failures)
        found: list[tuple[Sequence[int] | pa.Array, pa.Array]] = []
        for number, rows in framed.rows.items():
            try:
                decoder = self._decoder(number)
            except (UnknownSchemaError, SchemaError) as error:
                failures.update(dict.fromkeys(rows.to_pylist(), f"schema {number}: {error}"))
                continue
            payloads = framed.payloads if len(rows) == len(values) else framed.payloads.take(rows)
            decoded = decoder.decode(payloads)
            found.append((rows, decoded.values))
            failures.update(
                {rows[row].as_py(): f"schema {number}: {why}" for row, why in decoded.failures.items()}
            )
        return Decoded(values=joined(found, len(values), self.type), failures=failures)

    def _decoder(self, number: int) -> ValueDecoder:
        if number not in self._decoders:
            self._decoders[number] = self._decoder_of(number)
        return self._decoders[number]


class ProtobufPayloads(ValueDecoder):
    """Decodes Protobuf payloads, which begin with the index of their message type in its file.

    Args:
        files: the descriptors; imported files come before those that import them.
        where: where they come from, for error messages.
    """

    def __init__(self, kind: pa.StructType, files: Sequence[bytes], where: str) -> None:
        self.type = kind
        self._files = files
        self._where = where
        self._decoders: dict[tuple[int, ...], ProtobufValues] = {}

    def decode(self, values: pa.Array) -> Decoded:
        """The values as structs."""
        groups: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
        failures: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                path, at = message_path(value)
            except ValueError as error:
                failures[row] = str(error)
                continue
            rows, messages = groups.setdefault(path, ([], []))
            rows.append(row)
            messages.append(value[at:])
        found = []
        for path, (rows, messages) in groups.items():
            try:
                decoder = self._decoder(path)
            except SchemaError as error:
                failures.update(dict.fromkeys(rows, str(error)))
                continue
            decoded = decoder.decode(pa.array(messages, pa.binary()))
            found.append((rows, decoded.values))
            failures.update({rows[row]: why for row, why in decoded.failures.items()})
        return Decoded(values=joined(found, len(values), self.type), failures=failures)

    def _decoder(self, path: tuple[int, ...]) -> ProtobufValues:
        if path not in self._decoders:
            message = ProtobufMessage(self._files, where=self._where, path=path)
            self._decoders[path] = ProtobufValues(self.type, message)
        return self._decoders[path]
