"""The schemas of values, from a file or a registry, and the decoders that the options select.

``value_decoder`` makes the decoder of a task; ``value_type`` finds the type if the user gives none.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_source.errors import OptionError, SchemaError
from flip27_source.file_systems.paths import open_file_system, redacted
from flip27_source.options import Options
from flip27_source.readers.datetimes.formats import DateTimeFormats
from flip27_source.readers.files.malformed_records import has_inner_not_null
from flip27_source.readers.json_lines.options import json_dialect
from flip27_source.readers.kafka.decoding.avro_schema import AvroSchema, imported_fastavro
from flip27_source.readers.kafka.decoding.decoder import Decoded, NotNullValues, ValueDecoder
from flip27_source.readers.kafka.decoding.json_values import JsonValues
from flip27_source.readers.kafka.decoding.options import (
    REGISTRY_URL,
    VALUE_FORMAT,
    VALUE_MESSAGE,
    VALUE_SCHEMA_FILE,
    registry_secrets,
)
from flip27_source.readers.kafka.decoding.protobuf_message import (
    Protobuf,
    ProtobufMessage,
    files_of_set,
    renamed_file,
)
from flip27_source.readers.kafka.decoding.record_values import RecordValues
from flip27_source.readers.kafka.decoding.registered_values import protobuf_payloads, registered_values
from flip27_source.readers.kafka.decoding.schema_registry import (
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
    imported_requests,
    registry_at,
)
from flip27_source.schemas.ddl import parse_columns, type_name

_LARGEST_FILE_BYTES = 64 << 20


class TextValues(ValueDecoder):
    """Decodes UTF-8."""

    type = pa.string()

    def decode(self, values: pa.Array) -> Decoded:
        try:
            return Decoded(values=pc.cast(values, pa.string()))
        except pa.ArrowInvalid:
            pass
        texts: list[str | None] = []
        failures: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                failures[row] = f"it is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}"
        return Decoded(values=pa.array(texts, pa.string()), failures=failures)


def check_packages(options: Options) -> None:
    """Raise a RegistryError if a package that decodes values is missing."""
    if options[VALUE_FORMAT] == "avro":
        imported_fastavro()
    elif options[VALUE_FORMAT] == "protobuf":
        Protobuf()
    if options[REGISTRY_URL] is not None:
        imported_requests()


def value_decoder(kind: pa.DataType, options: Options, time_zone: str) -> ValueDecoder:
    value_format = options[VALUE_FORMAT]
    if value_format == "string":
        if not pt.is_string(kind):
            raise _other_type(kind, "a string")
        return TextValues()
    if not pt.is_struct(kind):
        raise _other_type(kind, "a struct")
    decoder = _decoder(value_format, kind, options, time_zone)
    return NotNullValues(decoder) if has_inner_not_null(kind) else decoder


def value_type(options: Options, topics: tuple[str, ...]) -> pa.DataType:
    """The type of the values, from a file or a schema registry.

    Args:
        topics: the schema of the first topic's values is requested from the registry.
    """
    value_format = options[VALUE_FORMAT]
    if value_format == "string":
        return pa.string()
    if options[VALUE_SCHEMA_FILE] is not None:
        return _type_of_file(value_format, options)
    if takes_newest(options) and topics:
        return _registered_type(options, f"{topics[0]}-value")
    raise SchemaError(
        f"valueFormat={value_format} is set, but the fields of the values are not known",
        remedy='add .schema("value STRUCT<id: BIGINT, name: STRING>, topic STRING, offset BIGINT") '
        "before .load(), with the columns that you need; or set valueSchemaFile"
        + (", or schemaRegistryUrl with subscribe" if value_format != "json" else ""),
    )


def takes_newest(options: Options) -> bool:
    """Whether the type of the values is that of the newest schema in a registry."""
    if options[VALUE_SCHEMA_FILE] is not None or options[REGISTRY_URL] is None:
        return False
    return options[VALUE_FORMAT] in ("avro", "protobuf")


def _decoder(value_format: str | None, kind: pa.StructType, options: Options, time_zone: str) -> ValueDecoder:
    if value_format == "json":
        formats, dialect = DateTimeFormats.of(options, day_numbers=True), json_dialect(options)
        decoder = JsonValues(kind, time_zone=time_zone, formats=formats, dialect=dialect)
        # Only remove the header: the type of the values is given, so the registered schema is not needed.
        return decoder if options[REGISTRY_URL] is None else registered_values(kind, lambda _number: decoder)
    if options[REGISTRY_URL] is not None:
        return _registered(kind, options)
    if options[VALUE_SCHEMA_FILE] is None:
        raise OptionError(
            f"valueFormat={value_format} needs the schema that the values were written with",
            remedy="set valueSchemaFile, or schemaRegistryUrl",
        )
    return RecordValues(kind, _writer_of_file(value_format, options))


def _registered(kind: pa.StructType, options: Options) -> ValueDecoder:
    value_format, registry = options[VALUE_FORMAT], _registry(options)

    def decoder_of(number: int) -> ValueDecoder:
        schema = registry.schema(number)
        where = f"schema {number} of {registry.place}"
        _check_kind(schema, value_format, where)
        if value_format == "avro":
            return RecordValues(kind, _avro(schema, where))
        return protobuf_payloads(kind, _files(schema, where), where, options[VALUE_MESSAGE])

    return registered_values(kind, decoder_of)


def _registered_type(options: Options, subject: str) -> pa.DataType:
    value_format, registry = options[VALUE_FORMAT], _registry(options)
    where = f"subject {subject} of {registry.place}"
    try:
        schema = registry.latest(subject)
    except UnknownSchemaError as error:
        raise SchemaError(str(error), remedy="add .schema(...) with a column value before .load()") from None
    _check_kind(schema, value_format, where)
    if value_format == "avro":
        return _avro(schema, where).type
    return ProtobufMessage(_files(schema, where), where=where, name=options[VALUE_MESSAGE] or "").type


def _check_kind(schema: RegisteredSchema, value_format: str | None, where: str) -> None:
    if schema.kind.lower() != value_format:
        raise SchemaError(f"{where} is a schema for {schema.kind}, but valueFormat is {value_format}")


def _avro(schema: RegisteredSchema, where: str) -> AvroSchema:
    try:
        text = json.loads(schema.text)
        named = {name: json.loads(needed.text) for name, needed in schema.references.items()}
    except ValueError as error:
        raise SchemaError(f"{where} is not valid JSON: {error}") from None
    return AvroSchema(text, where=where, named=named)


def _files(schema: RegisteredSchema, where: str) -> list[bytes]:
    # A registry names every file "default", but files import each other by the names of the references.
    root = "value.proto"
    while root in schema.references:
        root = f"_{root}"
    named = {**schema.references, root: schema}
    try:
        files = {name: base64.b64decode(needed.text, validate=True) for name, needed in named.items()}
        return [renamed_file(file, name) for name, file in files.items()]
    except ValueError:
        raise SchemaError(f"{where} has no serialized descriptors") from None


def _registry(options: Options) -> SchemaRegistry:
    credentials, token = registry_secrets(options)
    return registry_at(options[REGISTRY_URL] or "", credentials, token)


def _type_of_file(value_format: str | None, options: Options) -> pa.DataType:
    if value_format != "json":
        return _writer_of_file(value_format, options).type
    path, data = _file(options)
    try:
        return pa.struct(list(parse_columns(data.decode())))
    except ValueError as error:
        raise SchemaError(
            f"{path} does not have columns as DDL: {error}", remedy='write "id BIGINT, name STRING" into it'
        ) from None


def _writer_of_file(value_format: str | None, options: Options) -> AvroSchema | ProtobufMessage:
    path, data = _file(options)
    if value_format == "avro":
        try:
            schema: Mapping[str, Any] = json.loads(data)
        except ValueError as error:
            raise SchemaError(
                f"{path} is not valid JSON: {error}", remedy="name a file with an Avro schema"
            ) from None
        return AvroSchema(schema, where=path)
    try:
        files = files_of_set(data)
    except ValueError as error:
        raise SchemaError(
            f"{path} is not a descriptor set: {error}",
            remedy="make it with protoc --include_imports --descriptor_set_out=FILE",
        ) from None
    return ProtobufMessage(files, where=path, name=options[VALUE_MESSAGE] or "")


def _file(options: Options) -> tuple[str, bytes]:
    """The path of valueSchemaFile without secrets, and the content of the file."""
    path = options[VALUE_SCHEMA_FILE] or ""
    try:
        file_system, inner = open_file_system(path, {}, what=VALUE_SCHEMA_FILE.name, error_type=OptionError)
        with file_system.open(inner, "rb") as file:
            return redacted(path), bytes(file.read(_LARGEST_FILE_BYTES))
    except OSError as error:
        raise SchemaError(
            f"valueSchemaFile {redacted(path)} cannot be read: {type(error).__name__}",
            remedy="give a path that the driver and every executor can read",
        ) from None


def _other_type(kind: pa.DataType, expected: str) -> SchemaError:
    return SchemaError(
        f"the column value has the type {type_name(kind)}, but decoded values are {expected}",
        remedy='write .schema("value STRUCT<id: BIGINT, name: STRING>, ...")',
    )
