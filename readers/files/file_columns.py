"""Columns with the same value in all rows of a file: partition columns of its path, and ``_metadata``.

Partition values come from directories named ``key=value`` below the base path, for columns of the schema
with that name. The schema gives their types, as in Spark. What must not live here: the content of files.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import types

from flip27_source.enumerators.files.split import FileSplit
from flip27_source.errors import SchemaError, SplitReadError
from flip27_source.file_systems.paths import local_path, with_percents
from flip27_source.options import Options, ReadingOption, boolean
from flip27_source.reader import SourceReaderContext
from flip27_source.readers.files.base_paths import BasePaths, unescaped
from flip27_source.schemas.ddl import columns_text
from flip27_source.schemas.new_columns import MOST_DIGITS, NoCommonTypeError, wider
from flip27_source.source_options import TIME_ZONE
from flip27_source.values.times import datetime_or_none

INCLUDE_METADATA = ReadingOption(
    name="includeMetadata",
    parse=boolean,
    doc="Fill the column _metadata of the schema with data about each row's file: file_path, file_name, "
    "file_size, "
    "file_block_start, file_block_length, file_modification_time, as in Spark.",
)
METADATA = "_metadata"
METADATA_TYPE = pa.struct(
    [
        pa.field("file_path", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("file_block_start", pa.int64()),
        pa.field("file_block_length", pa.int64()),
        pa.field("file_modification_time", pa.timestamp("us", "UTC")),
    ]
)
_METADATA_DDL = columns_text(pa.schema([pa.field(METADATA, METADATA_TYPE)]))
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?")
_NOT_IN_URIS = re.compile(r'[\x01-\x20"#%<>?\[\\\]^`{|}\x7f-\x9f\s]')
"""Java encodes these in URIs: some ASCII, control characters, and blanks of every alphabet."""


def with_metadata(schema: pa.Schema, options: Options) -> pa.Schema:
    """A default schema, with ``_metadata`` if includeMetadata is true."""
    return schema.append(pa.field(METADATA, METADATA_TYPE)) if options[INCLUDE_METADATA] else schema


@dataclass(frozen=True, slots=True)
class Constants:
    """The columns of ``schema`` with the same value in all rows of some files; ``names`` lists them."""

    schema: pa.Schema
    values: dict[str, pa.Scalar]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in schema order."""
        return tuple(name for name in self.schema.names if name in self.values)

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch``, which has the other columns, with these columns added."""
        arrays = [
            pa.repeat(self.values[name], batch.num_rows) if name in self.values else batch.column(name)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class FileColumns:
    """Finds the constant columns of each file and their values."""

    def __init__(self, context: SourceReaderContext) -> None:
        self._schema = context.schema
        self._options = context.options
        self._zone = context.options.get(TIME_ZONE.name) or context.time_zone
        self._fields = {field.name.lower(): field for field in context.schema if field.name != METADATA}
        self._has_metadata = context.options[INCLUDE_METADATA]
        if self._has_metadata:
            _check_metadata(context.schema)
        self._bases: BasePaths | None = None

    def groups(self, splits: Sequence[FileSplit]) -> Iterator[tuple[Constants, Sequence[FileSplit]]]:
        """``splits`` in order; adjacent splits with the same constants form a group."""
        looks_at_paths = any("=" in split.path for split in splits)
        if not self._has_metadata and not looks_at_paths:
            yield Constants(self._schema, {}), splits
            return
        for (folder, described), group in groupby(splits, self._key):
            of_group = list(group)
            values = self._values(of_group[0], folder) if looks_at_paths else {}
            if described is not None:
                values[METADATA] = pa.scalar(_metadata(described), self._schema.field(METADATA).type)
            yield Constants(self._schema, values), of_group

    def _key(self, split: FileSplit) -> tuple[str, FileSplit | None]:
        return split.path.rpartition("/")[0], split if self._has_metadata else None

    def _values(self, split: FileSplit, folder: str) -> dict[str, pa.Scalar]:
        values: dict[str, pa.Scalar] = {}
        if self._bases is None:
            self._bases = BasePaths.of(self._options)
        for key, raw in [] if self._bases is None else self._bases.partitions_of(folder):
            field = self._fields.get(key.lower())
            if field is None:
                continue
            if field.name in values:
                raise SplitReadError(
                    f"{split.path}: two directory names contain a value of the partition column {field.name}",
                    remedy="set basePath to the directory that contains the partitions",
                )
            values[field.name] = _partition_value(raw, field, self._zone, split.path)
        return values


def constants_of(schema: pa.Schema, options: Options) -> Callable[[FileSplit], Mapping[tuple[str, ...], Any]]:
    """A function that returns the constant columns of a file as Python values, as for ``KnowsConstants``.

    Timestamps in names of directories are left out, because only an executor knows the session's time zone,
    and so are invalid names, which the reader reports.
    """
    columns = FileColumns(SourceReaderContext(options=options, schema=schema))

    def constants(split: FileSplit) -> Mapping[tuple[str, ...], Any]:
        try:
            ((of_file, _),) = columns.groups([split])
        except (SplitReadError, SchemaError):
            return {}
        values: dict[tuple[str, ...], Any] = {}
        for name, value in of_file.values.items():
            if name == METADATA:
                values |= {(name, inner): known for inner, known in value.as_py().items()}
            elif not types.is_timestamp(value.type):
                values[(name,)] = value.as_py()
        return values

    return constants


def partitions_in(folders: Iterable[str], options: Options) -> dict[str, list[str]]:
    """The partition columns in the names of directories, in order, with all their values."""
    columns: dict[str, dict[str, None]] = {}
    spelled: dict[str, str] = {}
    bases = BasePaths.of(options)
    if bases is None:
        return {}
    for folder in folders:
        for key, raw in bases.partitions_of(folder):
            columns.setdefault(spelled.setdefault(key.lower(), key), {})[unescaped(raw)] = None
    return {column: list(values) for column, values in columns.items()}


def with_partitions(schema: pa.Schema, folders: Sequence[str], options: Options) -> pa.Schema:
    """``schema`` with partition columns at its end, of the types that Spark infers; one that it already has
    stays in its place.
    """
    columns: dict[str, pa.Field] = {}
    for name, values in partitions_in(folders, options).items():
        common = reduce(_wider_of_partitions, map(_type_of, values), pa.null())
        columns[name.lower()] = pa.field(name, pa.string() if types.is_null(common) else common)
    fields = [columns.pop(field.name.lower(), field) for field in schema]
    return pa.schema([*fields, *columns.values()])


def _type_of(value: str) -> pa.DataType:
    # Imported here, as in ``_typed``.
    from flip27_source.readers.scalars.texts import decimal_type_of, is_double, is_whole

    if value == HIVE_NULL:
        return pa.null()
    for kind in (pa.int32(), pa.int64()):
        if is_whole(value, kind):
            return kind
    decimal = decimal_type_of(value, most_zeros=MOST_DIGITS)
    if decimal is not None:
        return decimal
    if is_double(value):
        return pa.float64()
    for pattern, kind in ((_TIMESTAMP, pa.timestamp("us", "UTC")), (_DATE, pa.date32())):
        if pattern.fullmatch(value) and _is_moment(value):
            return kind
    return pa.string()


def _is_moment(value: str) -> bool:
    try:
        dt.datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _wider_of_partitions(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    pair = {one, other}
    if pair == {pa.date32(), pa.timestamp("us", "UTC")}:
        return pa.timestamp("us", "UTC")
    try:
        return wider(one, other)
    except NoCommonTypeError:
        return pa.string()


def partition_values(path: str, bases: BasePaths | None) -> dict[str, str | None]:
    """The partition columns of one file as text, in order; empty without base paths."""
    if bases is None or "=" not in path:
        return {}
    pairs = bases.partitions_of(path.rpartition("/")[0])
    return {key: None if raw == HIVE_NULL else unescaped(raw) for key, raw in pairs}


def _partition_value(raw: str, field: pa.Field, zone: str, path: str) -> pa.Scalar:
    if raw == HIVE_NULL:
        if not field.nullable:
            raise SchemaError(
                f"{path}: the partition column {field.name} is null for this file, but NOT NULL in the "
                "schema",
                remedy="remove NOT NULL from the schema",
            )
        return pa.scalar(None, field.type)
    value = _typed(unescaped(raw), field, zone)
    if not raw or not value.is_valid:
        raise SplitReadError(
            f"{path}: the directory name contains {raw!r}, which is not a valid {field.type} for the column "
            f"{field.name}",
            remedy="give the column a type that can represent the value, such as string, or rename the "
            "directory",
        )
    return value


def _typed(value: str, field: pa.Field, zone: str) -> pa.Scalar:
    # Imported here: the coordinator's process reads no values, and the import is slow.
    from flip27_source.readers.scalars.texts import converter, exact_decimal

    [typed] = converter(field, zone)(pa.array([value], pa.string()))
    if types.is_decimal(field.type) and typed.is_valid and typed.as_py() != exact_decimal(value):
        # A decimal that the type would round is invalid, because another directory may have that value.
        return pa.scalar(None, field.type)
    return typed


def _check_metadata(schema: pa.Schema) -> None:
    at = schema.get_field_index(METADATA)
    if at < 0:
        raise SchemaError(
            f"option includeMetadata is true, but the schema has no column {METADATA}",
            remedy=f"add the column to the schema, with some or all of its fields: {_METADATA_DDL}",
        )
    kind = schema.field(at).type
    fields: Iterable[pa.Field] = kind if types.is_struct(kind) else [pa.field(str(kind), kind)]
    for field in fields:
        known = METADATA_TYPE.get_field_index(field.name)
        if known < 0 or METADATA_TYPE.field(known).type != field.type:
            raise SchemaError(
                f"the column {METADATA} has no field {field.name} of type {field.type}",
                remedy=f"declare the column with some or all of its fields: {_METADATA_DDL}",
            )


def _metadata(split: FileSplit) -> dict[str, Any]:
    local = local_path(split.path)
    name = split.path if local is None else f"file:{local}"
    path = with_percents(_NOT_IN_URIS.sub(lambda match: quote(match[0]), name))
    return {
        "file_path": path,
        "file_name": path.rpartition("/")[2],
        "file_size": split.length,
        "file_block_start": split.start,
        "file_block_length": split.known_end - split.start,
        # Spark shows milliseconds, the precision of Java's file systems.
        "file_modification_time": datetime_or_none(split.modified_us // 1000),
    }
