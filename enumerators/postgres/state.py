"""What the postgres enumerator stores: its state with the unread chunks, and its action. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from flip27_source.enumerators.postgres.assigner import AssignerState, Horizon, chunk_split
from flip27_source.enumerators.postgres.publication import PublicationMarks
from flip27_source.enumerators.postgres.split import Committed, PostgresSplit

_NO_HORIZON = Horizon(lsn=0, xid=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresState:
    """The state of the enumerator.

    Attributes:
        system: the system identifier of the server.
        slot: None with ``snapshot=only``, which reads no log.
        start: position up to which the log was read in complete batches.
        planned_to: the end of the newest planned window; a state that is restored after its batch was
            completed continues there.
        log_assigned: whether the log was assigned: its position is then in its split.
        returned: chunks that were added back.
        chunks_read: the number of chunks that were read since the first start.
        chunks_to: by the number of a timeline, a position after the snapshots of the chunks read on it.
        committed_at: when the last change that was read was committed, in microseconds since 1970 UTC.
        last_change: the last transaction with changes before ``start``; None if it is not known.
        exported: the exported snapshot of a batch read.
        published: the marks of the publication when it was last checked.
        query: an id of this query, created at its first start.
        timeline: the number of the server's timeline, which grows when a standby is promoted; 0 in a state of
            an older release.
    """

    system: str
    slot: str | None
    publication: str | None
    start: int
    assigner: AssignerState
    log_assigned: bool = False
    returned: tuple[PostgresSplit, ...] = ()
    chunks_read: int = 0
    committed_at: int | None = None
    exported: str | None = None
    query: str = ""
    planned_to: int = 0
    published: PublicationMarks | None = None
    timeline: int = 0
    chunks_to: dict[str, int] = field(default_factory=dict)
    last_change: Committed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceSlot:
    """The action that releases the log that was read.

    Attributes:
        last: the last transaction with changes before ``lsn``; None if it is not known.
    """

    slot: str
    lsn: int
    last: Committed | None = None


def held_chunks(state: PostgresState) -> list[PostgresSplit]:
    """The unread chunks whose bounds are known, assigned or not."""
    settled = state.assigner.settled or _NO_HORIZON
    return [
        chunk_split(progress, number, settled)
        for progress in state.assigner.tables
        for number in progress.missing
    ]


def without_chunks(state: PostgresState, split_ids: Collection[str]) -> PostgresState:
    """The state in which these chunks count as read and empty.

    Every change of their rows is delivered from the current position in the log on.
    """
    tables = tuple(progress.without(split_ids) for progress in state.assigner.tables)
    assigner: AssignerState = replace(state.assigner, tables=tables)
    returned = tuple(split for split in state.returned if split.split_id not in split_ids)
    return replace(state, assigner=assigner, returned=returned)
