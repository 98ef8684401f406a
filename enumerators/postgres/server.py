"""Statements about the server's log: its slot, its publication, its position."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flip27_source.enumerators.postgres.assigner import Horizon, Observation
from flip27_source.enumerators.postgres.publication_gaps import publication_gaps
from flip27_source.enumerators.postgres.remedies import START_AGAIN
from flip27_source.enumerators.postgres.split import TableName, lsn_text, parse_lsn
from flip27_source.enumerators.postgres.table_losses import PublicationEntries
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import DataLossError, DiscoveryError

if TYPE_CHECKING:
    from flip27_source.enumerators.postgres.connection import Connection

_log = logging.getLogger(__name__)

OLDEST_VERSION = 14
FAILOVER_VERSION = 17
"""The oldest version of PostgreSQL that has failover slots."""

OBJECT_IN_USE = "55006"
_FLUSH_S = 0.5
"""Longer than wal_writer_delay, after which the server itself flushes commits to disk."""

_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A logical replication slot.

    Attributes:
        confirmed: transactions that commit before this position are no longer sent.
        active_pid: the backend that reads it now; None if none does.
        wal_status: reserved, extended, unreserved or lost.
        kept_bytes: how much WAL the server keeps for it.
        is_failover: whether standbys may keep a copy of it; always false before PostgreSQL 17.
        asked_at: the server's time when it was queried.
    """

    name: str
    plugin: str
    database: str
    confirmed: int
    active_pid: int | None
    wal_status: str | None
    kept_bytes: int
    two_phase: bool
    is_temporary: bool
    is_failover: bool
    asked_at: dt.datetime


def check_server(connection: Connection, *, reads_log: bool) -> str:
    """Check that the server can be read, and return its system identifier.

    Raises:
        DiscoveryError: it is too old or a standby, or its wal_level is not logical.
    """
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION:
        raise DiscoveryError(
            f"the server is PostgreSQL {version}", remedy=f"use PostgreSQL {OLDEST_VERSION} or newer"
        )
    row = connection.execute(
        "SELECT pg_is_in_recovery(), current_setting('wal_level'), system_identifier::text FROM "
        "pg_control_system()"
    ).fetchone()
    assert row is not None
    if row[0]:
        raise DiscoveryError(
            "the server is a standby, whose snapshots and slots differ from those of its primary",
            remedy="set host to the primary, or list all hosts and connect to the primary only",
        )
    if reads_log and row[1] != "logical":
        raise DiscoveryError(
            f"the server has wal_level={row[1]}, which does not log enough for changes to be decoded",
            remedy="ALTER SYSTEM SET wal_level = logical; then restart the server",
        )
    return str(row[2])


def check_failover(connection: Connection) -> None:
    """Check that the server has failover slots.

    Raises:
        DiscoveryError: it is too old for them.
    """
    version = connection.info.server_version // 10_000
    if version < FAILOVER_VERSION:
        raise DiscoveryError(
            f"option slotFailover is true, and the server is PostgreSQL {version}, which has no failover "
            "slots",
            remedy=f"set slotFailover=false, or use PostgreSQL {FAILOVER_VERSION} or newer",
        )


def slot_of(connection: Connection, name: str) -> Slot | None:
    """The slot with this name; None if there is none."""
    row = connection.execute(
        "SELECT plugin, database, confirmed_flush_lsn::text, active_pid, wal_status, "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn), 0)::bigint, two_phase, "
        "temporary, slot_type, clock_timestamp(), coalesce((to_jsonb(s) ->> 'failover')::boolean, false) "
        "FROM pg_replication_slots s WHERE slot_name = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    return Slot(
        name=name,
        plugin=row[0] or row[8],
        database=row[1] or "",
        confirmed=0 if row[2] is None else parse_lsn(row[2]),
        active_pid=row[3],
        wal_status=row[4],
        kept_bytes=row[5],
        two_phase=row[6],
        is_temporary=row[7],
        is_failover=row[10],
        asked_at=row[9],
    )


def existing_slot(
    connection: Connection, name: str, *, needed_from: int, is_other_server: bool = False
) -> Slot:
    """The slot with this name.

    Args:
        needed_from: the position from which its log is needed.
        is_other_server: whether this is not the server that was read before.

    Raises:
        DataLossError: it does not exist. No option disables this check: the query would wait for ever.
    """
    slot = slot_of(connection, name)
    if slot is None:
        raise DataLossError(
            f"slot {name} no longer exists"
            + (": this is not the server that was read before" if is_other_server else "")
            + f"; changes from {lsn_text(needed_from)} on cannot be read",
            remedy=f"{START_AGAIN}; with slotFailover=true (PostgreSQL {FAILOVER_VERSION}), standbys have "
            "the slot before a failover",
        )
    return slot


