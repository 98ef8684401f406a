"""One query for each slot: an advisory lock in the database says which query reads a slot.

The lock has two numbers, one for the slot and one for the query. Drivers of one query share their lock,
because a driver that hangs must not keep its successor from working; a driver of another query is refused.
The lock ends with its session.
"""

from __future__ import annotations

import hashlib

from flip27_source.enumerators.postgres.connection import Connection
from flip27_source.errors import DiscoveryError
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION, UID

# The numbers of locks are signed in function calls and unsigned in pg_locks.
_OTHERS = """
SELECT l.pid, a.application_name, a.client_addr::text
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid = %s::bigint::oid AND l.objid <> %s::bigint::oid
LIMIT 1
"""


def query_of(options: Options, *, made: str) -> str:
    """A text that identifies a query.

    Args:
        made: the id in its state, for queries whose state is in their offsets.
    """
    location = options[STATE_LOCATION]
    return made if location is None else f"{location}\n{options[UID] or ''}"


def claim_slot(connection: Connection, slot: str, query: str) -> None:
    """Lock the slot for this query until the connection ends."""
    numbers = [_number(f"slot {slot}"), _number(f"query {query}")]
    signed = [number - (1 << 32) if number >> 31 else number for number in numbers]
    connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", signed)
    other = connection.execute(_OTHERS, numbers).fetchone()
    if other is None:
        return
    connection.execute("SELECT pg_advisory_unlock_shared(%s, %s)", signed)
    pid, name, address = other
    session = (f", {name}" if name else "") + (f", from {address}" if address else "")
    raise DiscoveryError(
        f"slot {slot} belongs to another query that is running (server process {pid}{session}); each would "
        "take changes from the other",
        remedy="give each query its own slotName; if the other driver has ended and only its session is "
        f"left, SELECT pg_terminate_backend({pid})",
    )


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
