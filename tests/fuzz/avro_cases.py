"""Random files of Avro. Spark's reader is in another package: the rows must be those that were written."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import types

from .arrow_cases import rows_written
from .case import Case, TableFile
from .csv_cases import files_of_a_case, random_cuts
from .tables import Flat, random_column, random_types, wanted_columns

_FLAT: tuple[Flat, ...] = (
    (pa.bool_(), "boolean"), (pa.int32(), "int"), (pa.int64(), "bigint"), (pa.float32(), "float"),
    (pa.float64(), "double"), (pa.string(), "string"), (pa.binary(), "binary"), (pa.binary(4), "binary"),
    (pa.date32(), "date"), (pa.timestamp("us", "UTC"), "timestamp"), (pa.timestamp("ms", "UTC"), "timestamp"),
    (pa.timestamp("us"), "timestamp_ntz"), (pa.decimal128(9, 2), "decimal(9,2)"),
    (pa.decimal128(38, 10), "decimal(38,10)"),
)  # fmt: skip
_PRIMITIVES = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string", pa.binary(): "bytes",
}  # fmt: skip
_SETTINGS: Mapping[str, tuple[Any, ...]] = {
    "codec": ("deflate", "bzip2", "xz"),
    "sync_interval": (1, 30, 100),
    "null_last": (True,),
}


def avro_case(rng: random.Random, name: str) -> Case:
    """Make a random case."""
    kinds = {f"c{number}": random_types(rng, _FLAT, 2) for number in range(rng.choice((1, 2, 3, 5, 8)))}
    files = tuple(_file(rng, number, kinds) for number in range(files_of_a_case(rng)))
    columns = wanted_columns(rng, {column: kind for column, (_, kind) in kinds.items()}, others=())
    return Case(
        format="avro", name=name, files=files, columns=columns, cuts=random_cuts(rng), truth=rows_written,
        zone=rng.choice(("UTC", "UTC", "Europe/Berlin")),
    )  # fmt: skip


def _file(rng: random.Random, number: int, kinds: Mapping[str, Flat]) -> TableFile:
    rows = rng.choice((0, 1, 1, 2, 5, 12, 30))
    names = list(kinds)
    if rng.random() < 0.15:
        rng.shuffle(names)
    if rng.random() < 0.1 and len(names) > 1:
        names.pop()
    table = pa.table({name: random_column(rng, kinds[name][0], rows, old=True) for name in names})
    chosen = rng.sample(sorted(_SETTINGS), rng.choice((0, 1, 2)))
    settings = {setting: rng.choice(_SETTINGS[setting]) for setting in chosen}
    return TableFile(path=f"f{number}.avro", rows=table, write=_written, settings=settings)


def _written(table: pa.Table, settings: Mapping[str, Any]) -> bytes:
    names = iter(range(10_000))
    fields = [
        {"name": field.name, "type": _avro_type(field.type, names, bool(settings.get("null_last")))}
        for field in table.schema
    ]
    columns = [[_plain(value, field.type) for value in _values(table, field)] for field in table.schema]
    records = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    sink = io.BytesIO()
    fastavro.writer(
        sink, fastavro.parse_schema({"type": "record", "name": "row", "fields": fields}), records,
        codec=settings.get("codec", "null"), sync_interval=settings.get("sync_interval", 16000),
        sync_marker=b"flip27-fuzz-sync",
    )  # fmt: skip
    return sink.getvalue()


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


def _avro_type(kind: pa.DataType, names: Any, null_last: bool) -> Any:
    found = _not_null(kind, names, null_last)
    return [found, "null"] if null_last else ["null", found]


def _not_null(kind: pa.DataType, names: Any, null_last: bool) -> Any:
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
