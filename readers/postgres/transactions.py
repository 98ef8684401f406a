"""Finds the transaction of each change, and the change's place in it.

What must not live here: tables and values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.readers.postgres.message_blocks import MessageBlock
from flip27_source.readers.scalars.text_bytes import Bools, Int64s

_BEGIN, _COMMIT, _TRUNCATE = (ord(kind) for kind in "BCT")
_IS_CHANGE = np.zeros(256, np.bool_)
_IS_CHANGE[[ord(kind) for kind in "IUDT"]] = True

_EPOCH_US = 946_684_800_000_000  # 2000-01-01, from which PostgreSQL counts
_OID_AT = 1
_TRUNCATED_OIDS_AT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction whose Commit message has not been read.

    Attributes:
        changes: the number of its changes that have been read.
    """

    lsn: int
    committed_at: int
    xid: int
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedChanges:
    """The changes of a block in the order of the log; TRUNCATE is one change for each of its tables.

    Attributes:
        messages: the message of each change, as its index in the block.
        oids: the table of each change.
        lsn: the commit LSN of the transaction.
        seq: the index of the change in its transaction, from 1.
        committed_at: microseconds since 1970 UTC.
    """

    messages: Int64s
    oids: Int64s
    lsn: Int64s
    seq: Int64s
    xid: Int64s
    committed_at: Int64s

    def __len__(self) -> int:
        return len(self.messages)

    def take(self, rows: Bools | Int64s) -> PlacedChanges:
        """Some of the changes, by mask or by index."""
        return PlacedChanges(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def placed_changes(
    block: MessageBlock, opened: OpenTransaction | None
) -> tuple[PlacedChanges, OpenTransaction | None]:
    """The changes of a block, and the transaction that is open after it.

    Args:
        opened: the transaction that is open at the start of the block.
    """
    is_begin = block.kinds == _BEGIN
    begins = np.flatnonzero(is_begin)
    commits = np.flatnonzero(block.kinds == _COMMIT)
    _check_pairs(block, begins, commits, opened)
    at = block.starts[begins]
    lsn = _with_opened(block.int64_at(at + 1), opened.lsn if opened else 0)
    _check_commits(block, commits, lsn if opened else lsn[1:])
    committed_at = _with_opened(block.int64_at(at + 9) + _EPOCH_US, opened.committed_at if opened else 0)
    xid = _with_opened(block.uint32_at(at + 17), opened.xid if opened else 0)

    messages, oids, counts = _changes(block)
    before = np.cumsum(counts)[begins]  # a Begin message has no changes
    before = _with_opened(before, -opened.changes if opened else 0)
    # The number of each change's transaction; 0 is the one that is open at the start of the block.
    numbers = np.cumsum(is_begin, dtype=np.int64)[messages]
    _check_inside(block, messages, numbers, commits, opened)
    placed = PlacedChanges(
        messages=messages,
        oids=oids,
        lsn=lsn[numbers],
        seq=np.arange(1, len(messages) + 1) - before[numbers],
        xid=xid[numbers],
        committed_at=committed_at[numbers],
    )
    if (len(begins) + (opened is not None)) == len(commits):
        return placed, None
    return placed, OpenTransaction(
        lsn=int(lsn[-1]),
        committed_at=int(committed_at[-1]),
        xid=int(xid[-1]),
        changes=len(messages) - int(before[-1]),
    )


def _with_opened(values: Int64s, first: int) -> Int64s:
    return np.concatenate([np.array([first], np.int64), values])


def _changes(block: MessageBlock) -> tuple[Int64s, Int64s, Int64s]:
    """The message and the table of every change, and the number of changes of every message."""
    is_change = _IS_CHANGE[block.kinds]
    messages = np.flatnonzero(is_change)
    truncates = np.flatnonzero(block.kinds == _TRUNCATE)
    if not len(truncates):
        return messages, block.uint32_at(block.starts[messages] + _OID_AT), is_change.astype(np.int64)
    counts = is_change.astype(np.int64)
    counts[truncates] = _truncated_tables(block, truncates)
    messages = np.repeat(messages, counts[messages])
    nth = np.arange(len(messages)) - (np.cumsum(counts) - counts)[messages]
    at = np.where(block.kinds[messages] == _TRUNCATE, _TRUNCATED_OIDS_AT + 4 * nth, _OID_AT)
    return messages, block.uint32_at(block.starts[messages] + at), counts


def _truncated_tables(block: MessageBlock, truncates: Int64s) -> Int64s:
    """The number of tables of each TRUNCATE."""
    counts = block.uint32_at(block.starts[truncates] + 1)
    lengths = block.ends[truncates] - block.starts[truncates]
    wrong = lengths != _TRUNCATED_OIDS_AT + 4 * counts
    if wrong.any():
        first = int(wrong.argmax())
        what = f"{lengths[first]} bytes are not the length of a TRUNCATE of {counts[first]} tables"
        raise block.error(int(truncates[first]), what)
    return counts


def _check_pairs(
    block: MessageBlock, begins: Int64s, commits: Int64s, opened: OpenTransaction | None
) -> None:
    """Check that Begin and Commit messages alternate."""
    # Each transaction must end after its beginning, and before the next one begins.
    expected = begins if opened is None else np.concatenate([np.array([-1], np.int64), begins])
    paired = min(len(expected), len(commits))
    is_paired = (
        len(expected) - len(commits) in (0, 1)
        and bool((expected[:paired] < commits[:paired]).all())
        and bool((commits[: len(expected) - 1] < expected[1:]).all())
    )
    if is_paired:
        return
    is_open = opened is not None
    for index in sorted([*begins.tolist(), *commits.tolist()]):
        begins_here = block.kinds[index] == _BEGIN
        if begins_here and is_open:
            raise block.error(index, "a transaction begins inside another one")
        if not begins_here and not is_open:
            raise block.error(index, "a transaction ends without a beginning")
        is_open = bool(begins_here)


def _check_commits(block: MessageBlock, commits: Int64s, lsn: Int64s) -> None:
    """Check that each Commit message has the LSN of its Begin message."""
    wrong = block.int64_at(block.starts[commits] + 2) != lsn[: len(commits)]
    if wrong.any():
        first = int(wrong.argmax())
        what = (
            f"a transaction does not end at the LSN {lsn_text(int(lsn[first]))} that its Begin message names"
        )
        raise block.error(int(commits[first]), what)


def _check_inside(
    block: MessageBlock, messages: Int64s, numbers: Int64s, commits: Int64s, opened: OpenTransaction | None
) -> None:
    """Check that every change is in a transaction."""
    never = np.array([len(block.kinds)], np.int64)
    ends = commits if opened else np.concatenate([np.array([-1], np.int64), commits])
    outside = messages > np.concatenate([ends, never])[numbers]
    if outside.any():
        raise block.error(int(messages[outside.argmax()]), "a change is outside of any transaction")
