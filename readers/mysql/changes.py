"""The changes to deliver: those that no chunk has. A change of a key is a delete and an insert. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.mysql.errors import AlteredKeyError
from flip27_source.enumerators.mysql.split import TableName, TableRules
from flip27_source.readers.changes.rows import Op, differ, placed, split_moves, taken, without
from flip27_source.readers.mysql.charsets import Charsets
from flip27_source.readers.mysql.log import OPS, Emptied, TableRows, Transaction
from flip27_source.readers.mysql.row_images import find_images
from flip27_source.readers.mysql.values import array_of
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s
from flip27_source.snapshot_then_log import delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of one table in the order of the log; or rows of a chunk.

    Attributes:
        key: the columns of the primary key.
        op: c, u, d or t, as the number of the letter; r in all rows of a chunk.
        pos: where the transaction of each change begins; of a chunk, the position of its snapshot.
        seq: grows with the changes of a transaction.
        numbers: for each change, the index of its transaction in ``transactions``; unused in rows of a chunk.
        after, before: the rows by their columns; nulls where a change has no such row.
    """

    table: TableName
    key: tuple[str, ...] = ()
    op: Bytes
    pos: Int64s
    seq: Int64s
    numbers: Int64s
    transactions: Sequence[Transaction] = ()
    after: Mapping[str, pa.Array]
    before: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def has_before(self) -> Bools:
        return np.isin(self.op, (Op.UPDATE, Op.DELETE))

    def take(self, rows: Int64s) -> Changes:
        return taken(self, rows)

    def key_columns(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """These columns of the changed rows: of the old row for a delete, otherwise of the new row."""
        is_delete = pa.array(self.op == Op.DELETE)
        return {name: pc.if_else(is_delete, self.before[name], self.after[name]) for name in names}


def changes_of(rows: TableRows, charsets: Charsets, wanted: Sequence[str] | None) -> Changes:
    """The changes in these events, each update of a key as a delete and an insert.

    Args:
        wanted: the names of the columns that are needed; None for all.
    """
    table, part = rows.table, rows.part
    data, starts, stops = rows.images()
    image_events, image_numbers, columns = find_images(data, starts, stops, table.columns)
    ops = OPS[part.block.kinds[rows.events]][image_events]
    # The images of an update are a pair: the row before and the row after.
    is_after = (ops == Op.CREATE) | ((ops == Op.UPDATE) & (image_numbers % 2 == 1))
    first = np.flatnonzero(~is_after | (ops == Op.CREATE))
    op, events = ops[first], np.array(rows.events)[image_events[first]]
    numbers = np.searchsorted(part.begins, events, "right")
    pos = np.array([one.position for one in part.transactions])[numbers]
    after, before = {}, {}
    for column, values in zip(table.columns, columns, strict=True):
        if column.name and (wanted is None or column.name in wanted or column.name in table.key):
            new = array_of(column, values.where(is_after), data, charsets)
            old = array_of(column, values.where(~is_after), data, charsets)
            after[column.name] = placed(new, op != Op.DELETE)
            before[column.name] = placed(old, op != Op.CREATE)
    changes = Changes(
        table=table.table,
        key=table.key,
        op=op,
        pos=pos,
        # It grows by more than an event has rows: to less than a 1,032nd of them, zlib cannot compress it.
        seq=(part.block.positions[events] - pos << 11) + image_numbers[first],
        numbers=numbers,
        transactions=part.transactions,
        after=after,
        before=before,
    )
    return _with_moves(changes)


def _with_moves(changes: Changes) -> Changes:
    """The changes, with each update of a key replaced by a delete and an insert."""
    moved = np.zeros(len(changes), np.bool_)
    for name in changes.key if (changes.op == Op.UPDATE).any() else ():
        # A date that no calendar has is null.
        moved |= differ(changes.before[name], changes.after[name])
    moved &= changes.op == Op.UPDATE
    if not moved.any():
        return changes
    split, deletes, inserts = split_moves(changes, moved)
    return replace(
        split,
        after={name: without(values, deletes) for name, values in split.after.items()},
        before={name: without(values, inserts) for name, values in split.before.items()},
    )


def emptying(event: Emptied, columns: Mapping[str, pa.DataType]) -> Changes:
    """A TRUNCATE as a change without rows."""
    nulls = {name: pa.nulls(1, type) for name, type in columns.items()}
    one = rows_of_chunk(event.table, (), nulls, rows=1, position=event.transaction.position)
    op, seq = np.array([Op.TRUNCATE], np.uint8), np.array([event.seq])
    return replace(one, op=op, seq=seq, transactions=[event.transaction])


def rows_of_chunk(
    table: TableName, key: tuple[str, ...], columns: Mapping[str, pa.Array], *, rows: int, position: int
) -> Changes:
    """Rows that were read from a table in a snapshot at this position."""
    zeros = np.zeros(rows, np.int64)
    return Changes(
        table=table,
        key=key,
        op=np.full(rows, Op.READ, np.uint8),
        pos=zeros + position,
        seq=zeros,
        numbers=zeros,
        after=columns,
        before={name: pa.nulls(rows, values.type) for name, values in columns.items()},
    )


def delivered(changes: Changes, rules: TableRules, cut_by: Sequence[str]) -> Changes:
    """The changes that the snapshots of their rows' chunks do not have.

    Args:
        cut_by: the columns by which the table would be cut now.
    """

    def ranges_of(rows: Int64s) -> Int64s:
        if cut_by[: len(rules.key)] != rules.key:
            raise AlteredKeyError(changes.table, rules.key)
        bounds = [tuple(map(int, bound)) for bound in rules.bounds]
        columns = changes.take(rows).key_columns(rules.key).values()
        keys = zip(*(column.to_pylist() for column in columns), strict=True)
        return np.array([bisect_right(bounds, tuple(map(int, key))) for key in keys], np.int64)

    are = delivery.are_delivered(_has(changes, rules), changes.op == Op.TRUNCATE, ranges_of)
    return changes if are.all() else changes.take(np.flatnonzero(are))


def is_emptied_between(changes: Changes, rules: TableRules) -> bool:
    """Whether some chunks of the table have a TRUNCATE among the changes, and others do not."""
    empties = changes.op == Op.TRUNCATE
    return bool(empties.any()) and delivery.is_emptied_between([one[empties] for one in _has(changes, rules)])


def _has(changes: Changes, rules: TableRules) -> list[Bools]:
    return [
        np.ones(len(changes), np.bool_) if mark is None else changes.pos < int(mark) for mark in rules.marks
    ]
