"""The database of a test: sessions, statements, and the test's slot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from tests.enumerators.postgres import log
from tests.enumerators.postgres.log import Transaction
from tests.postgres_server import PostgresServer

DEADLINE_S = 60


class TestedDatabase:
    """Sessions in one database. Methods use the first one unless they are given another."""

    __test__ = False

    def __init__(self, *, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self.slot = ""
        self._sessions: list[psycopg.Connection] = []
        self._first = self.session()

    def session(self, **settings: str) -> psycopg.Connection:
        """Open another session, in autocommit."""
        options = " ".join(f"-c{name}={value}" for name, value in settings.items())
        session = self.server.connect(self.name, options=options)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        for session in self._sessions:
            session.close()

    def reconnect(self) -> None:
        """Open a new first session after a restart of the server."""
        self.close()
        self._first = self.session()

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self._first.execute(statement)

    def one(self, query: str, *values: Any, session: psycopg.Connection | None = None) -> Any:
        """Return the only value of the only row."""
        ((value,),) = (session or self._first).execute(query, values).fetchall()
        return value

    def column(self, query: str, *values: Any) -> list[Any]:
        return [value for (value,) in self._first.execute(query, values).fetchall()]

    def make_slot(self, name: str) -> None:
        self.one("SELECT slot_name FROM pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        self.slot = name

    def copy_slot(self, name: str) -> None:
        self.execute(f"SELECT pg_copy_logical_replication_slot('{self.slot}', '{name}')")

    def flushed(self) -> int:
        """Return the position up to which the log is on disk."""
        return log.lsn(self.one("SELECT pg_current_wal_flush_lsn()::text"))

    def confirmed(self, slot: str | None = None) -> int:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        return log.lsn(self.one(query, slot or self.slot))

    def advance(self, to: int, slot: str | None = None) -> int:
        """Advance the slot; return the position that the server reports."""
        query = "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, %s)"
        return log.lsn(self.one(query, slot or self.slot, log.text(to)))

    def peek(self, upto: int | None = None, *, slot: str | None = None) -> list[Transaction]:
        return log.peek(self._first, slot or self.slot, upto)

    def changes(self) -> list[log.Change]:
        """Return the changes of all transactions."""
        return [change for transaction in self.peek() for change in transaction.changes]

    def wait_event(self, session: psycopg.Connection) -> str | None:
        query = "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = %s"
        return self.one(query, session.info.backend_pid)

    def wait_for(self, what: str, session: psycopg.Connection) -> None:
        """Wait until the session waits for ``what``."""
        wait_until(lambda: self.wait_event(session) == what, lambda: str(self.wait_event(session)))


def wait_until(condition: Callable[[], bool], observed: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"last seen: {observed()}"
        time.sleep(0.01)


class Running:
    """A call that runs in another thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except psycopg.Error as error:
            self._error = error

    def result(self) -> Any:
        """Wait for the call; return its result or raise its error."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result
