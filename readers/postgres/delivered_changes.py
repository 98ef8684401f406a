"""Finds the changes to deliver: those that no chunk contains. A change of a key is a delete and an insert.

Rows of a chunk have the same form, with an operation of their own. Pure. Other modules make rows of these
changes, with typed columns or JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_source.enumerators.postgres.chunk_transactions import widened
from flip27_source.enumerators.postgres.connection import START_AGAIN
from flip27_source.enumerators.postgres.split import TableName, TableRules
from flip27_source.errors import SplitReadError
from flip27_source.readers.changes.rows import Op, differ, split_moves, taken, without
from flip27_source.readers.postgres.pgoutput import Changes
from flip27_source.readers.postgres.relations import Relation, RelationColumn
from flip27_source.readers.scalars.text_bytes import Bools, Bytes, Int64s
from flip27_source.snapshot_then_log import delivery

_INSERT, _UPDATE, _DELETE = (ord(kind) for kind in "IUD")
_FULL, _KEY = ord("O"), ord("K")

RankKeys = Callable[[TableRules, Sequence[pa.Array]], Int64s]
"""Returns the number of the range of each key; keys are given as the texts of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredChanges:
    """Changes of one table, in the order of the log; or rows of a chunk.

    Attributes:
        op: c, u, d or t, as the number of the character; r in all rows of a chunk.
        xid: the id of the transaction with its epoch; without a meaning in rows of a chunk.
        committed_at: microseconds since 1970 UTC; without a meaning in rows of a chunk.
        after: for each column, the texts of the rows after the changes; nulls for d and t.
        before: for each column, the texts of the rows before the changes; nulls where the log has no text.
        has_before: true where the log has a row before the change. An insert has one if an update gave the
            row another key.
        unchanged: for each column, true where its value did not change and is not in the log; None if all
            values are known.
    """

    relation: Relation
    op: Bytes
    lsn: Int64s
    seq: Int64s
    xid: Int64s
    committed_at: Int64s
    after: list[pa.Array]
    before: list[pa.Array]
    has_before: Bools
    unchanged: list[Bools | None]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def is_chunk(self) -> bool:
        return len(self.op) > 0 and bool(self.op[0] == Op.READ)

    def take(self, rows: Int64s) -> DeliveredChanges:
        return taken(self, rows)


def rows_of_chunk(
    table: TableName, texts: Mapping[str, pa.Array], *, rows: int, lsn: int
) -> DeliveredChanges:
    """Rows that were read from a table.

    Args:
        texts: the values of the columns that were read, in the order of the table.
        lsn: the position of the log that the rows precede.
    """
    columns = [RelationColumn(name=name, type_oid=0, type_modifier=-1, is_key=False) for name in texts]
    zeros = np.zeros(rows, np.int64)
    return DeliveredChanges(
        relation=Relation(
            oid=table.oid, schema=table.schema, name=table.name, replica_identity="n", columns=tuple(columns)
        ),
        op=np.full(rows, Op.READ, np.uint8),
        lsn=np.full(rows, lsn, np.int64),
        seq=zeros,
        xid=zeros,
        committed_at=zeros,
        after=list(texts.values()),
        before=[pa.nulls(rows, pa.binary())] * len(columns),
        has_before=np.zeros(rows, np.bool_),
        unchanged=[None] * len(columns),
    )


def delivered_changes(changes: Changes, *, key: Sequence[int], xid_near: int) -> DeliveredChanges:
    """The changes, with each update of a key as a delete of the old row and an insert of the new one.

    Args:
        key: the indexes of the key's columns; empty if the table has no key.
        xid_near: the 64-bit id of a recent transaction, which determines the epochs of the others.

    Raises:
        SplitReadError: the log has no former key of a row.
    """
    _check_old_keys(changes, key)
    unchanged = list(changes.new.unchanged)
    after = list(changes.new.texts)
    for column, mask in enumerate(unchanged):
        if mask is None:
            continue
        # A large key that did not change is in the log as the old key.
        is_old = changes.old_kind == _FULL
        if changes.relation.columns[column].is_key:
            is_old |= changes.old_kind == _KEY
        # The old row of a partition has only its key, though its table has REPLICA IDENTITY FULL, if that of
        # the partition is another. A value that is not in the log is large, and so never null.
        is_filled = mask & is_old & np.asarray(changes.old.texts[column].is_valid())
        if is_filled.any():
            after[column] = pc.if_else(pa.array(is_filled), changes.old.texts[column], after[column])
            unchanged[column] = mask & ~is_filled
    op = np.select(
        [changes.op == _INSERT, changes.op == _UPDATE, changes.op == _DELETE],
        [Op.CREATE, Op.UPDATE, Op.DELETE],
        Op.TRUNCATE,
    ).astype(np.uint8)
    delivered = DeliveredChanges(
        relation=changes.relation,
        op=op,
        lsn=changes.lsn,
        seq=changes.seq,
        xid=widened(changes.xid, xid_near),
        committed_at=changes.committed_at,
        after=after,
        before=list(changes.old.texts),
        has_before=changes.old_kind != 0,
        unchanged=unchanged,
    )
    moved = _moved(delivered, key)
    return delivered if moved is None else _split(delivered, moved)


