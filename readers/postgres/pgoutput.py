"""Decodes the log of changes: messages of PostgreSQL's pgoutput plugin to columns of texts.

Blocks of messages are decoded by columns, never message by message: `message_blocks` joins the bytes,
`transactions` places each change in its transaction, `relations` finds the description of its table, and
`tuples` reads the tuples. What must not live here: connections, and the types of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from flip27_source.errors import SplitReadError
from flip27_source.readers.postgres.message_blocks import (
    MOST_BYTES,
    Bools,
    Bytes,
    Int64s,
    MessageBlock,
    blocks_of,
)
from flip27_source.readers.postgres.relations import KnownRelations, Relation
from flip27_source.readers.postgres.transactions import OpenTransaction, PlacedChanges, placed_changes
from flip27_source.readers.postgres.tuples import TupleRows, Tuples, no_tuples, read_tuples

_INSERT, _UPDATE, _DELETE, _KEY, _OLD, _NEW = (ord(kind) for kind in "IUDKON")
_MARKER_AT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of one table in the order of the log, all by one description of the table.

    Attributes:
        op: ``I``, ``U``, ``D`` or ``T``, as the number of the character.
        lsn: the commit LSN of the transaction.
        seq: the index of the change in its transaction, from 1, among all tables of the log; TRUNCATE is one
            change for each of its tables.
        xid: the transaction, with 32 bits.
        committed_at: microseconds since 1970 UTC.
        new: the row behind an insert or update; nulls in rows of ``D`` and ``T``.
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

    Only transactions with ``first <= commit LSN < end`` give rows.
    """

    def __init__(self, *, first: int, end: int, most_bytes: int = MOST_BYTES) -> None:
        self._first = first
        self._end = end
        self._most_bytes = most_bytes
        self._relations = KnownRelations()
        self._opened: OpenTransaction | None = None
        self._messages = 0

    def decode(self, messages: Sequence[bytes], *, skip: int = 0) -> list[Changes]:
        """The changes of the next block of messages, ordered by their first change.

        Args:
            messages: any number of messages, also of parts of transactions.
            skip: the number of bytes to ignore at the start of each message: 6 for rows of COPY in binary
                format, which are a number of fields and a length before the message.

        Raises:
            SplitReadError: a message is invalid. The decoder cannot be used further.
        """
        found: list[Changes] = []
        for block in blocks_of(
            messages, first_number=self._messages + 1, skip=skip, most_bytes=self._most_bytes
        ):
            found += self._changes(block)
        self._messages += len(messages)
        return found

    def finish(self) -> None:
        """Check that the last transaction is complete; to be called behind the last block.

        Raises:
            SplitReadError: the log ends within a transaction.
        """
        if self._opened is not None:
            raise SplitReadError(
                f"the log ends within a transaction, after message {self._messages} of this read",
                remedy="read the log again",
            )

    def _changes(self, block: MessageBlock) -> Iterator[Changes]:
        # Also for transactions outside of the window: each table is described once in a read.
        versions = self._relations.versions(block)
        placed, self._opened = placed_changes(block, self._opened)
        inside = (placed.lsn >= self._first) & (placed.lsn < self._end)
        if not inside.all():
            placed = placed.take(inside)
        found = versions.find(block, placed.oids, placed.messages)
        for rows in _groups(found):
            relation = versions.relations[found[rows[0]]]
            yield _decoded(block, relation, placed if len(rows) == len(placed) else placed.take(rows))


def _groups(numbers: Int64s) -> list[Int64s]:
    """The indexes of equal numbers, ordered by the first index of each group."""
    if not len(numbers):
        return []
    if (numbers == numbers[0]).all():
        return [np.arange(len(numbers))]
    order = np.argsort(numbers, kind="stable")
    borders = np.flatnonzero(np.diff(numbers[order])) + 1
    return sorted(np.split(order, borders), key=lambda rows: int(rows[0]))


def _decoded(block: MessageBlock, relation: Relation, placed: PlacedChanges) -> Changes:
    op = block.kinds[placed.messages]
    at = block.starts[placed.messages] + _MARKER_AT
    old, old_kind, at = _old_tuples(block, relation, placed.messages, op, at)
    return Changes(
        relation=relation,
        op=op,
        lsn=placed.lsn,
        seq=placed.seq,
        xid=placed.xid,
        committed_at=placed.committed_at,
        new=_new_tuples(block, relation, placed.messages, op, at),
        old=old,
        old_kind=old_kind,
    )


def _old_tuples(
    block: MessageBlock, relation: Relation, messages: Int64s, op: Bytes, at: Int64s
) -> tuple[Tuples, Bytes, Int64s]:
    """The old tuples, their kinds, and the position behind the old tuple in each message."""
    markers = block.octets[at]
    is_delete = op == _DELETE
    has_old = ((op == _UPDATE) | is_delete) & ((markers == _KEY) | (markers == _OLD))
    _check(block, messages, is_delete & ~has_old, at, f"a delete of {relation} without an old tuple")
    if not has_old.any():
        return no_tuples(relation, len(op)), np.zeros(len(op), np.uint8), at
    tuples, after = _tuples(block, relation, messages, has_old, at)
    at = at.copy()
    at[has_old] = after
    trailing = is_delete & (at != block.ends[messages])
    _check(block, messages, trailing, at, f"bytes follow the tuple of a delete of {relation}")
    return tuples, np.where(has_old, markers, 0).astype(np.uint8), at


def _new_tuples(block: MessageBlock, relation: Relation, messages: Int64s, op: Bytes, at: Int64s) -> Tuples:
    has_new = (op == _INSERT) | (op == _UPDATE)
    if not has_new.any():
        return no_tuples(relation, len(op))
    ends = block.ends[messages]
    missing = has_new & ((at >= ends) | (block.octets[at] != _NEW))
    _check(block, messages, missing, at, f"a change of {relation} without a new tuple")
    tuples, after = _tuples(block, relation, messages, has_new, at)
    at = at.copy()
    at[has_new] = after
    trailing = has_new & (at != ends)
    _check(block, messages, trailing, at, f"bytes follow the new tuple of a change of {relation}")
    return tuples


def _tuples(
    block: MessageBlock, relation: Relation, messages: Int64s, mask: Bools, at: Int64s
) -> tuple[Tuples, Int64s]:
    """The tuples of the changes in the mask, whose markers are at ``at``, and the position behind each."""
    rows = None if mask.all() else np.flatnonzero(mask)
    chosen = slice(None) if rows is None else rows
    where = TupleRows(total=len(mask), rows=rows, messages=messages[chosen], starts=at[chosen] + 1)
    return read_tuples(block, relation, where)


def _check(block: MessageBlock, messages: Int64s, wrong: Bools, at: Int64s, what: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise block.error(int(messages[row]), what, at=int(at[row]))
