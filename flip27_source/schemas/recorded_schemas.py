"""SchemaStorage: inferred schemas, recorded in the state location for the next start.

They are stored by uid next to the lineages, because a schema is needed before there is a checkpoint. A
version is created once and never replaced; the highest version counts. Two concurrent starts agree on the
first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError
from ..snapshots import file_names
from ..snapshots.sealed import decode_sealed, seal
from ..snapshots.store import Store
from .ddl import parse_columns, type_name

FORMAT = 1

_REMEDY = "restore the file from a backup of the state location, or give the schema"


class StoredColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    type: str
    not_null: bool = False


class StoredSchema(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    uid: str
    version: int
    columns: list[StoredColumn]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSchema:
    """A schema and its version, from 1 on."""

    version: int
    schema: pa.Schema


class SchemaStorage:
    """The recorded schemas of one source."""

    def __init__(self, store: Store, uid: str) -> None:
        self._store = store
        self._uid = uid

    def newest(self) -> RecordedSchema | None:
        """The schema with the highest version; None if none is recorded.

        Raises:
            CorruptStateError, IncompatibleStateError: the recorded schema cannot be read.
        """
        names = self._store.list(file_names.schema_folder(self._uid))
        versions = [version for name in names if (version := file_names.parse_schema(name)) is not None]
        return self._read(max(versions)) if versions else None

    def record(self, schema: pa.Schema, *, after: RecordedSchema | None = None) -> RecordedSchema:
        """Record a schema as the version after ``after``; return that version, maybe from another writer."""
        version = 1 if after is None else after.version + 1
        stored = StoredSchema(
            format=FORMAT,
            uid=self._uid,
            version=version,
            columns=[StoredColumn(field.name, type_name(field.type), not field.nullable) for field in schema],
        )
        self._store.create(file_names.schema_file(self._uid, version), seal("schema", stored), exclusive=True)
        return self._read(version)

    def _read(self, version: int) -> RecordedSchema:
        file = file_names.schema_file(self._uid, version)
        try:
            stored = _decoded(file, self._store.read(file))
        except MissingStateError as error:
            raise _unreadable(file, error) from error
        if stored.uid != self._uid:
            raise IncompatibleStateError(
                f"the recorded schema {file} belongs to source {stored.uid!r}, not to {self._uid!r}",
                remedy="give only one of the two sources another uid that differs in letters or digits",
            )
        fields = [
            pa.field(column.name, _type(file, column), nullable=not column.not_null)
            for column in stored.columns
        ]
        return RecordedSchema(version=version, schema=pa.schema(fields))


def _decoded(file: str, data: bytes) -> StoredSchema:
    what = f"the recorded schema {file}"
    return decode_sealed(data, "schema", StoredSchema, what=what, format_=FORMAT, remedy=_REMEDY)


def _type(file: str, column: StoredColumn) -> pa.DataType:
    try:
        return parse_columns(f"c {column.type}").field(0).type
    except ValueError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> CorruptStateError:
    return CorruptStateError(f"the recorded schema {file} cannot be read: {error}", remedy=_REMEDY)
