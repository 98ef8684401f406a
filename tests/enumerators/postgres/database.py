"""The database of a test: sessions, statements, and slots."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from flip27_source.enumerators.postgres.split import lsn_text, parse_lsn
from tests.deadline import until
from tests.enumerators.postgres import log
from tests.enumerators.postgres.log import Transaction
from tests.postgres_server import PostgresServer

DEADLINE_S = 60


class TestedDatabase:
    """Sessions in one database. Methods use the session ``control`` unless they are given another."""

    __test__ = False

    def __init__(self, *, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name
        self.slot = ""
        self._sessions: list[psycopg.Connection] = []
        self.control = self.session()

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
        self.control = self.session()

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.control.execute(statement)

    def one(self, query: str, *values: Any, session: psycopg.Connection | None = None) -> Any:
        """Return the only value of the only row."""
        ((value,),) = (session or self.control).execute(query, values).fetchall()
        return value

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.control.execute(query, values).fetchall()

    def column(self, query: str, *values: Any) -> list[Any]:
        return [value for (value,) in self.rows(query, *values)]

    def slots(self) -> list[str]:
        """Return the names of the slots of this database, sorted."""
        query = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
        return self.column(query)

    def make_slot(self, name: str) -> None:
        self.one("SELECT slot_name FROM pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        self.slot = name

    def copy_slot(self, name: str) -> None:
        self.execute(f"SELECT pg_copy_logical_replication_slot('{self.slot}', '{name}')")

    def flushed(self) -> int:
        """Return the position up to which the log is on disk."""
        return parse_lsn(self.one("SELECT pg_current_wal_flush_lsn()::text"))

    def confirmed(self, slot: str | None = None) -> int:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        return parse_lsn(self.one(query, slot or self.slot))

    def advance(self, to: int, slot: str | None = None) -> int:
        """Advance the slot; return the position that the server reports."""
        query = "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, %s)"
        return parse_lsn(self.one(query, slot or self.slot, lsn_text(to)))

    def peek(self, upto: int | None = None, *, slot: str | None = None) -> list[Transaction]:
        return log.peek(self.control, slot or self.slot, upto)

    @contextmanager
    def slot_in_use(self, publication: str = "p") -> Iterator[tuple[Running, psycopg.Connection]]:
        """Another session peeks at the slot until the block ends; yield its call and the session."""
        other, blocking = self.session(), self.session()
        # The decoder reads pg_publication.
        blocking.execute("BEGIN; LOCK TABLE pg_publication IN ACCESS EXCLUSIVE MODE")
        peek = Running(lambda: log.peek(other, self.slot, publication=publication))
        self.wait_for("Lock relation", other)
        yield peek, other
        blocking.execute("ROLLBACK")

    def fill_log(self) -> None:
        """Let the log end in another file, three files of 16 MB behind the present one."""
        for _ in range(3):
            self.execute("SELECT pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()")

    @contextmanager
    def server_setting(self, name: str, value: str) -> Iterator[None]:
        """Change a setting of the running server until the block ends."""
        before = self.one(f"SHOW {name}")
        self.execute(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        try:
            until(lambda: self.one(f"SHOW {name}") == value, lambda: before)
            yield
        finally:
            self.execute(f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")
            # Sessions of later tests must not have it.
            until(lambda: self.one(f"SHOW {name}") == before, lambda: value)

    def wait_event(self, session: psycopg.Connection) -> str | None:
        query = "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = %s"
        return self.one(query, session.info.backend_pid)

    def wait_for(self, what: str, session: psycopg.Connection) -> None:
        """Wait until the session waits for ``what``."""
        until(lambda: self.wait_event(session) == what, lambda: str(self.wait_event(session)))


@contextmanager
def new_database(server: PostgresServer, *statements: str) -> Iterator[TestedDatabase]:
    """Run these statements in a new database; yield it."""
    with server.database() as name, closing(TestedDatabase(server=server, name=name)) as database:
        database.execute(*statements)
        yield database


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


class WaitingCommit:
    """A statement whose commit is in the log but not visible: it waits for a standby that never appears.

    The server must have ``synchronous_standby_names``, for which only sessions that opt in should wait.
    """

    def __init__(self, database: TestedDatabase, statement: str) -> None:
        self.session = database.session(synchronous_commit="on")
        self._running = Running(lambda: self.session.execute(statement))
        database.wait_for("IPC SyncRep", self.session)

    def end(self) -> None:
        """End the wait, which makes the commit visible."""
        self.session.cancel()
        self._running.result()
