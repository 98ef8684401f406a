"""Statements about the server and its log: whether it can be read, its slots, its position."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flip27_source.enumerators.postgres.assigner import Horizon, Observation
from flip27_source.enumerators.postgres.chunk_transactions import TransactionSnapshot
from flip27_source.enumerators.postgres.connection import ONLY_START_AGAIN, START_AGAIN, Connection, row_of
from flip27_source.enumerators.postgres.publication import publication_gaps
from flip27_source.enumerators.postgres.split import lsn_text, parse_lsn
from flip27_source.enumerators.postgres.table_patterns import quoted
from flip27_source.errors import AccessError, DataLossError, DiscoveryError

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
        confirmed: transactions that commit before this position are no longer sent; 0 while the server still
            creates the slot, and for physical slots.
        active_pid: the backend that reads it now; None if none does.
        wal_status: reserved, extended, unreserved or lost.
        kept_bytes: how much WAL the server keeps for it.
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

    @property
    def is_incomplete(self) -> bool:
        """Whether the server still creates it."""
        return self.plugin == "pgoutput" and not self.confirmed


def check_server(connection: Connection, *, reads_log: bool) -> str:
    """Check that the server can be read, and return its system identifier."""
    check_version(major_version(connection))
    is_standby, wal_level, system = row_of(
        connection,
        "SELECT pg_is_in_recovery(), current_setting('wal_level'), system_identifier::text FROM "
        "pg_control_system()",
    )
    check_primary(is_standby=is_standby)
    if reads_log:
        check_wal_level(wal_level)
    return str(system)


def major_version(connection: Connection) -> int:
    return connection.info.server_version // 10_000


def check_version(version: int) -> None:
    if version < OLDEST_VERSION:
        raise DiscoveryError(
            f"the server is PostgreSQL {version}", remedy=f"use PostgreSQL {OLDEST_VERSION} or newer"
        )


def check_primary(*, is_standby: bool) -> None:
    if is_standby:
        raise DiscoveryError(
            "the server is a standby (pg_is_in_recovery() is true), whose snapshots and slots differ from "
            "those of its primary",
            remedy="set host to the primary, or list all hosts and connect to the primary only",
        )


def check_wal_level(level: str) -> None:
    """Refuse a log that has too little information to decode changes."""
    if level != "logical":
        raise DiscoveryError(
            f"the server has wal_level={level}, which does not log enough for changes to be decoded",
            remedy="ALTER SYSTEM SET wal_level = logical; then restart the server (Amazon RDS: set "
            "rds.logical_replication to 1; Cloud SQL: cloudsql.logical_decoding to on)",
        )


def check_failover(version: int) -> None:
    """Refuse a server without failover slots."""
    if version < FAILOVER_VERSION:
        raise DiscoveryError(
            f"option slotFailover is true, and PostgreSQL {version} has no failover slots",
            remedy=f"set slotFailover=false, or use PostgreSQL {FAILOVER_VERSION} or newer",
        )


def alter_failover(slot: str) -> str:
    """The command that turns a slot into a failover slot."""
    return f"psql 'dbname=... replication=database' -c 'ALTER_REPLICATION_SLOT {slot} (FAILOVER true)'"


def slot_of(connection: Connection, name: str) -> Slot | None:
    failover = "failover" if major_version(connection) >= FAILOVER_VERSION else "false"
    row = connection.execute(
        "SELECT plugin, database, confirmed_flush_lsn::text, active_pid, wal_status, "
        "coalesce(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn), 0)::bigint, two_phase, "
        f"temporary, slot_type, clock_timestamp(), {failover} "
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
            remedy=f"{ONLY_START_AGAIN}; with slotFailover=true (PostgreSQL {FAILOVER_VERSION}), standbys "
            "have the slot before a failover",
        )
    return slot


def create_slot(connection: Connection, name: str, *, is_failover: bool) -> int:
    """Create a slot, and return where its log begins. The server first waits for all open transactions."""
    failover = ", failover => true" if is_failover else ""
    sql = f"SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput'{failover})"
    return _lsn(connection, sql, name)


def copy_slot(connection: Connection, source: str, name: str) -> int:
    """Create a slot at the position of another one, and return this position."""
    sql = "SELECT lsn::text FROM pg_copy_logical_replication_slot(%s, %s)"
    return _lsn(connection, sql, source, name)


def drop_slot(connection: Connection, name: str) -> None:
    connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def check_slot(slot: Slot, *, database: str, position: int | None) -> None:
    """Check that a slot can be read from ``position`` on."""
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
            remedy=f"drop the slot, and {ONLY_START_AGAIN}",
        )
    if position is not None and slot.confirmed > position:
        raise DataLossError(
            f"slot {slot.name} begins at {lsn_text(slot.confirmed)}, and this query has read up to "
            f"{lsn_text(position)}: another query or tool has moved the slot, or the query was restored to "
            "an earlier state",
            remedy=f"give each query its own slotName; then {START_AGAIN}",
        )


def check_own_slot(slot: Slot, *, database: str) -> None:
    """Check that a query can read the slot from now on, whatever its position."""
    check_slot(slot, database=database, position=None)
    if slot.two_phase:
        raise DiscoveryError(
            f"slot {slot.name} has two_phase on: it passes a prepared transaction before COMMIT PREPARED, "
            "when this source reads it",
            remedy="set slotName to another name: the slot is then created without two_phase",
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
            remedy=ONLY_START_AGAIN,
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


def touch_slot(connection: Connection, name: str) -> None:
    """Use a slot without moving it, unless another connection uses it."""
    import psycopg

    with contextlib.suppress(psycopg.errors.ObjectInUse):
        connection.execute(
            "SELECT pg_replication_slot_advance(slot_name, confirmed_flush_lsn) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn IS NOT NULL",
            [name],
        )


def advance_if_unused(connection: Connection, name: str, lsn: int) -> None:
    """Release the log before ``lsn``, unless another connection reads the slot."""
    import psycopg

    with contextlib.suppress(psycopg.errors.ObjectInUse):
        advance_slot(connection, name, lsn, timeout_s=-1.0)


def observe(connection: Connection, *, makes_horizon: bool) -> Observation:
    """Observe the server now; the assigner's rules depend on the order of the statements."""
    horizon = None
    if makes_horizon:
        # Only the durable log: a server that is killed writes other records at later positions.
        lsn = _durable_end(connection)
        horizon = Horizon(lsn=lsn, xid=_number(connection, "SELECT pg_current_xact_id()::text"))
    xmin = _number(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
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


def await_visible(connection: Connection, xids: npt.NDArray[np.int64], *, timeout_s: float) -> None:
    """Wait until the session sees these transactions, which are in the log: a commit is there earlier.

    Raises:
        AccessError: one of them is still not visible after ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        snapshot = TransactionSnapshot.parse(row_of(connection, "SELECT pg_current_snapshot()::text")[0])
        hidden = xids[~snapshot.sees(xids)]
        if not len(hidden):
            return
        if time.monotonic() > deadline:
            raise AccessError(
                f"transaction {hidden[0]} is in the log, and after {timeout_s:.0f} s what it wrote is still "
                "not visible: its commit waits for a synchronous standby",
                remedy="start the standby, or remove it from synchronous_standby_names; nothing is lost, and "
                "the query continues at its next start",
            )
        time.sleep(_POLL_S)


def reach_id(connection: Connection, xid: int) -> None:
    """Consume ids until ``xid`` has been assigned.

    It has not been assigned if the server was killed and reuses ids. Without other transactions, a wait for
    the end of all ids below ``xid`` would then never end.
    """
    while _number(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text") <= xid:
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
            (has_changes,) = row_of(
                connection,
                "SELECT EXISTS (SELECT FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s::int, "
                "'proto_version', '1', 'publication_names', %s) WHERE lsn > %s::pg_lsn)",
                [
                    slot.name,
                    lsn_text(end),
                    1 if is_advanced else None,
                    quoted(publication),
                    lsn_text(0 if is_advanced else position),
                ],
            )
    except psycopg.errors.ObjectInUse:
        return None
    return bool(gaps) or bool(has_changes)


def precedes_publication(
    connection: Connection, slot: Slot, publication: str, *, end: int, timeout_s: float
) -> bool:
    """Whether the slot has changes, before ``end``, that were made while there was no publication.

    Raises:
        DiscoveryError: another connection still reads the slot after ``timeout_s``.
    """
    import psycopg

    deadline = time.monotonic() + timeout_s
    while True:
        with publication_gaps(connection) as gaps:
            try:
                found = has_changes(connection, slot, publication, position=slot.confirmed, end=end)
            except psycopg.errors.UndefinedObject:
                return True
        if found is not None:
            return bool(gaps)
        if time.monotonic() > deadline:
            raise DiscoveryError(
                f"slot {slot.name} has been read by another connection for {timeout_s:.0f} s",
                remedy="end the other reader (pg_terminate_backend), or give each query its own slotName",
            )
        time.sleep(_POLL_S)


def _number(connection: Connection, sql: str) -> int:
    return int(row_of(connection, sql)[0])


def _lsn(connection: Connection, sql: str, *parameters: str) -> int:
    return parse_lsn(row_of(connection, sql, parameters or None)[0])
