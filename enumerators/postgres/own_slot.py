"""The slot of a query: its name, and the copy that a query gets whose state has the slot of another query.

So a fork of a savepoint with another ``slotName`` gets its own slot, created once, which begins at the
position of the first query's slot.

An advisory lock in the database says which query reads a slot. It has two numbers, one for the slot and one
for the query. Drivers of one query share their lock, because a driver that hangs must not keep its successor
from working; a driver of another query is refused. The lock ends with its session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.connection import ONLY_START_AGAIN, Connection, checked, connect
from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.enumerators.postgres.state import PostgresState
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.log import LOG
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION, UID

_LONGEST = 63
_DIGEST_CHARS = 12
_PREFIX = "flip27 log "
# The numbers of locks are signed in function calls and unsigned in pg_locks.
_OTHERS = """
SELECT l.pid, a.application_name, a.client_addr::text
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid = %s::bigint::oid AND l.objid <> %s::bigint::oid
LIMIT 1
"""


def slot_name_of(options: Options) -> str:
    """The name that the user gives; otherwise one that depends only on the state location and the uid.

    So a slot that was created just before a crash is found again, and two queries do not share one by
    accident.
    """
    given = options[opts.SLOT_NAME]
    if given is not None:
        return given
    uid = options[UID] or "postgres"
    digest = hashlib.sha256(f"{options[STATE_LOCATION]}\n{uid}".encode()).hexdigest()[:_DIGEST_CHARS]
    bare = re.sub(r"[^a-z0-9]+", "_", uid.lower()).strip("_")
    return f"flip27_{bare[: _LONGEST - _DIGEST_CHARS - 8]}_{digest}"


def reading_purpose(slot: str) -> str:
    """The purpose of the connection that a query keeps while it reads the slot.

    In ``pg_stat_activity`` it follows the prefix ``flip27``, so that clean-up can tell that the query runs.
    PostgreSQL truncates long names, so only the end of the slot's name is kept, which has the digest.
    """
    return f"log {slot[len(_PREFIX) - _LONGEST :]}"


def own_slot_name(options: Options, state: PostgresState | None) -> str | None:
    """The name of the slot that the query reads from now on; None if its state says that it reads no log.

    If the option is not set, it is the slot of the state: a query from a savepoint takes that slot over.
    """
    if state is None:
        return slot_name_of(options)
    return None if state.slot is None else options[opts.SLOT_NAME] or state.slot


def make_own_slot(
    connection: Connection, options: Options, state: PostgresState, *, report_data_loss: Callable[..., None]
) -> None:
    """Create the query's slot if it is missing and differs from the slot of the state.

    Raises:
        DataLossError: the slot of the state is gone or lost; or it no longer has the log after the state,
            unless losses are reported.
    """
    name, source_name = own_slot_name(options, state), state.slot
    if name is None or source_name is None or name == source_name:
        return
    if server.slot_of(connection, name) is not None:
        return  # an earlier driver created it; each window checks that it begins early enough
    source = server.slot_of(connection, source_name)
    if source is None:
        raise DataLossError(
            f"slot {source_name}, which slot {name} would be copied from, no longer exists",
            remedy=ONLY_START_AGAIN,
        )
    server.check_slot(source, database=connection.info.dbname, position=None)
    position = max(state.start, state.planned_to)
    if source.confirmed > position:
        _report_missing(source, name, position, report_data_loss)
    begins = server.copy_slot(connection, source_name, name)
    if source.confirmed <= position < begins:  # the other query has advanced its slot in the meantime
        server.drop_slot(connection, name)
        _report_missing(source, name, position, report_data_loss)
        server.copy_slot(connection, source_name, name)
    if options[opts.SLOT_FAILOVER]:
        # A copy is not a failover slot, even if the original is.
        with connect(options, purpose="failover slot", replicates=True) as replicating:
            sql = f"ALTER_REPLICATION_SLOT {quoted(name)} (FAILOVER true)"
            checked(options, f"altering slot {name}", lambda: replicating.execute(sql))
    LOG.info("slot %s is a copy of slot %s, which stays as it is", name, source_name)


def _report_missing(
    source: server.Slot, name: str, position: int, report_data_loss: Callable[..., None]
) -> None:
    report_data_loss(
        f"slot {source.name} begins at {lsn_text(source.confirmed)}, and the state has read up to "
        f"{lsn_text(position)}: a copy of the slot, {name}, would lack the changes in between",
        remedy="start the fork from a new savepoint of the query, before that query continues "
        "(savepoints.stop_with_savepoint); or start it without a savepoint, so that the snapshot has all "
        "rows",
    )


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
