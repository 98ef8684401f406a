"""SchemaStorage: inferred schemas, recorded in the state location for the next start.

They are stored by uid next to the lineages, because a schema is needed before there is a checkpoint. A
version is created once and never replaced; the highest version counts. Two concurrent starts agree on the
first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from ..errors import CorruptStateError, IncompatibleStateError, MissingStateError, SchemaError
from ..file_systems.paths import canonical_path
from ..log import LOG
from ..options import Options
from ..snapshots import file_names
from ..snapshots.sealed import decode_sealed, seal
from ..snapshots.store import Store
from ..source_options import UID
from .ddl import columns_text, parse_columns, type_name
from .new_columns import evolved

FORMATS = (2, 1)
"""The format that is written, and older ones that are read: format 1 has no owner."""


_REMEDY = "restore the file from a backup of the state location, or give the schema"


class SchemaOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The source that a recorded schema belongs to.

    Attributes:
        data: the options that say which data it reads, without secrets; None if the user has named the source
            with ``uid``, which may then move to other data.
    """

    enumerator: str
    reader: str
    data: dict[str, list[str]] | None = None

    def differences(self, other: SchemaOwner) -> list[str]:
        """What ``other`` has instead, one text for each difference.

        Lists, such as tables, are different if nothing is in both; path and paths are one list.
        """
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in ("enumerator", "reader")}
        if self.data is not None and other.data is not None:
            before, after = _with_one_path(self.data), _with_one_path(other.data)
            for name in sorted(before.keys() | after.keys()):
                was, now = before.get(name, []), after.get(name, [])
                if set(was).isdisjoint(now):
                    pairs[name] = ", ".join(was) or None, ", ".join(now) or None
        return [f"{name} was {was!r}, is {now!r}" for name, (was, now) in pairs.items() if was != now]


def _with_one_path(data: Mapping[str, list[str]]) -> dict[str, list[str]]:
    paths = [*data.get("path", ()), *data.get("paths", ())]
    others = {name: values for name, values in data.items() if name not in ("path", "paths")}
    return others | ({"path": sorted({canonical_path(path) for path in paths})} if paths else {})


def data_of(options: Options) -> dict[str, list[str]] | None:
    """The ``data`` of the owner that has these options."""
    return None if options.get(UID.name) is not None else options.data_values()


class StoredColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    type: str
    not_null: bool = False


class StoredSchema(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    uid: str
    version: int
    columns: list[StoredColumn]
    owner: SchemaOwner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSchema:
    """A schema and its version, from 1 on."""

    version: int
    schema: pa.Schema


class SchemaStorage:
    """The recorded schemas of one source."""

    def __init__(self, store: Store, uid: str, owner: SchemaOwner | None = None) -> None:
        """``owner``: the source, if schemas of other sources are refused."""
        self._store = store
        self._uid = uid
        self._owner = owner

    def newest(self) -> RecordedSchema | None:
        """The schema with the highest version; None if none is recorded.

        Raises:
            CorruptStateError, IncompatibleStateError: the recorded schema cannot be read, or belongs to
                another source.
        """
        names = self._store.list(file_names.schema_folder(self._uid))
        versions = [version for name in names if (version := file_names.parse_number(name)) is not None]
        return self._read(max(versions)) if versions else None

    def record(self, schema: pa.Schema, *, after: RecordedSchema | None = None) -> RecordedSchema:
        """Record a schema as the version after ``after``; return that version, maybe from another writer.

        Raises:
            SchemaError: Spark does not have the type of a column.
        """
        check_types(schema, "a schema cannot be recorded", "give a schema of the types of Spark")
        version = 1 if after is None else after.version + 1
        stored = StoredSchema(
            format=FORMATS[0],
            uid=self._uid,
            version=version,
            columns=[StoredColumn(field.name, type_name(field.type), not field.nullable) for field in schema],
            owner=self._owner,
        )
        self._store.create(file_names.schema_file(self._uid, version), seal("schema", stored), exclusive=True)
        recorded = self._read(version)
        columns = columns_text(recorded.schema)
        LOG.info("schema of source %s, recorded as version %d: %s", self._uid, version, columns)
        return recorded

    def add(self, new: pa.Schema, *, widens: bool = False) -> RecordedSchema:
        """Record the newest schema with the columns of ``new`` that it lacks; return it, changed or not.

        Several writers may add different columns at once; each adds its own.
        """
        while True:
            recorded = self.newest()
            wider = new if recorded is None else evolved(recorded.schema, new, widens=widens)
            if recorded is not None and wider == recorded.schema:
                return recorded
            self.record(wider, after=recorded)  # if another writer was first, the loop repeats

    def _read(self, version: int) -> RecordedSchema:
        file = file_names.schema_file(self._uid, version)
        try:
            data = self._store.read(file)
        except MissingStateError as error:
            raise _unreadable(file, error) from error
        what = f"the recorded schema {file}"
        stored = decode_sealed(data, "schema", StoredSchema, what=what, formats=FORMATS, remedy=_REMEDY)
        if stored.uid != self._uid:
            raise IncompatibleStateError(
                f"the recorded schema {file} belongs to source {stored.uid!r}, not to {self._uid!r}",
                remedy="give only one of the two sources another uid that differs in letters or digits",
            )
        changed = stored.owner.differences(self._owner) if stored.owner and self._owner else None
        if changed:
            raise IncompatibleStateError(
                f"the recorded schema {file} belongs to another source: {'; '.join(changed)}",
                remedy="set uid to another name for each source with this stateLocation; a source that has "
                f"moved to other data keeps its schema with uid={self._uid}; to change the reader, give the "
                "schema",
            )
        fields = [
            pa.field(column.name, _type(file, column), nullable=not column.not_null)
            for column in stored.columns
        ]
        return RecordedSchema(version=version, schema=pa.schema(fields))


def check_types(schema: pa.Schema, what: str, remedy: str) -> None:
    """Check that Spark has the type of every column.

    Raises:
        SchemaError: it does not; the error begins with ``what``.
    """
    for field in schema:
        try:
            type_name(field.type)
        except ValueError as error:
            raise SchemaError(f"{what}: column {field.name}: {error}", remedy=remedy) from None


def _type(file: str, column: StoredColumn) -> pa.DataType:
    try:
        return parse_columns(f"c {column.type}").field(0).type
    except ValueError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> CorruptStateError:
    return CorruptStateError(f"the recorded schema {file} cannot be read: {error}", remedy=_REMEDY)
