"""The source's assumptions about slots and publications, checked on a real server."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.enumerators.postgres import log
from tests.enumerators.postgres.database import Running, TestedDatabase, wait_until

MISSING_PUBLICATION = 'skipped loading publication "missing"'


def slots(database: TestedDatabase) -> list[str]:
    return database.column("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")


@pytest.mark.parametrize(
    "call",
    [
        lambda database: database.advance(database.flushed()),
        lambda database: database.peek(),
        lambda database: database.execute(f"SELECT pg_drop_replication_slot('{database.slot}')"),
    ],
    ids=["advance", "peek", "drop"],
)
def test_a_slot_is_refused_while_a_peek_of_another_session_decodes(
    database: TestedDatabase, call: Callable[[TestedDatabase], object]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    other, blocking = database.session(), database.session()
    # The decoder reads pg_publication.
    blocking.execute("BEGIN; LOCK TABLE pg_publication IN ACCESS EXCLUSIVE MODE")
    peek = Running(lambda: log.peek(other, database.slot))
    database.wait_for("Lock relation", other)
    with pytest.raises(psycopg.errors.ObjectInUse, match=r"is active for PID \d+") as refused:
        call(database)
    assert refused.value.sqlstate == "55006"
    blocking.execute("ROLLBACK")
    assert len(peek.result()) == 1
    assert len(database.peek()) == 1


def test_a_peek_that_is_cancelled_leaves_the_slot_free(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    other, blocking = database.session(), database.session()
    blocking.execute("BEGIN; LOCK TABLE pg_publication IN ACCESS EXCLUSIVE MODE")
    peek = Running(lambda: log.peek(other, database.slot))
    database.wait_for("Lock relation", other)
    other.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        peek.result()
    blocking.execute("ROLLBACK")
    assert len(database.peek()) == 1


def test_a_new_slot_waits_for_open_transactions_and_is_dropped_when_the_wait_is_cancelled(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    writing, creating = database.session(), database.session()
    writing.execute("BEGIN; INSERT INTO t VALUES (1)")
    before = slots(database)
    creation = Running(
        lambda: creating.execute("SELECT pg_create_logical_replication_slot('new', 'pgoutput')")
    )
    database.wait_for("Lock transactionid", creating)
    assert sorted(slots(database)) == sorted([*before, "new"])
    assert (
        database.one("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'new'") is None
    )
    creating.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        creation.result()
    assert slots(database) == before


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_a_new_slot_that_waits_too_long_is_dropped(database: TestedDatabase, setting: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    writing, creating = database.session(), database.session(**{setting: "50ms"})
    writing.execute("BEGIN; INSERT INTO t VALUES (1)")
    before = slots(database)
    with pytest.raises((psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        creating.execute("SELECT pg_create_logical_replication_slot('new', 'pgoutput')")
    assert slots(database) == before


def test_a_new_slot_waits_for_transactions_of_other_databases_and_not_for_readers(
    database: TestedDatabase,
) -> None:
    reading, creating = database.session(), database.session()
    reading.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    creating.execute("SELECT pg_create_logical_replication_slot('new', 'pgoutput')")
    with database.server.connect() as elsewhere:
        elsewhere.execute("BEGIN; SELECT pg_current_xact_id()")
        creation = Running(
            lambda: creating.execute("SELECT pg_create_logical_replication_slot('newer', 'pgoutput')")
        )
        database.wait_for("Lock transactionid", creating)
        elsewhere.execute("COMMIT")
        creation.result()


def test_a_slot_whose_creation_is_interrupted_by_a_kill_is_gone_and_older_slots_stay(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    writing, creating = database.session(), database.session()
    writing.execute("BEGIN; INSERT INTO t VALUES (1)")
    creation = Running(
        lambda: creating.execute("SELECT pg_create_logical_replication_slot('new', 'pgoutput')")
    )
    database.wait_for("Lock transactionid", creating)
    database.server.kill()
    with pytest.raises(psycopg.OperationalError):
        creation.result()
    database.server.start()
    database.reconnect()
    assert slots(database) == [database.slot]


def test_a_slot_cannot_be_created_in_a_transaction_that_has_an_xid(database: TestedDatabase) -> None:
    session = database.session()
    session.execute("BEGIN; SELECT pg_current_xact_id()")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        session.execute("SELECT pg_create_logical_replication_slot('new', 'pgoutput')")


def test_an_existing_slot_is_not_created_again(database: TestedDatabase) -> None:
    with pytest.raises(psycopg.errors.DuplicateObject) as refused:
        database.make_slot(database.slot)
    assert refused.value.sqlstate == "42710"


def test_reading_or_advancing_a_dropped_slot_is_an_error(database: TestedDatabase) -> None:
    database.execute(f"SELECT pg_drop_replication_slot('{database.slot}')")
    for call in (database.peek, lambda: database.advance(database.flushed())):
        with pytest.raises(psycopg.errors.UndefinedObject, match="does not exist") as refused:
            call()
        assert refused.value.sqlstate == "42704"


def test_a_slot_is_read_in_its_own_database_only(database: TestedDatabase) -> None:
    with (
        database.server.connect() as elsewhere,
        pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="not created in this database"),
    ):
        log.peek(elsewhere, database.slot)


def test_a_role_without_the_attribute_replication_is_refused(database: TestedDatabase) -> None:
    with (
        database.server.role() as role,
        database.server.connect(database.name, role=role) as session,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied to use replication"),
    ):
        log.peek(session, database.slot)


def test_a_role_with_the_attribute_replication_needs_no_privilege_on_the_tables(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with (
        database.server.role("REPLICATION") as role,
        database.server.connect(database.name, role=role) as session,
    ):
        assert len(log.peek(session, database.slot)) == 1
        session.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [database.slot])


def test_a_slot_loses_its_wal_beyond_the_limit_and_its_status_says_so(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    status = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
    try:
        wait_until(lambda: database.one("SHOW max_slot_wal_keep_size") == "1MB", lambda: "another limit")
        assert database.one(status, database.slot) == "reserved"
        for _ in range(3):
            database.execute("SELECT pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()")
        assert database.one(status, database.slot) == "unreserved"
        assert len(database.peek()) == 1
        database.execute("CHECKPOINT")
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    assert database.one(status, database.slot) == "lost"
    said = {
        16: ("invalidated because it exceeded the maximum reserved size", "cannot be advanced"),
        18: ('invalidated due to "wal_removed"', "can no longer access replication slot"),
    }
    peek_says, advance_says = said[database.server.version]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=peek_says) as refused:
        database.peek()
    assert refused.value.sqlstate == "55000"
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=advance_says):
        database.advance(database.flushed())


def test_a_missing_publication_is_an_error_before_version_18_and_only_a_warning_since(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    warnings: list[tuple[str | None, str | None]] = []
    session = database.session()
    session.add_notice_handler(
        lambda diagnostic: warnings.append((diagnostic.sqlstate, diagnostic.message_primary))
    )
    if database.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "missing" does not exist'):
            log.peek(session, database.slot, publication="missing")
    else:
        assert log.peek(session, database.slot, publication="missing") == []
        assert warnings == [("55000", MISSING_PUBLICATION)]
        quiet = database.session(client_min_messages="error")
        quiet.add_notice_handler(lambda diagnostic: warnings.append((diagnostic.sqlstate, "not quiet")))
        assert log.peek(quiet, database.slot, publication="missing") == []
        assert len(warnings) == 1


def test_a_missing_publication_is_not_noticed_while_nothing_changes(database: TestedDatabase) -> None:
    warnings: list[object] = []
    session = database.session()
    session.add_notice_handler(warnings.append)
    assert log.peek(session, database.slot, publication="missing") == []
    assert warnings == []


def test_a_publication_counts_as_it_was_at_the_time_of_the_change(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    before = database.flushed()
    database.execute("DROP PUBLICATION p", "INSERT INTO t VALUES (2)")
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    after = database.flushed()
    database.execute("INSERT INTO t VALUES (3)")

    def found(upto: int | None = None) -> list[object]:
        # A session whose peek failed is not used again: PostgreSQL 16.2 crashes when it is.
        session = database.session()
        return [change.new for each in log.peek(session, database.slot, upto) for change in each.changes]

    assert found(before) == [{"id": "1"}]
    if database.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "p" does not exist'):
            found()
    else:
        assert found() == [{"id": "1"}, {"id": "3"}]
    database.advance(after)
    assert found() == [{"id": "3"}]


def test_a_publication_created_after_the_slot_does_not_cover_the_changes_in_between(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    database.execute("CREATE PUBLICATION later FOR ALL TABLES", "INSERT INTO t VALUES (2)")
    session = database.session()
    if database.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "later" does not exist'):
            log.peek(session, database.slot, publication="later")
    else:
        (transaction,) = log.peek(session, database.slot, publication="later")
        assert transaction.changes[0].new == {"id": "2"}


def test_changes_of_a_table_are_not_sent_after_it_leaves_the_publication(database: TestedDatabase) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION q FOR TABLE t")
    database.advance(database.flushed())
    database.execute("INSERT INTO t VALUES (1)", "ALTER PUBLICATION q DROP TABLE t")
    database.execute("INSERT INTO t VALUES (2)", "ALTER PUBLICATION q ADD TABLE t")
    database.execute("INSERT INTO t VALUES (3)", "DROP TABLE t")
    found = log.peek(database.session(), database.slot, publication="q")
    assert [change.new for each in found for change in each.changes] == [{"id": "1"}, {"id": "3"}]


def test_a_temporary_slot_is_seen_by_others_and_ends_with_its_session(database: TestedDatabase) -> None:
    session = database.session()
    session.execute("SELECT pg_create_logical_replication_slot('brief', 'pgoutput', true)")
    with pytest.raises(psycopg.errors.ObjectInUse):
        database.peek(slot="brief")
    assert log.peek(session, "brief") == []
    session.close()
    wait_until(lambda: "brief" not in slots(database), lambda: str(slots(database)))


def test_a_slot_survives_the_end_of_its_creating_session_and_an_orderly_restart(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    everything = database.peek()
    database.server.restart()
    database.reconnect()
    assert database.peek() == everything
