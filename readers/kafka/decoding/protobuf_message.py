"""The types of Protobuf messages, and the messages in values, with the package protobuf.

A field with presence is null if it is not set. Other fields then have Protobuf's default value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from flip27_source.errors import SchemaError
from flip27_source.optional_packages import needed
from flip27_source.readers.columnar.conversions import wanted_fields

Convert = Callable[[Any], Any]

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_WELL_KNOWN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp",
    "type", "wrappers",
)  # fmt: skip
_UINT64 = pa.decimal128(20, 0)


class ProtobufMessage:
    """A message type.

    Args:
        files: FileDescriptorProto messages as bytes; imported files come before those that import them.
        name: the full name of the type; if it is empty, ``path`` selects the type.
        path: the index of a message type in the last file, then the index of each nested type. If it is
            empty, too, the type is the first one in the last file.
    """

    def __init__(
        self, files: Sequence[bytes], *, where: str, name: str = "", path: Sequence[int] = ()
    ) -> None:
        protobuf = Protobuf()
        pool = protobuf.DescriptorPool()
        try:
            added = [pool.AddSerializedFile(file) for file in [*_well_known(protobuf, files), *files]]
            descriptor = pool.FindMessageTypeByName(name) if name else _at(added[-1], path or (0,))
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
        self._where, self.name = where, descriptor.full_name
        self.place = f"{where}, {self.name}"
        self._class = protobuf.GetMessageClass(descriptor)
        self._fields = {field.name: field for field in descriptor.fields}
        self.names = list(self._fields)

    @property
    def type(self) -> pa.DataType:
        return pa.struct([self.stored(name)[0] for name in self.names])

    def stored(self, name: str, wanted: pa.DataType | None = None) -> tuple[pa.Field, Convert]:
        """The field with the Arrow type of its values, and the function that gets its value in a message.

        Args:
            wanted: the type to which the values will be converted, if it is known.

        Raises:
            SchemaError: Arrow has no type for the values.
        """
        field = _Field(self._fields[name], (self.name,), wanted)
        return pa.field(name, field.type), field.value

    def record(self, value: bytes) -> Any:
        """The message in ``value``; raises ValueError, which says why, if there is none."""
        message = self._class()
        try:
            message.ParseFromString(value)
        except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
            raise ValueError(f"it is not a {self.name} of {self._where}: {error}") from None
        return message


class _Field:
    """A field of a message type: its Arrow type, and a function that returns its value in a message.

    Args:
        inside: the message types that contain the field.
        wanted: the type to which the values will be converted, if it is known. Other fields of messages are
            left out, and a message may contain itself as deep as it does.
    """

    def __init__(self, field: Any, inside: tuple[str, ...], wanted: pa.DataType | None) -> None:
        self.name: str = field.name
        is_repeated = (
            field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        )
        entry = field.message_type
        name = field.name
        if entry is not None and entry.GetOptions().map_entry:
            keys = _single(entry.fields_by_name["key"], inside, None)
            items = _single(entry.fields_by_name["value"], inside, getattr(wanted, "item_type", None))
            self.type: pa.DataType = pa.map_(keys[0], items[0])
            self.value: Convert = lambda message: [
                (keys[1](key), items[1](item)) for key, item in getattr(message, name).items()
            ]
            return
        of_one = getattr(wanted, "value_type", None) if is_repeated else wanted
        kind, convert = _single(field, inside, of_one)
        if is_repeated:
            self.type = pa.list_(kind)
            self.value = lambda message: [convert(item) for item in getattr(message, name)]
        elif field.has_presence:
            self.type = kind
            self.value = lambda message: convert(getattr(message, name)) if message.HasField(name) else None
        else:
            self.type = kind
            self.value = lambda message: convert(getattr(message, name))


def _single(field: Any, inside: tuple[str, ...], wanted: pa.DataType | None) -> tuple[pa.DataType, Convert]:
    """The type of a single value of the field, and the function that converts the value."""
    if field.message_type is not None:
        return _message(field.message_type, inside, wanted)
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
    return kind, lambda value: value


def _message(
    descriptor: Any, inside: tuple[str, ...], wanted: pa.DataType | None
) -> tuple[pa.DataType, Convert]:
    if descriptor.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC"), lambda message: message.seconds * 1_000_000 + message.nanos // 1000
    if descriptor.full_name in _WRAPPERS:
        kind, convert = _single(descriptor.fields_by_name["value"], inside, None)
        return kind, lambda message: convert(message.value)
    kinds = wanted_fields(wanted)
    if kinds is None and descriptor.full_name in inside:
        raise SchemaError(
            f"the message type {descriptor.full_name} contains itself, and Spark has no type for it",
            remedy="leave the field out in .schema(...), or leave valueFormat out and decode the values in "
            "the query",
        )
    inside = (*inside, descriptor.full_name)
    fields = [
        _Field(field, inside, None if kinds is None else kinds[field.name.lower()])
        for field in descriptor.fields
        if kinds is None or field.name.lower() in kinds
    ]
    kind = pa.struct([(field.name, field.type) for field in fields])
    return kind, lambda message: {field.name: field.value(message) for field in fields}


def _at(file: Any, path: Iterable[int]) -> Any:
    first, *inner = path
    descriptor = list(file.message_types_by_name.values())[first]
    for number in inner:
        descriptor = descriptor.nested_types[number]
    return descriptor


def _well_known(protobuf: Any, files: Sequence[bytes]) -> list[bytes]:
    """Google's own files that ``files`` import but do not contain, each after those that it imports."""
    parsed = [protobuf.FileDescriptorProto.FromString(file) for file in files]
    present = {file.name for file in parsed}
    added: dict[str, bytes] = {}

    def add(imports: Iterable[str]) -> None:
        for name in imports:
            serialized = protobuf.well_known.get(name)
            if serialized is not None and name not in present and name not in added:
                add(protobuf.FileDescriptorProto.FromString(serialized).dependency)
                added[name] = serialized

    for file in parsed:
        add(file.dependency)
    return list(added.values())


class Protobuf:
    """The parts of the package protobuf that this module uses."""

    def __init__(self) -> None:
        with needed("protobuf", by="valueFormat=protobuf", extra="kafka,protobuf"):
            from google.protobuf import descriptor_pb2
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message_factory import GetMessageClass

        self.DescriptorPool: Any = DescriptorPool
        self.GetMessageClass: Any = GetMessageClass
        self.FileDescriptorProto: Any = descriptor_pb2.FileDescriptorProto
        self.FileDescriptorSet: Any = descriptor_pb2.FileDescriptorSet
        modules = [import_module(f"google.protobuf.{name}_pb2") for name in _WELL_KNOWN]
        self.well_known = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in modules}


def files_of_set(data: bytes) -> list[bytes]:
    """The files of a FileDescriptorSet from protoc, in the same order."""
    protobuf = Protobuf()
    try:
        files = protobuf.FileDescriptorSet.FromString(data).file
    except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
        raise ValueError(str(error)) from None
    if not files:
        raise ValueError("it has no file")
    return [file.SerializeToString() for file in files]


def renamed_file(data: bytes, name: str) -> bytes:
    """A FileDescriptorProto with another name."""
    protobuf = Protobuf()
    try:
        file = protobuf.FileDescriptorProto.FromString(data)
    except Exception as error:  # noqa: BLE001 - each implementation of protobuf has its own errors
        raise ValueError(str(error)) from None
    file.name = name
    return bytes(file.SerializeToString())
