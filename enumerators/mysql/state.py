"""What the mysql enumerator stores: its state with the unread chunks. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from flip27_source.enumerators.mysql.split import MysqlSplit, TableChunk, TableName
from flip27_source.snapshot_then_log.tables import TableProgress, TablesState

Progress = TableProgress[TableName, str]
Tables = TablesState[TableName, Progress]


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlState:
    """The state of the enumerator.

    Attributes:
        server: the identity of the server.
        log: the name of the log's files, without their numbers; None with ``snapshot=only``.
        start: where the first transaction begins that was not read in a complete batch.
        gtid: the id of the last transaction before ``start``; None if it is not known.
        log_assigned: whether the log was assigned: its position is then in its split.
        returned: chunks that were added back.
        chunks_read: the number of chunks that were read since the first start.
    """

    server: str
    log: str | None
    start: int
    tables: Tables
    gtid: str | None = None
    log_assigned: bool = False
    returned: tuple[MysqlSplit, ...] = ()
    chunks_read: int = 0


def chunk_split(progress: Progress, number: int, barrier: int) -> MysqlSplit:
    """The split of a chunk, to be read in a snapshot that has everything before the barrier."""
    lower, upper = progress.range_of(number)
    return MysqlSplit(
        split_id=progress.split_id(number),
        chunk=TableChunk(table=progress.table, key=progress.key, lower=lower, upper=upper, barrier=barrier),
        rows=progress.rows[number],
    )


def held_chunks(state: MysqlState) -> list[MysqlSplit]:
    """The unread chunks whose bounds are known, assigned or not."""
    return [
        chunk_split(progress, number, progress.assigned.get(progress.split_id(number), state.start))
        for progress in state.tables.tables
        for number in progress.missing
    ]


def without_chunks(state: MysqlState, split_ids: Collection[str]) -> MysqlState:
    """The state in which these chunks count as read and empty."""
    tables = tuple(progress.without(split_ids) for progress in state.tables.tables)
    returned = tuple(split for split in state.returned if split.split_id not in split_ids)
    return replace(state, tables=replace(state.tables, tables=tables), returned=returned)
