"""The oldest open transaction, for which others wait, and how messages describe it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from flip27_source.enumerators.postgres.connection import Connection

WARN_AFTER_S = 60.0

# All roles see all rows of pg_locks; of sessions of other roles they see no more than the process id.
_OLDEST = """
SELECT l.pid, a.usename::text, a.application_name, p.gid, coalesce(a.xact_start, p.prepared),
       clock_timestamp()
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
  AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY age(l.transactionid) DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that writes and has not ended.

    Attributes:
        pid: the server process; None for a prepared transaction.
        session: user and application, as far as the role may see them.
        gid: the name of a prepared transaction.
        since: when it began; None if the role may not see it.
        asked_at: the server's time when it was queried.
    """

    pid: int | None
    session: str
    gid: str | None
    since: dt.datetime | None
    asked_at: dt.datetime

    @property
    def age_s(self) -> float | None:
        """For how long it has been open; None if that is not known."""
        return None if self.since is None else max(0.0, (self.asked_at - self.since).total_seconds())

    @property
    def text(self) -> str:
        named = f"the prepared transaction {self.gid}" if self.pid is None else f"server process {self.pid}"
        session = f" ({self.session})" if self.session else ""
        since = None if self.since is None else self.since.astimezone(dt.UTC)
        return f"{named}{session}" + ("" if since is None else f", open since {since:%Y-%m-%d %H:%M:%S} UTC")

    @property
    def statement(self) -> str:
        """The SQL that ends it."""
        if self.pid is None:
            return f"COMMIT PREPARED '{self.gid}'; or ROLLBACK PREPARED '{self.gid}';"
        return f"SELECT pg_terminate_backend({self.pid});"


def oldest_open(connection: Connection) -> OpenTransaction | None:
    """The oldest open transaction that writes; None if there is none."""
    row = connection.execute(_OLDEST).fetchone()
    if row is None:
        return None
    pid, user, application, gid, since, asked_at = row
    return OpenTransaction(
        pid=pid,
        session=", ".join(part for part in (user, application) if part),
        gid=gid,
        since=since,
        asked_at=asked_at,
    )


class HeldBack:
    """Tracks how long something waits for a transaction, and whether that is worth a warning. No clock."""

    def __init__(self) -> None:
        self._first_seen: dict[tuple[int | None, str | None], float] = {}
        self._warned: set[tuple[int | None, str | None]] = set()

    def note(self, oldest: OpenTransaction | None, now_s: float) -> float:
        """Note the transaction; return its age in seconds, if known, or the time since it was first noted."""
        if oldest is None:
            self._first_seen.clear()
            self._warned.clear()
            return 0.0
        key = (oldest.pid, oldest.gid)
        since_s = self._first_seen.setdefault(key, now_s)
        return now_s - since_s if oldest.age_s is None else oldest.age_s

    def is_worth_a_warning(self, oldest: OpenTransaction, waited_s: float) -> bool:
        """Whether to warn now: once for each transaction."""
        if waited_s < WARN_AFTER_S or (oldest.pid, oldest.gid) in self._warned:
            return False
        self._warned.add((oldest.pid, oldest.gid))
        return True
