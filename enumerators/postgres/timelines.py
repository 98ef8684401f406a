"""Whether a server that was promoted, or recovered to a point in time, has the log that a query has read.

Each promotion begins a timeline: the log of the new server is the same as that of the old one up to a
position, and differs from there on. Changes that a query has read after this position never happened on the
new server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flip27_source.enumerators.postgres.connection import (
    ONLY_START_AGAIN,
    Connection,
    checked,
    connect,
    row_of,
)
from flip27_source.enumerators.postgres.split import lsn_text, parse_lsn
from flip27_source.errors import DataLossError
from flip27_source.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A timeline of a server.

    Attributes:
        system: the system identifier, which a standby shares with its primary.
        number: 0 if it is not known.
    """

    system: str
    number: int


def timeline_of(connection: Connection) -> Timeline:
    """The timeline that the server writes now."""
    system, log_file = row_of(
        connection,
        "SELECT system_identifier::text, pg_walfile_name(pg_current_wal_insert_lsn()) "
        "FROM pg_control_system()",
    )
    return Timeline(system=system, number=int(log_file[:8], 16))


def is_upgraded(connection: Connection, oids: Sequence[int], xid: int = 0) -> bool:
    """Whether a server with another system identifier is the one that was read before, after pg_upgrade.

    pg_upgrade moves only slots that have sent the whole log, and keeps the numbers of tables and
    transactions: another server into which tables were copied has others.

    Args:
        oids: those of known tables.
        xid: the id of a transaction that the server had begun.
    """
    present, next_xid = row_of(
        connection,
        "SELECT (SELECT count(*) FROM pg_class WHERE oid = ANY(%s::bigint[]::oid[]))::int, "
        "pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        [list(oids)],
    )
    return bool((present or not oids) and next_xid >= xid)


def check_timeline(options: Options, *, known: Timeline, present: Timeline, position: int) -> None:
    """Check that the timeline ``known`` was left at ``position`` or later.

    Timelines of another system are not comparable: after pg_upgrade they begin with 1 again.

    Raises:
        DataLossError: it was left before ``position``. No option disables this check: the slot begins
            elsewhere.
    """
    if known.number in (0, present.number) or known.system != present.system:
        return
    left_at = left_timeline_at(_history(options, present.number), known.number)
    if left_at is None:
        raise DataLossError(
            f"the server writes timeline {present.number}, and this query has read timeline {known.number}, "
            "which is not in the server's history: the server was restored from a backup",
            remedy=ONLY_START_AGAIN,
        )
    if left_at < position:
        raise DataLossError(
            f"the server has left timeline {known.number} at {lsn_text(left_at)}, and this query has read "
            f"up to {lsn_text(position)}: the server was restored from a backup, or is a standby that had "
            "not received everything",
            remedy=ONLY_START_AGAIN,
        )


def left_timeline_at(history: str, timeline: int) -> int | None:
    """The position at which a server left a timeline, by the server's history; None if it was never on it.

    Args:
        history: lines of a timeline's number, the position of its end, and a reason.
    """
    for line in history.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) >= 2 and fields[0] == str(timeline):
            return parse_lsn(fields[1])
    return None


def _history(options: Options, timeline: int) -> str:
    if timeline == 1:
        return ""
    with connect(options, purpose="timeline", replicates=True) as connection:
        _, history = checked(
            options,
            f"requesting the history of timeline {timeline}",
            lambda: row_of(connection, f"TIMELINE_HISTORY {timeline:d}"),
        )
    return history.decode() if isinstance(history, bytes) else str(history)