def create_slot(connection: Connection, name: str, *, is_failover: bool) -> int:
    """Create a slot, and return where its log begins. The server first waits for all open transactions."""
    failover = ", failover => true" if is_failover else ""
    row = connection.execute(
        f"SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput'{failover})", [name]
    ).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def copy_slot(connection: Connection, source: str, name: str) -> int:
    """Create a slot at the position of another one, and return this position."""
    row = connection.execute(
        "SELECT lsn::text FROM pg_copy_logical_replication_slot(%s, %s)", [source, name]
    ).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def drop_slot(connection: Connection, name: str) -> None:
    """Drop a slot."""
    connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def check_slot(slot: Slot, *, database: str, position: int | None) -> None:
    """Check that a slot can be read from ``position`` on.

    Raises:
        DiscoveryError: it is a slot of another kind or database.
        DataLossError: the server has dropped log after ``position``.
    """
    if slot.plugin != "pgoutput" or slot.database != database:
        raise DiscoveryError(
            f"slot {slot.name} has the plugin {slot.plugin} and belongs to database "
            f"{slot.database or '(none)'}",
            remedy="set slotName to another name: the slot is then created",
        )
    if slot.wal_status == "lost":
        raise DataLossError(
            f"slot {slot.name} is lost: the server has removed WAL that the query had not read "
            "(max_slot_wal_keep_size, idle_replication_slot_timeout)",
            remedy=f"drop the slot, and {START_AGAIN}",
        )
    if position is not None and slot.confirmed > position:
        raise DataLossError(
            f"slot {slot.name} begins at {lsn_text(slot.confirmed)}, and this query has read up to "
            f"{lsn_text(position)}: another query or tool has moved the slot, or the query was restored to "
            "an earlier state",
            remedy=f"give each query its own slotName; then {START_AGAIN}",
        )


def check_end(end: int, *, position: int) -> None:
    """Check that the log reaches ``position``.

    Raises:
        DataLossError: the log ends before it, so changes from now on would count as read.
    """
    if end < position:
        raise DataLossError(
            f"the log of the server ends at {lsn_text(end)}, and this query has read up to "
            f"{lsn_text(position)}: the server was restored from a backup, or is a standby that had not "
            "received everything",
            remedy=START_AGAIN,
        )


