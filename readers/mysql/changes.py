"""The changes to deliver: those that no chunk has. A change of a key is a delete and an insert. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql.split import TableName, TableRules
from flip27_source.readers.mysql.log import DELETE, INSERT, UPDATE, Emptied, TableRows, Transaction
from flip27_source.readers.mysql.row_images import PADDING, Values, find_images
from flip27_source.readers.mysql.values import Charsets, array_of
from flip27_source.readers.scalars.text_bytes import Bools, Int64s
from flip27_source.snapshot_then_log import delivery

READ, TRUNCATE = "r", "t"
_OPS = (INSERT, UPDATE, DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of one table in the order of the log; or rows of a chunk.

    Attributes:
        op: c, u, d or t; r in all rows of a chunk.
        pos: where the transaction of each change begins; of a chunk, the position of its snapshot.
        seq: grows with the changes of a transaction.
        transactions: the index of each change's transaction in ``known``; unused in rows of a chunk.
        after, before: the rows by their columns; nulls where a change has no such row.
    """

    table: TableName
    key: tuple[str, ...]
    op: pa.Array
    pos: Int64s
    seq: Int64s
    transactions: Int64s
    known: Sequence[Transaction]
    after: dict[str, pa.Array]
    before: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.op)

    def take(self, rows: Int64s) -> Changes:
        places = pa.array(rows)
        return replace(
            self,
            op=self.op.take(places),
            pos=self.pos[rows],
            seq=self.seq[rows],
            transactions=self.transactions[rows],
            after={name: values.take(places) for name, values in self.after.items()},
            before={name: values.take(places) for name, values in self.before.items()},
        )

    def is_op(self, op: str) -> Bools:
        return np.asarray(pc.equal(self.op, op))


def changes_of(rows: TableRows, charsets: Charsets, wanted: Sequence[str] | None) -> Changes:
    """The changes in these events, each update of a key as a delete and an insert.

    Args:
        wanted: the names of the columns that are needed; None for all.
    """
    table = rows.table
    sizes = np.array([len(event.images) for event in rows.events])
    ends = np.cumsum(sizes)
    data = np.frombuffer(b"".join([*(event.images for event in rows.events), PADDING]), np.uint8)
    images = find_images(data, ends - sizes, ends, table.columns)
    ops = np.array([_OPS.index(event.op) for event in rows.events], np.int64)[images.events]
    is_update = ops == _OPS.index(UPDATE)
    # The images of an update are a pair: the row before and the row after.
    of_change = np.flatnonzero(~is_update | (images.numbers % 2 == 0))
    op, events = ops[of_change], images.events[of_change]
    has_before, has_after = op != _OPS.index(INSERT), op != _OPS.index(DELETE)
    after_at = of_change + is_update[of_change]
    known = list(dict.fromkeys(event.transaction for event in rows.events))
    numbers = {transaction: number for number, transaction in enumerate(known)}
    names = [column.name for column in table.columns]
    after: dict[str, pa.Array] = {}
    before: dict[str, pa.Array] = {}
    for name, column, values in zip(names, table.columns, images.columns, strict=True):
        if wanted is None or name in wanted or name in table.key_names:
            after[name] = array_of(column, _some(values, after_at, has_after), data, charsets)
            before[name] = array_of(column, _some(values, of_change, has_before), data, charsets)
    changes = Changes(
        table=table.table,
        key=table.key_names,
        op=pa.array(_OPS).take(pa.array(op)),
        pos=np.array([event.transaction.position for event in rows.events], np.int64)[events],
        seq=np.array([event.seq for event in rows.events], np.int64)[events] + images.numbers[of_change],
        transactions=np.array([numbers[event.transaction] for event in rows.events], np.int64)[events],
        known=known,
        after=after,
        before=before,
    )
    return _with_moves(changes)


def _some(values: Values, rows: Int64s, has: Bools) -> Values:
    found = values.take(rows)
    return replace(found, nulls=found.nulls | ~has)


def _with_moves(changes: Changes) -> Changes:
    """The changes, with each update of a key replaced by a delete and an insert."""
    updates = changes.is_op(UPDATE)
    if not changes.key or not updates.any():
        return changes
    moved = np.zeros(len(changes), np.bool_)
    for name in changes.key:
        differs = pc.not_equal(changes.before[name], changes.after[name])
        moved |= pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
    moved &= updates
    if not moved.any():
        return changes
    rows = np.repeat(np.arange(len(changes)), np.where(moved, 2, 1))
    split = changes.take(rows)
    is_moved = moved[rows]
    is_first = np.append(True, rows[1:] != rows[:-1])
    deletes, inserts = is_moved & is_first, is_moved & ~is_first
    op = pc.if_else(pa.array(deletes), DELETE, pc.if_else(pa.array(inserts), INSERT, split.op))

    def without(arrays: dict[str, pa.Array], rows: Bools) -> dict[str, pa.Array]:
        mask = pa.array(rows)
        return {name: pc.if_else(mask, pa.scalar(None, one.type), one) for name, one in arrays.items()}

    return replace(split, op=op, after=without(split.after, deletes), before=without(split.before, inserts))


def emptying(event: Emptied, columns: dict[str, pa.DataType]) -> Changes:
    """A TRUNCATE as a change without rows."""
    nulls = {name: pa.nulls(1, type) for name, type in columns.items()}
    return Changes(
        table=event.table,
        key=(),
        op=pa.array([TRUNCATE]),
        pos=np.array([event.transaction.position]),
        seq=np.array([event.seq]),
        transactions=np.zeros(1, np.int64),
        known=[event.transaction],
        after=nulls,
        before=nulls,
    )


def rows_of_chunk(
    table: TableName, key: tuple[str, ...], columns: dict[str, pa.Array], *, rows: int, position: int
) -> Changes:
    """Rows that were read from a table in a snapshot at this position."""
    return Changes(
        table=table,
        key=key,
        op=pa.array([READ] * rows, pa.string()),
        pos=np.full(rows, position, np.int64),
        seq=np.zeros(rows, np.int64),
        transactions=np.zeros(rows, np.int64),
        known=(),
        after=columns,
        before={name: pa.nulls(rows, values.type) for name, values in columns.items()},
    )


def delivered(changes: Changes, rules: TableRules) -> Changes:
    """The changes that the snapshots of their rows' chunks do not have."""
    are = delivery.are_delivered(
        _has(changes, rules), changes.is_op(TRUNCATE), lambda rows: _ranges(changes, rules, rows)
    )
    return changes if are.all() else changes.take(np.flatnonzero(are))


def is_emptied_between(changes: Changes, rules: TableRules) -> bool:
    """Whether some chunks of the table have a TRUNCATE among the changes, and others do not."""
    empties = changes.is_op(TRUNCATE)
    return bool(empties.any()) and delivery.is_emptied_between([one[empties] for one in _has(changes, rules)])


def _has(changes: Changes, rules: TableRules) -> list[Bools]:
    return [
        np.ones(len(changes), np.bool_) if mark is None else changes.pos < int(mark) for mark in rules.marks
    ]


def _ranges(changes: Changes, rules: TableRules, rows: Int64s) -> Int64s:
    bounds = [tuple(int(value) for value in bound) for bound in rules.bounds]
    some = changes.take(rows)
    is_delete = pa.array(some.is_op(DELETE))
    columns = [pc.if_else(is_delete, some.before[name], some.after[name]).to_pylist() for name in rules.key]
    return np.array(
        [bisect_right(bounds, tuple(map(int, key))) for key in zip(*columns, strict=True)], np.int64
    )
