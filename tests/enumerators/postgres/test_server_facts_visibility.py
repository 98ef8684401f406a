"""The source's assumptions about snapshots together with the log, checked on a real server.

A commit that waits for a synchronous standby is in the log but not yet visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.deadline import until
from tests.enumerators.postgres.database import Running, TestedDatabase, WaitingCommit

SNAPSHOT = "SELECT pg_current_snapshot()::text"


class Snapshot:
    """The present snapshot, parsed from PostgreSQL's ``xmin:xmax:xip``."""

    def __init__(self, database: TestedDatabase) -> None:
        self.text = database.one(SNAPSHOT)
        xmin, xmax, _running = self.text.split(":")
        self.xmin, self.xmax = int(xmin), int(xmax)


@pytest.fixture
def waiting(database: TestedDatabase) -> Iterator[Callable[[str], WaitingCommit]]:
    """A function that runs a statement whose commit waits for a standby."""
    database.execute("SET synchronous_commit = local")
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    commits: list[WaitingCommit] = []

    def start(statement: str) -> WaitingCommit:
        commits.append(WaitingCommit(database, statement))
        return commits[-1]

    with database.server_setting("synchronous_standby_names", "nobody"):
        yield start
        for commit in commits:
            commit.end()


def is_visible(database: TestedDatabase, xid: int, snapshot: str) -> bool:
    return database.one("SELECT pg_visible_in_snapshot(%s::text::xid8, %s::pg_snapshot)", str(xid), snapshot)


def ids(database: TestedDatabase) -> list[int]:
    return database.column("SELECT id FROM t ORDER BY id")


def test_a_commit_that_waits_for_a_standby_is_decoded_but_not_visible(
    database: TestedDatabase, waiting: Any
) -> None:
    before = Snapshot(database)
    commit = waiting("INSERT INTO t VALUES (2)")
    last = database.peek()[-1]
    assert last.changes[0] == {"id": "2"}
    assert last.final_lsn < database.flushed()
    during = Snapshot(database)
    assert ids(database) == [1]
    assert not is_visible(database, last.xid, during.text)
    assert not is_visible(database, last.xid, before.text)
    commit.end()
    assert ids(database) == [1, 2]
    assert is_visible(database, last.xid, Snapshot(database).text)


def test_a_new_xid_is_above_all_transactions_in_the_log_but_xmax_of_a_snapshot_is_not(
    database: TestedDatabase, waiting: Any
) -> None:
    commit = waiting("INSERT INTO t VALUES (2)")
    last = database.peek()[-1]
    s0 = Snapshot(database)
    assert last.final_lsn < database.flushed()
    # xmax is the newest ended transaction plus one: the waiting transaction is not below it.
    assert s0.xmax <= last.xid
    x0 = int(database.one("SELECT pg_current_xact_id()::text"))
    assert x0 > last.xid
    later = Snapshot(database)
    assert later.xmin >= s0.xmax
    assert ids(database) == [1]
    assert not later.xmin > x0
    commit.end()
    assert Snapshot(database).xmin > x0
    assert ids(database) == [1, 2]


def test_a_commit_before_the_start_of_a_slot_may_be_neither_decoded_nor_visible_once_the_slot_exists(
    database: TestedDatabase, waiting: Any
) -> None:
    first, second, creating = (database.session(synchronous_commit="local") for _ in range(3))
    slot = f"late_{database.name}"

    def waited_for() -> list[str]:
        return database.column(
            "SELECT transactionid::text FROM pg_locks WHERE pid = %s AND NOT granted",
            creating.info.backend_pid,
        )

    first.execute("BEGIN; INSERT INTO t VALUES (10)")
    creation = Running(
        lambda: creating.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    )
    until(lambda: waited_for() != [], lambda: "the creation does not wait for the first transaction")
    before = waited_for()
    second.execute("BEGIN; INSERT INTO t VALUES (11)")
    first.execute("COMMIT")
    until(lambda: waited_for() not in ([], before), lambda: f"the creation waits for {waited_for()}")
    commit = waiting("INSERT INTO t VALUES (2)")
    writing = "SELECT backend_xid::text FROM pg_stat_activity WHERE pid = %s"
    hidden = int(database.one(writing, commit.session.info.backend_pid))
    second.execute("COMMIT")
    creation.result()
    assert database.peek(slot=slot) == []
    s0 = Snapshot(database)
    assert not is_visible(database, hidden, s0.text)
    assert ids(database) == [1, 10, 11]
    x0 = int(database.one("SELECT pg_current_xact_id()::text"))
    assert Snapshot(database).xmin <= x0
    commit.end()
    assert Snapshot(database).xmin > x0
    assert ids(database) == [1, 2, 10, 11]
    assert database.peek(slot=slot) == []


def test_begin_has_the_xid_that_the_snapshot_knows_even_with_subtransactions(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    session = database.session()
    session.execute("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1); SAVEPOINT b; INSERT INTO t VALUES (2)")
    session.execute("ROLLBACK TO b; INSERT INTO t VALUES (3); RELEASE a")
    xid = int(database.one("SELECT pg_current_xact_id()::text", session=session))
    during = Snapshot(database)
    session.execute("COMMIT")
    (transaction,) = database.peek()
    assert transaction.xid == xid
    assert str(xid) not in database.column("SELECT DISTINCT xmin::text FROM t")
    assert transaction.changes == [{"id": "1"}, {"id": "3"}]
    assert not is_visible(database, xid, during.text)
    assert is_visible(database, xid, Snapshot(database).text)
