"""Writes Arrow tables as Avro files: each type as its Avro type in a union with null."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
from pyarrow import types

_PRIMITIVES = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float",
    pa.float64(): "double", pa.string(): "string", pa.binary(): "bytes",
}  # fmt: skip


def write_avro(table: pa.Table, where: Path | BinaryIO, **settings: Any) -> None:
    """Write a table to a file or a stream, with the settings of ``avro_bytes``."""
    content = avro_bytes(table, **settings)
    if isinstance(where, Path):
        where.write_bytes(content)
    else:
        where.write(content)


def recoded(content: bytes, codec: str) -> bytes:
    """The content of an uncompressed file, compressed with snappy or zstandard.

    fastavro would need another package for them.
    """

    def long(number: int) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, "long", number)
        return sink.getvalue()

    def packed(data: bytes) -> bytes:
        if codec == "zstandard":
            return bytes(pa.compress(data, codec="zstd", asbytes=True))
        return bytes(pa.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")

    mark = content[-16:]
    parts = [content[: content.index(mark)].replace(b"\x08null", long(len(codec)) + codec.encode()), mark]
    for block in fastavro.block_reader(io.BytesIO(content)):
        data = packed(block.bytes_.getvalue())
        parts += [long(block.num_records), long(len(data)), data, mark]
    return b"".join(parts)


def avro_bytes(
    table: pa.Table,
    *,
    codec: str = "null",
    sync_interval: int = 16000,
    null_last: bool = False,
    ignored_logical_types: bool = False,
) -> bytes:
    """The content of a file.

    Args:
        ignored_logical_types: the schema has logical types that their types cannot have.
    """
    if codec in ("snappy", "zstandard"):
        plain = avro_bytes(
            table,
            sync_interval=sync_interval,
            null_last=null_last,
            ignored_logical_types=ignored_logical_types,
        )
        return recoded(plain, codec)
    names = iter(range(10_000))
    fields = [{"name": one.name, "type": _avro_type(one.type, names, null_last)} for one in table.schema]
    columns = [[_plain(value, field.type) for value in _values(table, field)] for field in table.schema]
    records = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    sink = io.BytesIO()
    mark = b"flip27-sync-mark"
    fastavro.writer(sink, schema, records, codec=codec, sync_interval=sync_interval, sync_marker=mark)
    content = sink.getvalue()
    if not ignored_logical_types:
        return content
    # fastavro writes no such schema.
    header = io.BytesIO()
    odd = {"type": "record", "name": "row", "fields": _with_ignored(fields)}
    meta = {"avro.schema": json.dumps(odd).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, meta)
    return b"Obj\x01" + header.getvalue() + content[content.index(mark) :]


def _with_ignored(kind: Any) -> Any:
    """The type, or fields, where plain numbers, texts and bytes claim to be decimals."""
    if isinstance(kind, list):
        return [_with_ignored(one) for one in kind]
    if isinstance(kind, str):
        return (
            {"type": kind, "logicalType": "decimal"} if kind in ("int", "long", "string", "bytes") else kind
        )
    return {
        key: _with_ignored(value)
        if key in ("fields", "items", "values") or isinstance(value, list)
        else value
        for key, value in kind.items()
    }


def _values(table: pa.Table, field: pa.Field) -> list[Any]:
    return table.column(field.name).cast(_stored(field.type)).to_pylist()


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type with dates and timestamps replaced by the numbers that Avro stores."""
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_list(kind):
        return pa.list_(_stored(kind.value_type))
    if types.is_map(kind):
        return pa.map_(kind.key_type, _stored(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([(field.name, _stored(field.type)) for field in kind])
    return kind


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return value


def _avro_type(kind: pa.DataType, names: Iterator[int], null_last: bool) -> Any:
    found = _not_null(kind, names, null_last)
    return [found, "null"] if null_last else ["null", found]


def _not_null(kind: pa.DataType, names: Iterator[int], null_last: bool) -> Any:
    if types.is_list(kind):
        return {"type": "array", "items": _avro_type(kind.value_type, names, null_last)}
    if types.is_map(kind):
        return {"type": "map", "values": _avro_type(kind.item_type, names, null_last)}
    if types.is_struct(kind):
        fields = [{"name": field.name, "type": _avro_type(field.type, names, null_last)} for field in kind]
        return {"type": "record", "name": f"r{next(names)}", "fields": fields}
    if types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"f{next(names)}", "size": kind.byte_width}
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_timestamp(kind):
        unit = {"ms": "millis", "us": "micros"}[kind.unit]
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-{unit}"}
    return _PRIMITIVES[kind]
