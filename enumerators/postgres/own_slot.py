"""The slot of a query: its name, and the copy that a query gets whose state has the slot of another query.

So a fork of a savepoint with another ``slotName`` gets its own slot, created once, which begins at the
position of the first query's slot.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres import server
from flip27_source.enumerators.postgres.connection import START_AGAIN, Connection, checked, connect
from flip27_source.enumerators.postgres.split import lsn_text
from flip27_source.enumerators.postgres.state import PostgresState
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DataLossError
from flip27_source.options import Options
from flip27_source.source_options import STATE_LOCATION, UID

_log = logging.getLogger(__name__)

_LONGEST = 63
_DIGEST_CHARS = 12
_PREFIX = "flip27 log "


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
            remedy=START_AGAIN,
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
    _log.info("slot %s is a copy of slot %s, which stays as it is", name, source_name)


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
