"""What the postgres enumerator stores: its state, and its action. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from flip27_source.enumerators.postgres.assigner import AssignerState
from flip27_source.enumerators.postgres.publication import PublicationMarks
from flip27_source.enumerators.postgres.split import Committed, PostgresSplit
from flip27_source.enumerators.tables_with_log.enumerator import ReadingState


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresState(ReadingState):
    """The state of the enumerator.

    Attributes:
        start, log_assigned, returned, chunks_read: see ReadingState.
        system: the system identifier of the server.
        slot: None with ``snapshot=only``, which reads no log.
        planned_to: the end of the newest planned window; a state that is restored after its batch was
            completed continues there.
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
    assigner: AssignerState
    returned: tuple[PostgresSplit, ...] = ()
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