def _check_old_keys(changes: Changes, key: Sequence[int]) -> None:
    """Refuse old keys without a value: a partition had another replica identity than its table."""
    is_key = changes.old_kind == _KEY
    for column in key if is_key.any() else ():
        if (is_key & np.asarray(changes.old.texts[column].is_null())).any():
            raise SplitReadError(
                f"the log identifies a former row of table {changes.relation} without the column "
                f"{changes.relation.columns[column].name} of its key: a partition had another identity",
                remedy=START_AGAIN,
            )


def are_delivered(changes: DeliveredChanges, rules: TableRules, key: Sequence[int], rank: RankKeys) -> Bools:
    """True for the changes to deliver: those that the snapshot of their row's chunk does not see.

    A TRUNCATE is delivered if the snapshot of any chunk does not see it.
    """

    def ranges_of(open_rows: Int64s) -> Int64s:
        _check_key(changes, rules, key, open_rows)
        return rank(rules, [_key_texts(changes, column).take(pa.array(open_rows)) for column in key])

    return delivery.are_delivered(_seen(rules, changes.xid), changes.op == Op.TRUNCATE, ranges_of)


def _check_key(changes: DeliveredChanges, rules: TableRules, key: Sequence[int], open_rows: Int64s) -> None:
    """Refuse changes of rows whose chunk is not known: the log names old rows by another key."""
    relation, columns = changes.relation, [column.name for column in rules.key]
    listed = [column.name for column in relation.columns if column.is_key]
    is_other = relation.replica_identity not in "fn" and set(listed) != set(columns)
    has_old = np.isin(changes.op[open_rows], (Op.UPDATE, Op.DELETE)).any()
    if len(key) < len(columns) or (is_other and has_old):
        raise SplitReadError(
            f"the log identifies the rows of table {relation} by {', '.join(listed)}, and the chunks of its "
            f"snapshot are cut by {', '.join(columns)}: the key was altered before the snapshot was complete",
            remedy=START_AGAIN,
        )


def is_truncated_between(changes: DeliveredChanges, rules: TableRules) -> bool:
    """True if some TRUNCATE is seen by the snapshots of some chunks, but not by those of others."""
    truncates = changes.xid[changes.op == Op.TRUNCATE]
    if not len(truncates) or len(rules.rules) == 1:
        return False
    return delivery.is_emptied_between(_seen(rules, truncates))


def _seen(rules: TableRules, xids: Int64s) -> list[Bools]:
    """For each rule, the transactions that its chunk has seen; a chunk that is not read yet will see all."""
    return [~rule.delivered(xids) for rule in rules.rules]


def _key_texts(changes: DeliveredChanges, column: int) -> pa.Array:
    """A column of the key of each changed row: of the old row for a delete, otherwise of the new row."""
    return pc.if_else(pa.array(changes.op == Op.DELETE), changes.before[column], changes.after[column])


def _moved(changes: DeliveredChanges, key: Sequence[int]) -> Bools | None:
    """True where an update gives a row another key; None if there is no such update."""
    candidates = (changes.op == Op.UPDATE) & changes.has_before
    if not key or not candidates.any():
        return None
    moved = np.zeros(len(changes), dtype=np.bool_)
    for column in key:
        is_other = differ(changes.before[column], changes.after[column])
        mask = changes.unchanged[column]
        moved |= is_other if mask is None else is_other & ~mask
    moved &= candidates
    return moved if moved.any() else None


def _split(changes: DeliveredChanges, moved: Bools) -> DeliveredChanges:
    """The changes, with each update in ``moved`` replaced by a delete and an insert."""
    split, deletes, _ = split_moves(changes, moved)
    return replace(
        split,
        after=[without(texts, deletes) for texts in split.after],
        unchanged=[None if mask is None else mask & ~deletes for mask in split.unchanged],
    )
