"""Checks of what a query needs to read the log: publication, slot, and the WAL that the server keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_source.enumerators.postgres import options as opts
from flip27_source.enumerators.postgres.check_tables import CheckedTable
from flip27_source.enumerators.postgres.connection import Connection, checked, row_of
from flip27_source.enumerators.postgres.open_transactions import WARN_AFTER_S, OpenTransaction, oldest_open
from flip27_source.enumerators.postgres.own_slot import slot_name_of
from flip27_source.enumerators.postgres.publication import (
    Publication,
    addition_sql,
    find_publication,
    publication_sql,
    scope_faults,
)
from flip27_source.enumerators.postgres.server import (
    Slot,
    alter_failover,
    check_failover,
    check_own_slot,
    check_slot,
    major_version,
    slot_of,
)
from flip27_source.errors import Flip27Error
from flip27_source.options import Options
from flip27_source.source_checks import Finding, failed, ok, skipped, warning
from flip27_source.source_options import STATE_LOCATION

KEEP_SIZE = "max_slot_wal_keep_size"
_UNBOUNDED = "-1"

_MAY_CREATE = "SELECT has_database_privilege(current_database(), 'CREATE')"
_SLOTS = """
SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)::int
"""
# All roles see the prepared transactions of all databases; the sessions of open transactions are hidden from
# most roles.
_PREPARED = """
SELECT count(*), (array_agg(gid ORDER BY prepared))[1], (array_agg(database ORDER BY prepared))[1],
       to_char(min(prepared) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')
FROM pg_prepared_xacts
"""
_STANDBYS = "SELECT coalesce(current_setting('synchronized_standby_slots', true), '')"
_KEEP = f"""
SELECT current_setting('{KEEP_SIZE}'),
       CASE WHEN current_setting('{KEEP_SIZE}') <> '{_UNBOUNDED}'
            THEN pg_size_bytes(current_setting('{KEEP_SIZE}')) END,
       current_setting('idle_replication_slot_timeout', true)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How much of the log, and for how long, the server keeps for a slot that is not read.

    Attributes:
        bytes: the value of the setting; None without a limit.
        idle_timeout: the setting idle_replication_slot_timeout of PostgreSQL 18; 0 for none.
    """

    text: str
    bytes: int | None
    idle_timeout: str | None


def log_findings(
    connection: Connection, options: Options, role: str, tables: Sequence[CheckedTable], *, is_superuser: bool
) -> Iterator[Finding]:
    def row(sql: str) -> tuple[Any, ...]:
        return checked(options, "querying the log", lambda: row_of(connection, sql))

    text, limit, idle = row(_KEEP)
    keep = Keep(text=text, bytes=limit, idle_timeout=idle)
    yield keep_finding(keep)
    if options[opts.SLOT_NAME] is None and options[STATE_LOCATION] is None:
        why = "its name is derived from the stateLocation"
        yield skipped("slot", why, "give it with --state, or --option slotName=...")
        yield skipped("publication", why, "give it with --state, or --option publication=...")
        yield free_slots(*row(_SLOTS))
        return
    name = slot_name_of(options)
    slot: Slot | None = checked(options, "querying the slot", lambda: slot_of(connection, name))
    if slot is None:
        free = free_slots(*row(_SLOTS))
        yield free
        yield from prepared_transactions(*row(_PREPARED))
        yield open_transactions(checked(options, "querying locks", lambda: oldest_open(connection)))
        if free.remedy is None:
            yield ok("slot", f"{name} does not exist: the first start of the query creates it")
    else:
        yield from slot_findings(slot, database=connection.info.dbname, keep=keep)
    if options[opts.SLOT_FAILOVER]:
        yield failover_finding(
            major_version(connection),
            standbys=row(_STANDBYS)[0],
            name=name,
            is_failover=slot is None or slot.is_failover,
        )
    if tables:
        published = options[opts.PUBLICATION] or name
        publication = checked(
            options, "querying the publication", lambda: find_publication(connection, published)
        )
        may_create = is_superuser or row(_MAY_CREATE)[0]
        if publication is None:
            yield missing_publication(
                published,
                tables,
                role,
                database=connection.info.dbname,
                may_create=may_create,
                is_superuser=is_superuser,
            )
        else:
            yield from publication_findings(publication, tables, role, is_superuser=is_superuser)


def free_slots(most: int, used: int) -> Finding:
    if used < most:
        return ok("replication slots", f"{most - used} of {most} are free")
    return failed(
        "replication slots",
        f"all {most} are in use (max_replication_slots)",
        "SELECT slot_name, active FROM pg_replication_slots; lists them: drop one that is no longer "
        "read with SELECT pg_drop_replication_slot('...'); or ALTER SYSTEM SET max_replication_slots = "
        f"{most + 10}; and restart the server",
    )


def open_transactions(oldest: OpenTransaction | None) -> Finding:
    """Whether creating a slot waits for a transaction that has been open for a long time."""
    if oldest is None:
        return ok("open transactions", "none")
    said = f"the oldest is that of {oldest.text}: creating the slot waits for it"
    if oldest.age_s is None or oldest.age_s < WARN_AFTER_S:
        return ok("open transactions", said)
    return warning("open transactions", said, f"wait for its end; or: {oldest.statement}")


def prepared_transactions(
    number: int, gid: str | None, database: str | None, since: str | None
) -> Iterator[Finding]:
    """Whether creating a slot waits for prepared transactions, which may have been forgotten."""
    if gid is not None:
        name = gid.replace("'", "''")
        yield warning(
            "prepared transactions",
            f"{number} are open, the oldest ({gid}, in database {database}) since {since}: creating the slot "
            "waits for all of them",
            f"in database {database}: COMMIT PREPARED '{name}'; or ROLLBACK PREPARED '{name}';",
        )


def keep_finding(keep: Keep) -> Finding:
    """Whether a query that is down can fill the server's disk, or lose its slot to a timeout."""
    if keep.idle_timeout not in (None, "0"):
        return warning(
            "idle_replication_slot_timeout",
            f"{keep.idle_timeout}: a query that is down for longer loses its slot",
            "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
        )
    if keep.text == _UNBOUNDED:
        return warning(
            KEEP_SIZE,
            "-1: a query that is down holds back WAL until the server's disk is full",
            f"ALTER SYSTEM SET {KEEP_SIZE} = '100GB'; SELECT pg_reload_conf(); (or as much as the disk has "
            "room for)",
        )
    return ok(KEEP_SIZE, f"{keep.text}: a query that is behind by more loses its slot")


def slot_findings(slot: Slot, *, database: str, keep: Keep) -> Iterator[Finding]:
    """The faults of an existing slot, or its values if it has no fault."""
    said = f"{slot.name} keeps {slot.kept_bytes:,} bytes of WAL (wal_status {slot.wal_status})"
    try:
        check_slot(slot, database=database, position=None)
    except Flip27Error as error:
        yield failed("slot", error.what, error.remedy)
        return
    yield from list(_slot_faults(slot, keep, said)) or [ok("slot", said)]


def _slot_faults(slot: Slot, keep: Keep, said: str) -> Iterator[Finding]:
    if slot.is_temporary:
        yield failed(
            "slot",
            f"{slot.name} is temporary: it is dropped when the session that created it ends",
            "set slotName to another name: the slot is then created",
        )
    try:
        check_own_slot(slot, database=slot.database)
    except Flip27Error as error:
        yield failed("slot", error.what, error.remedy)
    if slot.active_pid is not None:
        yield warning(
            "slot",
            f"{slot.name} is being read by the backend {slot.active_pid}",
            "each query needs its own slot; SELECT application_name, usename, client_addr FROM "
            f"pg_stat_activity WHERE pid = {slot.active_pid}; says who reads it",
        )
    if slot.wal_status == "unreserved":
        yield warning(
            "slot",
            f"{said}: the server removes that WAL at its next checkpoint, and the slot is lost then",
            f"start the query now; ALTER SYSTEM SET {KEEP_SIZE} to more than {keep.text}; SELECT "
            "pg_reload_conf();",
        )
    elif keep.bytes is not None and slot.kept_bytes * 2 > keep.bytes:
        yield warning(
            "slot",
            f"{said}: more than half of {KEEP_SIZE}={keep.text}",
            f"let the query catch up, or ALTER SYSTEM SET {KEEP_SIZE} to more; SELECT pg_reload_conf();",
        )


def failover_finding(version: int, *, standbys: str, name: str, is_failover: bool) -> Finding:
    """Whether a standby that is promoted has the slot, and everything that a query has read.

    Args:
        version: the major version of the server.
        standbys: its setting ``synchronized_standby_slots``.
        is_failover: whether the slot is a failover slot, or will be created as one.
    """
    check = "failover slot"
    try:
        check_failover(version)
    except Flip27Error as error:
        return failed(check, error.what, error.remedy)
    if not is_failover:
        return warning(
            check,
            f"slotFailover is true, and slot {name} was created without failover: standbys do not have it",
            alter_failover(name),
        )
    if not standbys:
        return warning(
            check,
            "synchronized_standby_slots is not set: a query may read changes that a standby has not received",
            "ALTER SYSTEM SET synchronized_standby_slots = '<primary_slot_name of the standby>'; SELECT "
            "pg_reload_conf();",
        )
    return ok(check, f"changes are read once the standby of {standbys} has them")


def missing_publication(
    name: str,
    tables: Sequence[CheckedTable],
    role: str,
    *,
    database: str,
    may_create: bool,
    is_superuser: bool,
) -> Finding:
    """Whether the first start of the query can create the publication."""
    of_others = [str(table.catalog.table) for table in tables if not (table.is_owned or is_superuser)]
    if may_create and not of_others:
        return ok("publication", f"{name} does not exist: the first start of the query creates it")
    reasons = [] if may_create else [f"has no CREATE on database {database}"]
    reasons += [f"does not own {', '.join(of_others)}"] if of_others else []
    sql = publication_sql(name, [table.catalog.table for table in tables])
    return failed(
        "publication",
        f"{name} does not exist, and role {role} may not create it: it {' and '.join(reasons)}",
        f"have the owner of the tables run: {sql};",
    )


def publication_findings(
    publication: Publication, tables: Sequence[CheckedTable], role: str, *, is_superuser: bool
) -> Iterator[Finding]:
    """The faults of an existing publication, or a summary if it has no fault."""
    check, name = "publication", publication.name
    faults = []
    # Without publish_via_partition_root, partitions are listed instead of their table: a fault below.
    listed = [table for table in tables if publication.is_via_root or not table.catalog.is_partitioned]
    names = publication.lacks([table.catalog.table for table in listed])
    lacking = [table for table in listed if table.catalog.table in names]
    if lacking and not (is_superuser or (publication.is_owned and all(table.is_owned for table in lacking))):
        faults.append(
            failed(
                check,
                f"{name} lacks {', '.join(map(str, names))}, and role {role} may not add them",
                f"have the owner run: {addition_sql(name, [table.catalog.table for table in lacking])};",
            )
        )
    for fault in scope_faults(publication, [table.catalog for table in tables]):
        finding = failed if fault.is_fatal else warning
        faults.append(finding(check, f"{name} {fault.what}", fault.remedy))
    if faults:
        yield from faults
    elif lacking:
        yield ok(check, f"{name} gets {len(lacking)} more tables at the start of the query")
    else:
        others = len(publication.tables) - len(tables)
        said = f" and {others} more, whose changes the server decodes needlessly" if others > 0 else ""
        yield ok(check, f"{name} has the tables{said}")
