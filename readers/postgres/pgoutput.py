"""Decodes the log of changes: messages of PostgreSQL's pgoutput plugin to columns of texts.

Blocks of messages are decoded by columns, never message by message: `message_blocks` joins the bytes,
`transactions` places each change in its transaction, `relations` finds the description of its table,
`rows_by_table` puts the changes of a table together, and `tuples` reads the tuples. What must not live
here: connections, and the types of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.message_blocks import MessageBlock
from flip27_source.readers.postgres.relations import KnownRelations, Relation
from flip27_source.readers.postgres.rows_by_table import RowsByTable, by_table
from flip27_source.readers.postgres.transactions import OpenTransaction, PlacedChanges, placed_changes
from flip27_source.readers.postgres.tuples import Tuples, no_tuples, read_tuples
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s

_INSERT, _UPDATE, _DELETE, _KEY, _OLD, _NEW = (ord(kind) for kind in "IUDKON")
_MARKER_AT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of one table in the order of the log, all by one description of the table.

    Attributes:
        op: ``I``, ``U``, ``D`` or ``T``, as the number of the character.
        lsn: the commit LSN of the transaction.
        seq: the index of the change in its transaction, from 1, counting the changes of all tables of the
            log; TRUNCATE is one change for each of its tables.
        xid: the 32-bit id of the transaction.
        committed_at: microseconds since 1970 UTC.
        new: the row after an insert or update; nulls in rows of ``D`` and ``T``.
        old: the row, or its key, before an update or delete; nulls if the log does not contain it.
        old_kind: ``K`` if ``old`` is the key, ``O`` if it is the row, as the number of the character; else 0.
    """

    relation: Relation
    op: Bytes
    lsn: Int64s
    seq: Int64s
    xid: Int64s
    committed_at: Int64s
    new: Tuples
    old: Tuples
    old_kind: Bytes

    def __len__(self) -> int:
        return len(self.op)


class PgOutputDecoder:
    """Decodes the messages of one read of the log (``proto_version`` 1, texts), block by block.

    Only changes of transactions with ``first <= commit LSN < end`` are returned.
    """

    def __init__(self, *, first: int, end: int) -> None:
        self._first = first
        self._end = end
        self._relations = KnownRelations()
        self._opened: OpenTransaction | None = None
        self._messages = 0

    def decode(self, data: bytearray, lengths: Sequence[int], *, skip: int = 0) -> list[Changes]:
        """The changes of the next block of messages, ordered by their first change.

        Args:
            data: the messages one after the other, and owned by the decoder from now on. A block may begin
                or end within a transaction. Blocks of a few MB are fastest.
            skip: the number of bytes to ignore at the start of each message: 6 for rows of COPY in binary
                format, which are a number of fields and a length before the message.

        Raises:
            SplitReadError: a message is invalid. The decoder cannot be used after this error.
        """
        block = MessageBlock(data, lengths, first_number=self._messages + 1, skip=skip)
        self._messages += len(lengths)
        # Include transactions outside the window: the server describes a table only once in a read.
        versions = self._relations.versions(block)
        placed, self._opened = placed_changes(block, self._opened)
        inside = (placed.lsn >= self._first) & (placed.lsn < self._end)
        if not inside.all():
            placed = placed.take(inside)
        if not len(placed):
            return []
        numbers = versions.find(block, placed.oids, placed.messages)
        return _decoded(block, placed, by_table(placed.messages, versions.relations, numbers))

    def finish(self) -> None:
        """Check that the last transaction is complete; call this after the last block."""
        if self._opened is not None:
            raise SplitReadError(
                f"the log ends within a transaction, after message {self._messages} of this read",
                remedy="read the log again",
            )


def _decoded(block: MessageBlock, placed: PlacedChanges, tables: RowsByTable) -> list[Changes]:
    op = block.kinds[placed.messages]
    at = block.starts[placed.messages] + _MARKER_AT
    old, old_kind, at = _old_tuples(block, tables, op, at)
    new = _new_tuples(block, tables, op, at)
    if tables.order is not None:
        placed, op, old_kind = placed.take(tables.order), op[tables.order], old_kind[tables.order]
    return [
        Changes(
            relation=group.relation,
            op=op[group.places],
            lsn=placed.lsn[group.places],
            seq=placed.seq[group.places],
            xid=placed.xid[group.places],
            committed_at=placed.committed_at[group.places],
            new=new.of(group),
            old=old.of(group),
            old_kind=old_kind[group.places],
        )
        for group in tables.groups
    ]


def _old_tuples(
    block: MessageBlock, tables: RowsByTable, op: Bytes, at: Int64s
) -> tuple[Tuples, Bytes, Int64s]:
    """The old tuples, their kinds, and the position after the old tuple in each message."""
    markers = block.octets[at]
    is_delete = op == _DELETE
    has_old = ((op == _UPDATE) | is_delete) & ((markers == _KEY) | (markers == _OLD))
    _check(block, tables, is_delete & ~has_old, at, "a delete of {table} without an old tuple")
    if not has_old.any():
        return no_tuples(tables), np.zeros(len(op), np.uint8), at
    columns, at = _tuples(block, tables, has_old, at)
    trailing = is_delete & (at != block.ends[tables.messages])
    _check(block, tables, trailing, at, "bytes follow the tuple of a delete of {table}")
    return columns, np.where(has_old, markers, 0).astype(np.uint8), at


def _new_tuples(block: MessageBlock, tables: RowsByTable, op: Bytes, at: Int64s) -> Tuples:
    has_new = (op == _INSERT) | (op == _UPDATE)
    if not has_new.any():
        return no_tuples(tables)
    ends = block.ends[tables.messages]
    missing = has_new & ((at >= ends) | (block.octets[at] != _NEW))
    _check(block, tables, missing, at, "a change of {table} without a new tuple")
    columns, at = _tuples(block, tables, has_new, at)
    _check(block, tables, has_new & (at != ends), at, "bytes follow the new tuple of a change of {table}")
    return columns


def _tuples(block: MessageBlock, tables: RowsByTable, has_tuple: Bools, at: Int64s) -> tuple[Tuples, Int64s]:
    """The tuples whose markers are at ``at``, and the positions after them (without a tuple, ``at``)."""
    rows = np.flatnonzero(has_tuple)
    columns, behind = read_tuples(block, tables, rows, at[rows] + 1)
    at = at.copy()
    at[rows] = behind
    return columns, at


def _check(block: MessageBlock, tables: RowsByTable, wrong: Bools, at: Int64s, what: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        what = what.format(table=tables.relation(row))
        raise block.error(int(tables.messages[row]), what, at=int(at[row]))
