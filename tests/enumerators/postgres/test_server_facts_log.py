"""The source's assumptions about the log and about windows of it, checked on a real server."""

from __future__ import annotations

import random

import psycopg
import pytest

from flip27_source.enumerators.postgres.split import parse_lsn
from tests.enumerators.postgres.database import TestedDatabase
from tests.enumerators.postgres.log import Transaction


def work(database: TestedDatabase, chance: random.Random, steps: int) -> None:
    """Interleave transactions of two sessions: small, large, rolled back, with savepoints, prepared."""
    database.execute("CREATE TABLE t (id bigserial PRIMARY KEY, v text)")
    sessions = [database.session(), database.session()]
    for step in range(steps):
        session = chance.choice(sessions)
        if session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            session.execute("BEGIN")
        rows = chance.choice([1, 1, 1, 3, 50, 900])
        session.execute("INSERT INTO t (v) SELECT %s FROM generate_series(1, %s)", ["x" * 60, rows])
        match chance.randrange(7):
            case 0:
                session.execute("ROLLBACK")
            case 1:
                session.execute("SAVEPOINT s; UPDATE t SET v = 'lost' WHERE id % 7 = 0; ROLLBACK TO s")
            case 2:
                session.execute("SAVEPOINT s; DELETE FROM t WHERE id % 50 = 0; RELEASE s; COMMIT")
            case 3:
                session.execute(f"PREPARE TRANSACTION 'p{step}'")
                session.execute(f"COMMIT PREPARED 'p{step}'")
            case _:
                session.execute("COMMIT")
    for session in sessions:
        session.execute("COMMIT")


def ends(everything: list[Transaction], last: int, chance: random.Random, count: int) -> list[int]:
    """Return ends of windows in ascending order: at records, one byte off, and anywhere."""
    near = [lsn for transaction in everything for lsn in (transaction.final_lsn, transaction.end_lsn)]
    start = everything[0].final_lsn - 100
    found = {chance.choice(near) + chance.choice([-1, 0, 0, 0, 1]) for _ in range(count)}
    found |= {chance.randrange(start, last) for _ in range(count // 2)}
    return [*sorted(end for end in found if end < last), last]


def within(found: list[Transaction], first: int, end: int) -> list[Transaction]:
    return [transaction for transaction in found if first <= transaction.final_lsn < end]


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_advanced", [False, True], ids=["slot stays", "slot advances after each"])
def test_adjacent_windows_have_each_transaction_once_and_complete(
    database: TestedDatabase, is_advanced: bool, seed: int
) -> None:
    chance = random.Random(seed)
    first, found = database.confirmed(), []
    work(database, chance, steps=40)
    everything = database.peek()
    assert len(everything) > 10
    for end in ends(everything, database.flushed(), chance, count=16):
        found += within(database.peek(end), first, end)
        if is_advanced:
            assert database.advance(end) == end
            rest = database.peek()
            assert rest == [transaction for transaction in everything if transaction.final_lsn >= end]
        first = end
    assert found == everything


def test_a_commit_that_is_not_flushed_is_visible_but_missing_from_the_window_that_contains_it(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    session = database.session(synchronous_commit="off")
    found: list[tuple[int, int, list[Transaction]]] = []
    with database.server_setting("wal_writer_delay", "10s"):
        # If the WAL writer happens to write in between, another row is tried.
        for number in range(20):
            session.execute("INSERT INTO t VALUES (%s)", [number])
            inserted = parse_lsn(database.one("SELECT pg_current_wal_insert_lsn()::text"))
            before, missing = database.flushed(), database.peek(inserted)
            if database.flushed() == before < inserted:
                found.append((before, inserted, missing))
                break
    ((before, inserted, missing),) = found
    assert database.one("SELECT count(*) FROM t") == number + 1
    database.execute("CREATE TABLE flushes (id int)")
    (late,) = (each for each in database.peek(inserted) if each not in missing)
    assert before <= late.final_lsn < inserted
    assert late.changes[0] == {"id": str(number)}


def test_a_peek_returns_its_first_row_only_once_the_window_is_decoded_and_the_slot_is_free(
    database: TestedDatabase,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 50000)")
    session = database.session()
    query = (
        f"COPY (SELECT data FROM pg_logical_slot_peek_binary_changes('{database.slot}', NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'p')) TO STDOUT (FORMAT binary)"
    )
    with session.cursor().copy(query) as copy:
        rows = iter(copy)
        next(rows)
        database.advance(database.flushed())
        assert database.peek() == []
        assert sum(1 for _ in rows) > 50_000
