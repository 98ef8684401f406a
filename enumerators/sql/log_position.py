"""PostgreSQL: a range is not read from a standby that lacks rows which the driver has seen.

One ``uri`` can lead to several servers, and the driver and each task choose one of them.
"""

from __future__ import annotations

from flip27_source.enumerators.sql.database import Database, StatementFailure
from flip27_source.errors import DiscoveryError

_REPLAYED = "pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')"
_POSITION = f"""
SELECT CAST(CASE WHEN pg_is_in_recovery() THEN {_REPLAYED}
  ELSE pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') END AS bigint)
"""
_OF_STANDBY = f"SELECT CAST(CASE WHEN pg_is_in_recovery() THEN {_REPLAYED} END AS bigint)"
_PAGE = 8192
_PAGE_HEADERS = (24, 40)
"""The sizes of the headers of pages; that of the first page of a segment is longer."""


def log_position(database: Database) -> int | None:
    """A position of the log that is not before the rows that were seen.

    None for other databases, also for those that only speak like PostgreSQL.

    Raises:
        DiscoveryError: the server is a standby that does not show its position.
    """
    if database.dialect.name != "postgresql":
        return None
    try:
        position: int | None = database.value(_POSITION)
    except StatementFailure:
        return None
    if position is None:
        raise DiscoveryError(
            "the server is a standby that does not show what it has replayed (pg_last_wal_replay_lsn() is "
            "NULL), so a task could read from another one that lacks rows",
            remedy="read from the primary server: change uri, such as with target_session_attrs=primary",
        )
    # After a record that ends with its page, the next one begins behind a header, which is not replayed yet.
    return position - position % _PAGE if position % _PAGE in _PAGE_HEADERS else position


def cluster_of(database: Database) -> str | None:
    """The cluster that the log belongs to, with its standbys; None if the server does not say."""
    if database.dialect.name != "postgresql":
        return None
    try:
        return str(database.value("SELECT CAST(system_identifier AS text) FROM pg_control_system()"))
    except StatementFailure:
        return None


def lacks_rows(database: Database, position: int, cluster: str | None) -> bool:
    """Whether the server is a standby of the cluster that has not replayed the log up to the position."""
    replayed = database.value(_OF_STANDBY)
    if replayed is None or int(replayed) >= position:
        return False
    return cluster is None or cluster_of(database) in (None, cluster)
