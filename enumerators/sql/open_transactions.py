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

from flip27_source.enumerators.sql.database import Database, DatabaseFailure
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
SERVER = """
SELECT CASE WHEN pg_is_in_recovery() THEN 'standby'
  WHEN EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass({table}) AND relkind = 'm') THEN 'copy'
  END
"""

_OR_LAG = 'or add .option("waitForTransactions", "false"), and a lag that is longer than any transaction'
_REMEDY = f"read from the primary server; {_OR_LAG}"


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
        server = database.value(SERVER.format(table=literal))
        if server == "copy":
            raise DiscoveryError(
                f"{table} is a materialized view: a refresh adds rows of transactions that have ended, also "
                "below rows that were read, and no lock shows which transactions a refresh has left out",
                remedy=f"read the tables of the view; {_OR_LAG} and the time between two refreshes",
            )
        if server == "standby":
            raise DiscoveryError(
                "the server is a standby, which does not show the open transactions of its primary",
                remedy=_REMEDY,
            )
        _, rows = database.rows(WRITERS)
    except DatabaseFailure as failure:
        raise DiscoveryError(
            f"the server does not show its open transactions: {failure.what}", remedy=_REMEDY
        ) from None
    return dict(rows)
