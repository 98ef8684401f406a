"""The messages that a slot delivers, for tests of the server itself."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

UNCHANGED = "<unchanged>"
"""Stands for a large value that an update did not change, which the log does not contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One data message.

    Attributes:
        old: the values of the key (``old_kind`` "K") or of the whole old row ("O"); None if there are none.
    """

    op: str
    tables: tuple[str, ...]
    new: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    old_kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The messages from Begin to Commit.

    Attributes:
        final_lsn: position of the commit record, from Begin.
        commit_lsn: the same position, from Commit.
        end_lsn: the position after the commit record.
    """

    xid: int
    final_lsn: int
    commit_lsn: int
    end_lsn: int
    changes: list[Change] = field(default_factory=list)


def lsn(text: str) -> int:
    """Return a position such as ``16/B374D848`` as a number."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def text(number: int) -> str:
    """Return a position as PostgreSQL writes it."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def messages(
    connection: psycopg.Connection, slot: str, upto: int | None = None, publication: str = "p"
) -> list[bytes]:
    """Return the messages of a peek, which does not advance the slot."""
    found = connection.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s, NULL,"
        " 'proto_version', '1', 'publication_names', %s)",
        [slot, None if upto is None else text(upto), publication],
    )
    return [data for (data,) in found]


def peek(
    connection: psycopg.Connection, slot: str, upto: int | None = None, publication: str = "p"
) -> list[Transaction]:
    """Return the transactions of a peek."""
    return list(transactions(messages(connection, slot, upto, publication)))


def transactions(found: list[bytes]) -> Iterator[Transaction]:
    """Group the messages into transactions; each must be complete."""
    relations: dict[int, tuple[str, list[str]]] = {}
    begin: tuple[int, int] | None = None
    changes: list[Change] = []
    for message in found:
        kind = chr(message[0])
        if kind == "B":
            assert begin is None, "a transaction begins inside another one"
            final_lsn, _committed_at, xid = struct.unpack_from("!qqI", message, 1)
            begin, changes = (final_lsn, xid), []
        elif kind == "C":
            assert begin is not None, "a transaction ends without a beginning"
            commit_lsn, end_lsn = struct.unpack_from("!qq", message, 2)
            yield Transaction(
                final_lsn=begin[0], xid=begin[1], commit_lsn=commit_lsn, end_lsn=end_lsn, changes=changes
            )
            begin = None
        elif kind == "R":
            relation = _Reader(message, 1).relation()
            relations[relation[0]] = relation[1:]
        elif kind in "IUDT":
            assert begin is not None, "a change is outside of a transaction"
            changes.append(_change(kind, _Reader(message, 1), relations))
    assert begin is None, "the last transaction has no end"


def _change(kind: str, reader: _Reader, relations: dict[int, tuple[str, list[str]]]) -> Change:
    if kind == "T":
        count, _options = reader.take("!IB")
        names = [relations[reader.take("!I")[0]][0] for _ in range(count)]
        return Change(op="T", tables=tuple(names))
    (oid,) = reader.take("!I")
    table, columns = relations[oid]
    new = old = old_kind = None
    while not reader.at_end:
        part = chr(reader.take("!B")[0])
        values = reader.values(columns)
        if part == "N":
            new = values
        else:
            old, old_kind = values, part
    return Change(op=kind, tables=(table,), new=new, old=old, old_kind=old_kind)


class _Reader:
    def __init__(self, message: bytes, at: int) -> None:
        self._message = message
        self._at = at

    @property
    def at_end(self) -> bool:
        return self._at == len(self._message)

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._message, self._at)
        self._at += struct.calcsize(form)
        return values

    def name(self) -> str:
        end = self._message.index(b"\0", self._at)
        name = self._message[self._at : end].decode()
        self._at = end + 1
        return name

    def relation(self) -> tuple[int, str, list[str]]:
        (oid,) = self.take("!I")
        schema, table = self.name(), self.name()
        _identity, count = self.take("!BH")
        columns = []
        for _ in range(count):
            self.take("!B")
            columns.append(self.name())
            self.take("!Ii")
        return oid, f"{schema}.{table}", columns

    def values(self, columns: list[str]) -> dict[str, Any]:
        (count,) = self.take("!H")
        assert count == len(columns)
        return {column: self._value() for column in columns}

    def _value(self) -> str | None:
        kind = chr(self.take("!B")[0])
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        (length,) = self.take("!I")
        value = self._message[self._at : self._at + length].decode()
        self._at += length
        return value
