"""Messages of pgoutput (protocol version 1) as a server would send them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from flip27_source.readers.postgres.relations import Relation, RelationColumn

YEAR_2000_US = 946_684_800_000_000


class Unchanged:
    """A TOAST value that did not change."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()

Value = bytes | None | Unchanged


def relation(
    name: str = "orders",
    columns: Sequence[str] = ("id", "name"),
    *,
    oid: int = 16_400,
    schema: str = "public",
    identity: str = "d",
    keys: Sequence[str] = ("id",),
) -> Relation:
    """A table whose columns are texts."""
    return Relation(
        oid=oid,
        schema=schema,
        name=name,
        replica_identity=identity,
        columns=tuple(
            RelationColumn(name=column, type_oid=25, type_modifier=-1, is_key=column in keys)
            for column in columns
        ),
    )


def begin(lsn: int, *, at_us: int = YEAR_2000_US, xid: int = 700) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, at_us - YEAR_2000_US, xid)


def commit(lsn: int, *, at_us: int = YEAR_2000_US) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, lsn, lsn + 48, at_us - YEAR_2000_US)


def described(table: Relation) -> bytes:
    parts = [b"R", struct.pack(">I", table.oid), _text(table.schema), _text(table.name)]
    parts.append(struct.pack(">cH", table.replica_identity.encode(), len(table.columns)))
    for column in table.columns:
        parts += [bytes([column.is_key]), _text(column.name)]
        parts.append(struct.pack(">Ii", column.type_oid, column.type_modifier))
    return b"".join(parts)


def type_named(oid: int, name: str) -> bytes:
    return b"Y" + struct.pack(">I", oid) + _text("public") + _text(name)


def origin(name: str) -> bytes:
    return b"O" + struct.pack(">Q", 7) + _text(name)


def logical_message(prefix: str, content: bytes) -> bytes:
    return b"M" + struct.pack(">BQ", 1, 7) + _text(prefix) + struct.pack(">I", len(content)) + content


def insert(table: Relation | int, *values: Value) -> bytes:
    return b"I" + _oid(table) + b"N" + tuple_of(values)


def update(
    table: Relation | int,
    *values: Value,
    key: Sequence[Value] | None = None,
    old: Sequence[Value] | None = None,
) -> bytes:
    before = b"" if key is None else b"K" + tuple_of(key)
    before = before if old is None else b"O" + tuple_of(old)
    return b"U" + _oid(table) + before + b"N" + tuple_of(values)


def delete(
    table: Relation | int, *, key: Sequence[Value] | None = None, old: Sequence[Value] | None = None
) -> bytes:
    return b"D" + _oid(table) + (b"O" + tuple_of(old) if key is None else b"K" + tuple_of(key))  # type: ignore[arg-type]


def truncate(*tables: Relation | int) -> bytes:
    return b"T" + struct.pack(">IB", len(tables), 0) + b"".join(map(_oid, tables))


def tuple_of(values: Sequence[Value]) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, Unchanged):
            parts.append(b"u")
        else:
            parts += [b"t", struct.pack(">I", len(value)), value]
    return b"".join(parts)


def _oid(table: Relation | int) -> bytes:
    return struct.pack(">I", table if isinstance(table, int) else table.oid)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"
