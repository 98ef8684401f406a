"""Decodes values that are Protobuf messages of one type, with the package protobuf.

A field with presence is null if it is not set. Other fields then have Protobuf's default value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from flip27_source.errors import RegistryError, SchemaError
from flip27_source.readers.columnar.named_columns import NamedColumns
from flip27_source.readers.kafka.decoding.decoder import (
    Decoded,
    ValueDecoder,
    joined,
    struct_of,
    structs_that_fit,
)

Convert = Callable[[Any], Any]

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_UINT64 = pa.decimal128(20, 0)


class ProtobufMessage:
    """A message type.

    Args:
        files: FileDescriptorProto messages as bytes; imported files come before those that import them.
        name: the full name of the type; if it is empty, ``path`` selects the type.
        path: the index of a message type in the last file, then the index of each nested type. If it is
            empty, too, the type is the first one in the last file.
        where: where the descriptors come from, for error messages.

    Raises:
        SchemaError: the descriptors are invalid, or have no such type.
    """

    def __init__(
        self, files: Sequence[bytes], *, where: str, name: str = "", path: Sequence[int] = ()
    ) -> None:
        protobuf = _protobuf()
        self.where = where
        pool = protobuf.DescriptorPool()
        try:
            added = [pool.AddSerializedFile(file) for file in [*_well_known(protobuf, files), *files]]
            found = pool.FindMessageTypeByName(name) if name else _at(added[-1], path or (0,))
        except (KeyError, IndexError) as error:
            raise SchemaError(
                f"{where} has no message type {name or list(path)!r}: {error}",
                remedy="set valueMessage to the full name of a message type: package.Message",
            ) from None
        except Exception as error:  # noqa: BLE001 - protobuf raises errors of many types
            raise SchemaError(
                f"{where} has no valid descriptors: {type(error).__name__}: {error}",
                remedy="make the file with protoc --include_imports --descriptor_set_out=FILE; or in a "
                "registry, register each file that the schema imports as a reference",
            ) from None
        self.name = found.full_name
        self._class = protobuf.GetMessageClass(found)
        fields = [_Field(field, (self.name,)) for field in found.fields]
        self.fields = {field.name: field for field in fields}
        self.stored = pa.schema([(field.name, field.type) for field in fields])

    @property
    def type(self) -> pa.DataType:
        """The type of the messages as a struct."""
        return pa.struct(list(self.stored))

    def message(self, value: bytes) -> Any:
        """The message in ``value``.

        Raises:
            ValueError: ``value`` is not a message of this type.
        """
        message = self._class()
        try:
            message.ParseFromString(value)
        except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
            raise ValueError(f"it is not a {self.name} of {self.where}: {error}") from None
        return message


class ProtobufValues(ValueDecoder):
    """Decodes messages of one type to structs.

    Raises:
        SchemaError: a field's type does not match the message type.
    """

    def __init__(self, kind: pa.StructType, message: ProtobufMessage) -> None:
        self.type = kind
        self._message = message
        wanted = pa.schema([kind.field(number).with_nullable(True) for number in range(kind.num_fields)])
        self._nulls = wanted
        self._columns = NamedColumns(f"{message.where}, {message.name}", wanted, message.stored.names)
        self._fields = [message.fields[name] for name in self._columns.wanted]
        self._batch([])

    def decode(self, values: pa.Array) -> Decoded:
        """The values as structs."""
        messages: list[Any] = []
        rows: list[int] = []
        failures: dict[int, str] = {}
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                messages.append(self._message.message(value))
            except ValueError as error:
                failures[row] = str(error)
            else:
                rows.append(row)
        structs = structs_that_fit(messages, rows, self._batch, failures)
        return Decoded(values=joined(structs, len(values), self.type), failures=failures)

    def _batch(self, messages: Sequence[Any]) -> pa.Array:
        if not self._fields:
            nulls = [pa.nulls(len(messages), field.type) for field in self._nulls]
            return struct_of(nulls, self.type, len(messages))
        arrays = [pa.array(map(field.value, messages), field.type) for field in self._fields]
        names = [field.name for field in self._fields]
        batch = self._columns.batch(pa.RecordBatch.from_arrays(arrays, names=names))
        return struct_of(batch.columns, self.type, len(messages))


class _Field:
    """A field of a message type: its Arrow type, and a function that returns its value in a message."""

    def __init__(self, field: Any, inside: tuple[str, ...]) -> None:
        self.name: str = field.name
        is_repeated = (
            field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        )
        entry = field.message_type
        name = field.name
        if entry is not None and entry.GetOptions().map_entry:
            keys, items = (_one(entry.fields_by_name[part], inside) for part in ("key", "value"))
            self.type: pa.DataType = pa.map_(keys[0], items[0])
            self.value: Convert = lambda message: [
                (keys[1](key), items[1](item)) for key, item in getattr(message, name).items()
            ]
            return
        kind, convert = _one(field, inside)
        if is_repeated:
            self.type = pa.list_(kind)
            self.value = lambda message: [convert(item) for item in getattr(message, name)]
        elif field.has_presence:
            self.type = kind
            self.value = lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        else:
            self.type = kind
            self.value = lambda message: convert(getattr(message, name))


def _one(field: Any, inside: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    """The type of a single value of the field, and the function that converts the value."""
    if field.message_type is not None:
        return _message(field.message_type, inside)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number))
    kind = {
        field.CPPTYPE_INT32: pa.int32(), field.CPPTYPE_INT64: pa.int64(), field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: _UINT64, field.CPPTYPE_DOUBLE: pa.float64(), field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(), field.CPPTYPE_STRING: pa.string(),
    }[field.cpp_type]  # fmt: skip
    if field.type == field.TYPE_BYTES:
        kind = pa.binary()
    return kind, _same


def _message(found: Any, inside: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if found.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC"), lambda message: message.seconds * 1_000_000 + message.nanos // 1000
    if found.full_name in _WRAPPERS:
        kind, convert = _one(found.fields_by_name["value"], inside)
        return kind, lambda message: convert(message.value)
    if found.full_name in inside:
        raise SchemaError(
            f"the message type {found.full_name} contains itself, and Spark has no type for it",
            remedy="leave valueFormat out and decode the values in the query",
        )
    fields = [_Field(field, (*inside, found.full_name)) for field in found.fields]
    kind = pa.struct([(field.name, field.type) for field in fields])
    return kind, lambda message: {field.name: field.value(message) for field in fields}


def _same(value: Any) -> Any:
    return value


def _at(file: Any, path: Iterable[int]) -> Any:
    first, *inner = path
    found = list(file.message_types_by_name.values())[first]
    for number in inner:
        found = found.nested_types[number]
    return found


def _well_known(protobuf: Any, files: Sequence[bytes]) -> list[bytes]:
    """Google's own files that ``files`` import but do not contain, each after those that it imports."""
    parsed = [protobuf.FileDescriptorProto.FromString(file) for file in files]
    there = {file.name for file in parsed}
    found: dict[str, bytes] = {}

    def add(imports: Iterable[str]) -> None:
        for name in imports:
            serialized = protobuf.well_known(name)
            if serialized is not None and name not in there and name not in found:
                add(protobuf.FileDescriptorProto.FromString(serialized).dependency)
                found[name] = serialized

    for file in parsed:
        add(file.dependency)
    return list(found.values())


