"""The source's assumptions about slots and publications, checked on a real server."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.deadline import until
from tests.enumerators.postgres import log
from tests.enumerators.postgres.database import Running, TestedDatabase

CREATE = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
MISSING_PUBLICATION = 'skipped loading publication "missing"'


def waiting_creation(database: TestedDatabase, name: str = "new") -> tuple[psycopg.Connection, Running]:
    """Begin to create a slot, which waits for an open transaction; return the session and the call."""
    session = database.session()
    creation = Running(lambda: session.execute(CREATE, [name]))
    database.wait_for("Lock transactionid", session)
    return session, creation


@pytest.fixture
def writing(database: TestedDatabase) -> psycopg.Connection:
    """A session with an open transaction that has written."""
    session = database.session()
    session.execute("CREATE TABLE t (id int PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)")
    return session


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
    one_row: TestedDatabase, call: Callable[[TestedDatabase], object]
) -> None:
    with one_row.slot_in_use() as (peek, other), pytest.raises(psycopg.errors.ObjectInUse) as refused:
        call(one_row)
    assert f"is active for PID {other.info.backend_pid}" in str(refused.value)
    assert refused.value.sqlstate == "55006"
    assert len(peek.result()) == 1
    assert len(one_row.peek()) == 1


def test_a_peek_that_is_cancelled_leaves_the_slot_free(one_row: TestedDatabase) -> None:
    with one_row.slot_in_use() as (peek, other):
        other.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            peek.result()
    assert len(one_row.peek()) == 1


@pytest.mark.usefixtures("writing")
def test_a_new_slot_waits_for_open_transactions_and_is_dropped_when_the_wait_is_cancelled(
    database: TestedDatabase,
) -> None:
    session, creation = waiting_creation(database)
    assert sorted(database.slots()) == sorted([database.slot, "new"])
    position = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'new'"
    assert database.one(position) is None
    session.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        creation.result()
    assert database.slots() == [database.slot]


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
def test_a_new_slot_that_waits_too_long_is_dropped(database: TestedDatabase, setting: str) -> None:
    with pytest.raises((psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
        database.session(**{setting: "50ms"}).execute(CREATE, ["new"])
    assert database.slots() == [database.slot]


def test_a_new_slot_waits_for_transactions_of_other_databases_and_not_for_readers(
    database: TestedDatabase,
) -> None:
    database.session().execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    database.session().execute(CREATE, ["new"])
    with database.server.connect() as elsewhere:
        elsewhere.execute("BEGIN; SELECT pg_current_xact_id()")
        _session, creation = waiting_creation(database, "newer")
        elsewhere.execute("COMMIT")
        creation.result()


@pytest.mark.usefixtures("writing")
def test_a_slot_whose_creation_is_interrupted_by_a_kill_is_gone_and_older_slots_stay(
    database: TestedDatabase,
) -> None:
    _session, creation = waiting_creation(database)
    database.server.kill()
    with pytest.raises(psycopg.OperationalError):
        creation.result()
    database.server.start()
    database.reconnect()
    assert database.slots() == [database.slot]


def test_a_slot_cannot_be_created_in_a_transaction_that_has_an_xid(database: TestedDatabase) -> None:
    session = database.session()
    session.execute("BEGIN; SELECT pg_current_xact_id()")
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        session.execute(CREATE, ["new"])


def test_an_existing_slot_is_not_created_again(database: TestedDatabase) -> None:
    with pytest.raises(psycopg.errors.DuplicateObject) as refused:
        database.make_slot(database.slot)
    assert refused.value.sqlstate == "42710"


def test_a_role_with_the_attribute_replication_needs_no_privilege_on_the_tables(
    one_row: TestedDatabase,
) -> None:
    with (
        one_row.server.role("REPLICATION") as role,
        one_row.server.connect(one_row.name, role=role) as session,
    ):
        assert len(log.peek(session, one_row.slot)) == 1
        session.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [one_row.slot])


def test_a_missing_publication_is_an_error_before_version_18_and_only_a_warning_since(
    one_row: TestedDatabase,
) -> None:
    warnings: list[tuple[str | None, str | None]] = []
    session = one_row.session()
    session.add_notice_handler(
        lambda diagnostic: warnings.append((diagnostic.sqlstate, diagnostic.message_primary))
    )
    if one_row.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "missing" does not exist'):
            log.peek(session, one_row.slot, publication="missing")
    else:
        assert log.peek(session, one_row.slot, publication="missing") == []
        assert warnings == [("55000", MISSING_PUBLICATION)]
        quiet = one_row.session(client_min_messages="error")
        quiet.add_notice_handler(lambda diagnostic: warnings.append((diagnostic.sqlstate, "not quiet")))
        assert log.peek(quiet, one_row.slot, publication="missing") == []
        assert len(warnings) == 1


def test_a_publication_counts_as_it_was_at_the_time_of_the_change(one_row: TestedDatabase) -> None:
    before = one_row.flushed()
    one_row.execute("DROP PUBLICATION p", "INSERT INTO t VALUES (2)")
    one_row.execute("CREATE PUBLICATION p FOR ALL TABLES")
    after = one_row.flushed()
    one_row.execute("INSERT INTO t VALUES (3)")

    def found(upto: int | None = None) -> list[object]:
        # A session whose peek failed is not used again: PostgreSQL 16.2 crashes when it is.
        session = one_row.session()
        return [change.new for each in log.peek(session, one_row.slot, upto) for change in each.changes]

    assert found(before) == [{"id": "1"}]
    if one_row.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "p" does not exist'):
            found()
    else:
        assert found() == [{"id": "1"}, {"id": "3"}]
    one_row.advance(after)
    assert found() == [{"id": "3"}]


def test_a_publication_created_after_the_slot_does_not_cover_the_changes_in_between(
    one_row: TestedDatabase,
) -> None:
    one_row.execute("CREATE PUBLICATION later FOR ALL TABLES", "INSERT INTO t VALUES (2)")
    session = one_row.session()
    if one_row.server.version < 18:
        with pytest.raises(psycopg.errors.UndefinedObject, match='publication "later" does not exist'):
            log.peek(session, one_row.slot, publication="later")
    else:
        (transaction,) = log.peek(session, one_row.slot, publication="later")
        assert transaction.changes[0].new == {"id": "2"}


def test_a_temporary_slot_is_seen_by_others_and_ends_with_its_session(database: TestedDatabase) -> None:
    session = database.session()
    session.execute("SELECT pg_create_logical_replication_slot('brief', 'pgoutput', true)")
    with pytest.raises(psycopg.errors.ObjectInUse):
        database.peek(slot="brief")
    assert log.peek(session, "brief") == []
    session.close()
    until(lambda: "brief" not in database.slots(), lambda: str(database.slots()))
