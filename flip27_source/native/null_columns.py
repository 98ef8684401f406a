"""Columns that have only nulls in Parquet files, as pandas writes an object column without values.

Parquet has a type for them, and Spark infers int. Recorded as int, the column would refuse the texts of later
files. What must not live here: Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.options import Options
from flip27_source.readers.files.input import open_file

_Path = tuple[str, ...]


def without_null_columns(
    found: pa.Schema, new: pa.Schema, files: Sequence[FileSplit], options: Options
) -> pa.Schema:
    """``found`` without columns and fields of ``new`` that have only nulls in all files.

    Args:
        found: what Spark has inferred from the files.
        options: with ``storage.*``. Footers are read until each column has a type, which mostly takes one.
    """
    untyped = {path for path, kind in _leaves(new) if pa.types.is_int32(kind)}
    nulls: set[_Path] = set()
    for file in files:
        if not untyped:
            break
        for path, kind in _leaves(_footer_of(file, options)):
            if pa.types.is_null(kind):
                nulls.add(path)
            else:
                untyped.discard(path)
    return without_void(_with_nulls(found, untyped & nulls))


def without_void(columns: pa.Schema) -> pa.Schema:
    """The columns without those that have only nulls, also in structs."""
    kinds = [(field, _without_void(field.type)) for field in columns]
    return pa.schema([field.with_type(kind) for field, kind in kinds if not pa.types.is_null(kind)])


def _without_void(kind: pa.DataType) -> pa.DataType:
    """A type without fields that have only nulls; null if nothing is left."""
    parts = [field.with_type(_without_void(field.type)) for field in _parts(kind)]
    typed = [field for field in parts if not pa.types.is_null(field.type)]
    if not parts or (typed == parts and parts == _parts(kind)):
        return kind
    is_gone = not typed if pa.types.is_struct(kind) else len(typed) < len(parts)
    return pa.null() if is_gone else _with_parts(kind, typed)


def _footer_of(file: FileSplit, options: Options) -> pa.Schema:
    try:
        with open_file(file, options) as stream:
            return pq.read_schema(stream)
    except Exception:  # noqa: BLE001 - Spark has read the footer, and its types remain
        return pa.schema([])


def _parts(kind: pa.DataType) -> list[pa.Field]:
    """The fields that a nested type consists of."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def _with_parts(kind: pa.DataType, parts: Sequence[pa.Field]) -> pa.DataType:
    types = [part.type for part in parts]
    if pa.types.is_struct(kind):
        return pa.struct(parts)
    return pa.map_(*types) if pa.types.is_map(kind) else pa.list_(*types)


def _named(kind: pa.DataType | pa.Schema) -> Iterator[tuple[str, pa.Field]]:
    """The fields of a type, with names that Spark and Parquet share."""
    fields = list(kind) if isinstance(kind, pa.Schema) else _parts(kind)
    by_name = isinstance(kind, pa.Schema) or pa.types.is_struct(kind)
    for number, field in enumerate(fields):
        yield field.name.lower() if by_name else str(number), field


def _leaves(kind: pa.DataType | pa.Schema, above: _Path = ()) -> Iterator[tuple[_Path, pa.DataType]]:
    for name, field in _named(kind):
        path = (*above, name)
        if _parts(field.type):
            yield from _leaves(field.type, path)
        else:
            yield path, field.type


def _with_nulls(columns: pa.Schema, nulls: Collection[_Path]) -> pa.Schema:
    return pa.schema(
        [field.with_type(_nulled(field.type, (name,), nulls)) for name, field in _named(columns)]
    )


def _nulled(kind: pa.DataType, path: _Path, nulls: Collection[_Path]) -> pa.DataType:
    if path in nulls:
        return pa.null()
    parts = [field.with_type(_nulled(field.type, (*path, name), nulls)) for name, field in _named(kind)]
    return _with_parts(kind, parts) if parts and parts != _parts(kind) else kind
