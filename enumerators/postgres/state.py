"""What the postgres enumerator stores: its state, and the action that is due after a window. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_source.enumerators.postgres.assigner import AssignerState
from flip27_source.enumerators.postgres.split import PostgresSplit
from flip27_source.enumerators.postgres.table_losses import PublicationEntries


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
        committed_at: when the last change that was read was committed, in microseconds since 1970 UTC.
        exported: the exported snapshot of a batch read.
        published: the entries of the publication when it was last checked.
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
    published: PublicationEntries | None = None
    timeline: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceSlot:
    """The action that releases the log that was read."""

    slot: str
    lsn: int