class _Protobuf:
    """The parts of the package protobuf that this module uses."""

    def __init__(self) -> None:
        from google.protobuf import (
            any_pb2,
            api_pb2,
            descriptor_pb2,
            duration_pb2,
            empty_pb2,
            field_mask_pb2,
            source_context_pb2,
            struct_pb2,
            timestamp_pb2,
            type_pb2,
            wrappers_pb2,
        )  # fmt: skip
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

        self.DescriptorPool: Any = DescriptorPool
        self.GetMessageClass: Any = GetMessageClass
        self.FileDescriptorProto: Any = descriptor_pb2.FileDescriptorProto
        modules = (
            any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2,
            struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2,
        )  # fmt: skip
        self._well_known = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}

    def well_known(self, name: str) -> bytes | None:
        return self._well_known.get(name)


def _protobuf() -> Any:
    try:
        return _Protobuf()
    except ImportError:
        raise RegistryError(
            "valueFormat=protobuf needs the package protobuf, which is not installed here",
            remedy="pip install 'flip27-source[kafka,protobuf]' on the driver and on every executor node",
        ) from None


def files_of_set(data: bytes) -> list[bytes]:
    """The files of a FileDescriptorSet from protoc, in the same order.

    Raises:
        ValueError: it is not a FileDescriptorSet.
    """
    from google.protobuf import descriptor_pb2

    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(data)
    except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
        raise ValueError(str(error)) from None
    if not found.file:
        raise ValueError("it has no file")
    return [file.SerializeToString() for file in found.file]


def renamed_file(data: bytes, name: str) -> bytes:
    """A FileDescriptorProto with another name.

    Raises:
        ValueError: it is not a FileDescriptorProto.
    """
    protobuf = _protobuf()
    try:
        file = protobuf.FileDescriptorProto.FromString(data)
    except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
        raise ValueError(str(error)) from None
    file.name = name
    return bytes(file.SerializeToString())
