"""A slot that begins before what the query has read: the server was killed, or set back to an image.

A server that was killed has a slot where it was at the last checkpoint, and its log is the one that was
read. A server whose disk was set back to an image has a slot of that time too, but has written another log
since, which the query would take for the one that it has read.
"""

from __future__ import annotations

from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.enumerators.postgres.server import Slot, slot_of
from flip27_source.enumerators.postgres.split import Committed, lsn_text
from flip27_source.enumerators.postgres.table_patterns import quoted

_YEAR_2000_US = 946_684_800_000_000
_BEGIN, _COMMIT, _ORIGIN = (ord(kind) for kind in "BCO")

# Transactions without changes have only these messages on PostgreSQL 14.
_COMMITS = """
SELECT data FROM (
    SELECT place, data, get_byte(data, 0) AS kind, lag(get_byte(data, 0)) OVER (ORDER BY place) AS before
    FROM pg_logical_slot_peek_binary_changes(
        %s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', %s
    ) WITH ORDINALITY AS t(lsn, xid, data, place)) AS messages
WHERE kind = %s AND before NOT IN (%s, %s) ORDER BY place DESC LIMIT 3
"""


def other_log(
    connection: Connection, slot: Slot, publication: str, *, read_to: int, last: Committed | None
) -> str | None:
    """Why the log before ``read_to`` is not the one that was read; None if it is, or that is not known.

    Args:
        last: the last transaction with changes that was read; None if it is not known.
    """
    import psycopg

    if last is None or slot.confirmed >= read_to:
        return None
    try:
        found = _last_change(connection, slot, publication, end=read_to)
    except (psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
        return None  # in use, or from before the publication
    if found == (last if last.lsn >= slot.confirmed else None):
        return None
    present = slot_of(connection, slot.name)
    if present is None:
        return None
    if present.confirmed != slot.confirmed:  # the driver, or a task, has moved it forward meanwhile
        return other_log(connection, present, publication, read_to=read_to, last=last)
    return (
        f"the log of the server before {lsn_text(read_to)} is not the one that this query has read: the "
        "server was set back to an image of its disk, and has written other changes since"
    )


def _last_change(connection: Connection, slot: Slot, publication: str, *, end: int) -> Committed | None:
    rows = connection.execute(
        _COMMITS, [slot.name, lsn_text(end), quoted(publication), _COMMIT, _BEGIN, _ORIGIN]
    )
    for (data,) in rows:
        found = Committed(
            lsn=int.from_bytes(data[2:10], "big"),
            at_us=_YEAR_2000_US + int.from_bytes(data[18:26], "big", signed=True),
        )
        if found.lsn < end:
            return found
    return None