def advance_slot(connection: Connection, name: str, lsn: int, *, timeout_s: float) -> None:
    """Release the log before ``lsn``; wait while another connection reads the slot.

    Raises:
        psycopg.Error: the slot is still read after ``timeout_s``.
    """
    import psycopg

    deadline = time.monotonic() + timeout_s
    while True:
        slot = slot_of(connection, name)
        if slot is None or slot.confirmed >= lsn:
            return
        try:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [name, lsn_text(lsn)])
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def observe(connection: Connection, *, makes_horizon: bool) -> Observation:
    """Observe the server now; the assigner's rules depend on the order of the statements."""
    horizon = None
    if makes_horizon:
        # Only the durable log: a server that is killed writes other records at later positions.
        lsn = _durable_end(connection)
        horizon = Horizon(lsn=lsn, xid=int(_one(connection, "SELECT pg_current_xact_id()::text")))
    xmin = int(_one(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"))
    lsn_after = log_end(connection)
    return Observation(end=_durable_end(connection), xmin=xmin, lsn_after=lsn_after, horizon=horizon)


def log_end(connection: Connection) -> int:
    """The position after the last record that was written, which may be only in the server's memory."""
    return _lsn(connection, "SELECT pg_current_wal_insert_lsn()::text")


def _durable_end(connection: Connection) -> int:
    """The position up to which the log is on disk."""
    return _lsn(connection, "SELECT pg_current_wal_flush_lsn()::text")


def await_durable(connection: Connection, lsn: int) -> None:
    """Wait until the log is on disk up to ``lsn``; if the server does not write it, a message forces it to.

    If the server is killed, a transaction whose records were only in its memory is lost, and its id is
    reused. An ended transaction has a record of its end.
    """
    deadline = time.monotonic() + _FLUSH_S
    while _durable_end(connection) < lsn:
        if time.monotonic() > deadline:
            _write_id(connection)
            return
        time.sleep(_POLL_S)


def reach_id(connection: Connection, xid: int) -> None:
    """Consume ids until ``xid`` has been assigned.

    It has not been assigned if the server was killed and reuses ids. Without other transactions, a wait for
    the end of all ids below ``xid`` would then never end.
    """
    while int(_one(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")) <= xid:
        _write_id(connection)


def _write_id(connection: Connection) -> None:
    """Force the log to disk with a message that is not sent to readers of the log. It consumes an id."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = local")
        connection.execute("SELECT pg_logical_emit_message(true, 'flip27', '')")


def has_changes(
    connection: Connection, slot: Slot, publication: str, *, position: int, end: int
) -> bool | None:
    """Whether the slot has a change in ``[position, end)``; None while another connection reads the slot.

    True also if changes are missing because there was no publication: the window reports them.
    """
    import psycopg

    # The row of a commit has the position after its record. If the slot already begins at ``position``, the
    # first transaction is enough, and the server need not decode the rest.
    is_advanced = slot.confirmed >= position
    try:
        with publication_gaps(connection) as gaps:
            found = connection.execute(
                "SELECT EXISTS (SELECT FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s::int, "
                "'proto_version', '1', 'publication_names', %s) WHERE lsn > %s::pg_lsn)",
                [
                    slot.name,
                    lsn_text(end),
                    1 if is_advanced else None,
                    publication_list(publication),
                    lsn_text(0 if is_advanced else position),
                ],
            ).fetchone()
    except psycopg.errors.ObjectInUse:
        return None
    return bool(gaps) or (found is not None and bool(found[0]))


def publication_list(name: str) -> str:
    """The name in the form that pgoutput's option publication_names expects."""
    return quoted(name)


def published_tables(connection: Connection, name: str) -> list[tuple[str, str]] | None:
    """Schema and name of the tables of a publication; None if the publication does not exist."""
    if not _one(connection, "SELECT count(*) FROM pg_publication WHERE pubname = %s", name):
        return None
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", [name]
    )
    return [(schema, table) for schema, table in rows]


def publication_entries(connection: Connection, name: str) -> PublicationEntries | None:
    """The entries of a publication; None if the publication does not exist."""
    row = connection.execute("SELECT oid::bigint FROM pg_publication WHERE pubname = %s", [name]).fetchone()
    if row is None:
        return None
    found = connection.execute(
        "SELECT prrelid::bigint, oid::bigint FROM pg_publication_rel WHERE prpubid = %s::bigint::oid "
        "ORDER BY prrelid",
        row,
    )
    return PublicationEntries(oid=row[0], entries=tuple((table, entry) for table, entry in found))


def publication_sql(name: str, tables: Sequence[TableName]) -> str:
    """The statement that creates the publication."""
    listed = ", ".join(quoted(table.schema, table.name) for table in tables)
    return f"CREATE PUBLICATION {quoted(name)} FOR TABLE {listed} WITH (publish_via_partition_root = true)"


def ensure_publication(connection: Connection, name: str, tables: Sequence[TableName]) -> None:
    """Create the publication, or add the tables that it lacks.

    Raises:
        DiscoveryError: the role lacks the right; the error names the statement for the tables' owner to run.
    """
    import psycopg

    published = published_tables(connection, name)
    if published is None:
        sql, refused = publication_sql(name, tables), f"the role may not create the publication {name}"
    else:
        lacking = [table for table in tables if (table.schema, table.name) not in published]
        if not lacking:
            return
        listed = ", ".join(quoted(table.schema, table.name) for table in lacking)
        sql = f"ALTER PUBLICATION {quoted(name)} ADD TABLE {listed}"
        refused = f"the role may not add {listed} to the publication {name}"
    try:
        connection.execute(sql)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DiscoveryError(
            f"{refused}: {error.diag.message_primary}",
            remedy=f"have the owner of the tables run: {sql};",
        ) from None
    _log.info("publication of the postgres source: %s", sql)


def _one(connection: Connection, sql: str, *parameters: Any) -> Any:
    row = connection.execute(sql, parameters or None).fetchone()
    assert row is not None
    return row[0]


def _lsn(connection: Connection, sql: str) -> int:
    return parse_lsn(_one(connection, sql))
