"""Decoded changes as rows, and the same rows from a simple decoder that reads message by message."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flip27_source.readers.postgres.pgoutput import Changes, PgOutputDecoder
from flip27_source.readers.postgres.relations import Relation, RelationColumn
from flip27_source.readers.postgres.tuples import Tuples
from tests.readers.postgres.pgoutput_messages import UNCHANGED, YEAR_2000_US, Value

EVERYTHING = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A change; ``new`` and ``old`` are None if there is no tuple."""

    relation: Relation
    op: str
    lsn: int
    seq: int
    new: tuple[Value, ...] | None = None
    old: tuple[Value, ...] | None = None
    old_kind: str = ""
    xid: int = 700
    committed_at: int = YEAR_2000_US


def decode(decoder: PgOutputDecoder, messages: Sequence[bytes], *, skip: int = 0) -> list[Changes]:
    """Decode the messages as one block."""
    return decoder.decode(bytearray(b"".join(messages)), [len(message) for message in messages], skip=skip)


def decoded(*blocks: Sequence[bytes], first: int = 0, end: int = EVERYTHING, skip: int = 0) -> list[Row]:
    """Decode the blocks; return the rows in the order of the log."""
    decoder = PgOutputDecoder(first=first, end=end)
    rows: list[Row] = []
    for block in blocks:
        rows += sorted(rows_of(decode(decoder, block, skip=skip)), key=lambda row: (row.lsn, row.seq))
    return rows


def rows_of(found: Iterable[Changes]) -> list[Row]:
    """The rows of all elements, one element after the other."""
    rows = []
    for changes in found:
        rows += _rows(changes)
    return rows


def _rows(changes: Changes) -> list[Row]:
    total = len(changes)
    new, old = (_values(tuples, total) for tuples in (changes.new, changes.old))
    rows = []
    for row in range(total):
        op, kind = chr(changes.op[row]), int(changes.old_kind[row])
        if op in "DT":
            assert set(new[row]) <= {None}
        if not kind:
            assert set(old[row]) <= {None}
        rows.append(
            Row(
                relation=changes.relation,
                op=op,
                lsn=int(changes.lsn[row]),
                seq=int(changes.seq[row]),
                new=new[row] if op in "IU" else None,
                old=old[row] if kind else None,
                old_kind=chr(kind) if kind else "",
                xid=int(changes.xid[row]),
                committed_at=int(changes.committed_at[row]),
            )
        )
    return rows


def _values(tuples: Tuples, total: int) -> list[tuple[Value, ...]]:
    columns: list[list[Value]] = []
    for texts, unchanged in zip(tuples.texts, tuples.unchanged, strict=True):
        texts.validate(full=True)
        values = texts.to_pylist()
        assert len(values) == total
        for row, is_unchanged in enumerate([] if unchanged is None else unchanged):
            if is_unchanged:
                assert values[row] is None
                values[row] = UNCHANGED
        columns.append(values)
    return [tuple(column[row] for column in columns) for row in range(total)]


def read_one_by_one(messages: Iterable[bytes], first: int = 0, end: int = EVERYTHING) -> list[Row]:
    """The rows, read message by message without the decoder under test."""
    relations: dict[int, Relation] = {}
    rows: list[Row] = []
    lsn = at = xid = before = 0
    for message in messages:
        kind, reading = chr(message[0]), Reading(message)
        if kind == "B":
            lsn, at, xid = (reading.take(form) for form in (">Q", ">q", ">I"))
            before = 0
        elif kind == "R":
            table = reading.relation()
            relations[table.oid] = table
        elif kind in "IUDT":
            changes = reading.changes(kind)
            rows += [
                Row(
                    relation=relations[change.oid],
                    op=kind,
                    lsn=lsn,
                    seq=seq,
                    new=change.new,
                    old=change.old,
                    old_kind=change.old_kind,
                    xid=xid,
                    committed_at=at + YEAR_2000_US,
                )
                for seq, change in enumerate(changes, before + 1)
                if first <= lsn < end
            ]
            before += len(changes)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleChange:
    """A change of a table as its message has it; ``old_kind`` is K, O, or empty."""

    oid: int
    new: tuple[Value, ...] | None = None
    old: tuple[Value, ...] | None = None
    old_kind: str = ""


class Reading:
    """Reads the parts of a message one after another, from behind its kind on."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 1

    def changes(self, kind: str) -> list[TupleChange]:
        """Read the rest of an I, U, D or T; a TRUNCATE has a change of each of its tables."""
        if kind == "T":
            count, _options = self.take(">I"), self.take(">B")
            return [TupleChange(oid=self.take(">I")) for _ in range(count)]
        oid, marker = self.take(">I"), self.character()
        old, old_kind = None, ""
        if marker in "KO":
            old, old_kind = self.tuple_of_values(), marker
            if kind == "D":
                return [TupleChange(oid=oid, old=old, old_kind=old_kind)]
            marker = self.character()
        assert marker == "N"
        return [TupleChange(oid=oid, new=self.tuple_of_values(), old=old, old_kind=old_kind)]

    def take(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._message, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def character(self) -> str:
        return chr(self.take(">B"))

    def text(self) -> str:
        end = self._message.index(b"\0", self._at)
        text = self._message[self._at : end].decode()
        self._at = end + 1
        return text

    def relation(self) -> Relation:
        oid, schema, name = self.take(">I"), self.text(), self.text()
        identity, count = self.character(), self.take(">H")
        columns = tuple(self._column() for _ in range(count))
        return Relation(oid=oid, schema=schema, name=name, replica_identity=identity, columns=columns)

    def _column(self) -> RelationColumn:
        flags, name = self.take(">B"), self.text()
        return RelationColumn(
            name=name, type_oid=self.take(">I"), type_modifier=self.take(">i"), is_key=bool(flags & 1)
        )

    def tuple_of_values(self) -> tuple[Value, ...]:
        return tuple(self._value() for _ in range(self.take(">H")))

    def _value(self) -> Value:
        kind = self.character()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        assert kind == "t"
        length = self.take(">I")
        self._at += length
        return self._message[self._at - length : self._at]
