"""PostgreSQL: rows wait for the transactions that were writing when they were first seen.

A sequence gives ids in order, but transactions commit in any order: id 6 can be visible while id 5 is not.
Drawing an id and inserting a row both take a lock (RowExclusiveLock on the sequence and on the table) that
the transaction holds until its rows are visible or rolled back. So a cursor is safe if it was read first, the
holders of such locks were listed afterwards, and all of them have ended: a transaction that drew a smaller
id either held a lock at that time, or had ended.

What lives here: the rule, and the query for the holders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flip27_source.enumerators.sql.database import Database, DatabaseFailure, StatementFailure
from flip27_source.enumerators.sql.split import Cursor
from flip27_source.errors import DiscoveryError

# pg_locks shows the locks of every role, and of prepared transactions. Locks on indexes and on system tables
# are left out, because VACUUM and ANALYZE hold them for a long time and insert no rows. A table that an open
# transaction has created is not in pg_class.
WRITERS = """
SELECT DISTINCT CAST(l.virtualtransaction AS text), CAST(coalesce(l.pid, 0) AS text)
FROM pg_catalog.pg_locks AS l LEFT JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
WHERE l.locktype = 'relation' AND l.granted AND l.relation >= 16384
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND (c.relkind IS NULL OR c.relkind IN ('r', 'p', 'S'))
  AND l.pid IS DISTINCT FROM pg_backend_pid()
"""
# A table contains the rows of its partitions and children, and a view those of the relations in its rule.
WITHOUT_LOCKS = """
WITH RECURSIVE used (oid) AS (
  SELECT CAST(to_regclass({table}) AS oid)
  UNION
  SELECT more.oid FROM used CROSS JOIN LATERAL (
    SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = used.oid
    UNION ALL
    SELECT d.refobjid FROM pg_catalog.pg_rewrite AS r JOIN pg_catalog.pg_depend AS d ON d.objid = r.oid
    WHERE r.ev_class = used.oid AND r.ev_type = '1'
      AND d.classid = CAST('pg_rewrite' AS regclass) AND d.refclassid = CAST('pg_class' AS regclass)
  ) AS more (oid)
)
SELECT 'standby', '' WHERE pg_is_in_recovery()
UNION ALL
SELECT CASE c.relkind WHEN 'm' THEN 'copy' WHEN 'f' THEN 'foreign' ELSE 'subscribed' END,
  CASE WHEN c.oid <> to_regclass({table}) THEN CAST(CAST(c.oid AS regclass) AS text) ELSE '' END
FROM used JOIN pg_catalog.pg_class AS c ON c.oid = used.oid
WHERE c.relkind IN ('m', 'f') OR EXISTS (
  SELECT FROM pg_catalog.pg_subscription_rel AS s WHERE s.srrelid = c.oid
  OR s.srrelid IN (SELECT CAST(relid AS oid) FROM pg_partition_ancestors(CAST(c.oid AS regclass))))
LIMIT 1
"""
"""Why the server does not show the locks of all transactions that write rows: the kind, and for a relation
that ``table`` is not itself, its name."""

_OLDEST_VERSION = 12
_OR_LAG = 'or add .option("waitForTransactions", "false"), and a lag that is longer than any transaction'
_REASONS = {
    "standby": (
        "the server is a standby, which does not show the open transactions of its primary",
        f"read from the primary server; {_OR_LAG}",
    ),
    "copy": (
        "{} is a materialized view: no lock shows which transactions that have ended a refresh has left out",
        f"read the tables of the view; {_OR_LAG} and the time between two refreshes",
    ),
    "foreign": (
        "{} is a foreign table: only the server that has its rows knows which transactions write",
        f"read from that server; {_OR_LAG} there",
    ),
    "subscribed": (
        "{} is filled by a subscription: only the publisher knows which transactions write",
        f"read from the publisher; {_OR_LAG} there and the delay of the replication",
    ),
}


Writers: TypeAlias = Mapping[str, str]
"""The transactions that hold locks for writing: the process of each, by its id."""

_RECOVERED = "-1/"
"""The start of the id that a prepared transaction gets when the server recovers, even without a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A cursor that waits for transactions."""

    newest: Cursor
    writers: Writers


def settled(
    waiting: Waiting | None, newest: Cursor | None, writers: Writers
) -> tuple[Cursor | None, Waiting | None]:
    """The cursor up to which all rows are visible, if one is known, and the cursor that waits.

    Args:
        waiting: the cursor that waited before.
        newest: the greatest visible cursor, read before ``writers``.
        writers: the transactions that hold locks for writing now.
    """
    safe: Cursor | None = None
    if waiting is not None:
        left = {
            name: process
            for name, process in writers.items()
            if name in waiting.writers or name.startswith(_RECOVERED)
        }
        if left:
            return None, Waiting(newest=waiting.newest, writers=left)
        safe = waiting.newest
    if newest is None:
        return safe, None
    if not writers:
        return newest, None
    return safe, Waiting(newest=newest, writers=writers)


def writers_of(database: Database, table: str | None) -> Writers:
    """The transactions that hold locks for writing.

    Args:
        table: option ``table``; None for a query.
    """
    try:
        literal = "NULL" if table is None else database.dialect.literal(table, "string")
        _, reasons = database.rows(WITHOUT_LOCKS.format(table=literal))
        _, rows = database.rows(WRITERS)
    except DatabaseFailure as failure:
        # A server that speaks like PostgreSQL may name any version as its own.
        is_older = isinstance(failure, StatementFailure) and "does not exist" in failure.what
        remedy = f"use PostgreSQL {_OLDEST_VERSION} or newer" if is_older else failure.remedy
        raise DiscoveryError(
            f"the server does not show its open transactions: {failure.what}", remedy=f"{remedy}; {_OR_LAG}"
        ) from None
    for kind, relation in reasons:
        what, remedy = _REASONS[kind]
        named = f"{relation}, from which {table} takes rows," if relation else table
        raise DiscoveryError(what.format(named), remedy=remedy)
    return dict(rows)
