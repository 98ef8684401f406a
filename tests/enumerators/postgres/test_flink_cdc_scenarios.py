"""Scenarios of Flink CDC's test suites for PostgreSQL that no other test has, under their names there.

The suites are PostgresSourceITCase and NewlyAddedTableITCase of apache/flink-cdc.
A low watermark is the moment before a chunk is read, a high watermark the moment after; this source backfills
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_source.testing import Crashed, Step
from tests.enumerators.postgres.reading import Query, query
from tests.postgres_server import PostgresServer

TABLE = "CREATE TABLE customers (id int PRIMARY KEY, v text)"
ROWS = "INSERT INTO customers SELECT i, 'user_' || i FROM generate_series(1, 21) i"
CUSTOMERS = {"tables": "public.customers"}
CHANGES = (
    "UPDATE customers SET v = 'Hangzhou' WHERE id IN (3, 20)",
    "DELETE FROM customers WHERE id = 2",
    "INSERT INTO customers VALUES (2, 'Shanghai')",
    "UPDATE customers SET v = 'Shanghai' WHERE id = 3",
    "INSERT INTO customers VALUES (2001, 'user_22'), (2002, 'user_23')",
)


@pytest.fixture
def customers(postgres: PostgresServer) -> Iterator[Query]:
    """A query of the table, whose chunks have three of its 21 rows."""
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as customers:
        yield customers


def kinds(customers: Query) -> str:
    return "".join(sorted(op for op, _ in customers.ops()))


# PostgresSourceITCase


def test_read_single_table_with_single_parallelism_and_unbounded_chunk_first(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="3", parallelism="1") as customers:
        customers.write_among_chunks(
            "INSERT INTO customers VALUES (-100, 'below all bounds'), (100, 'above all bounds')"
        )


@pytest.mark.parametrize("when", ["pre high watermark", "post high watermark"])
def test_snapshot_only_mode_with_dml(postgres: PostgresServer, when: str) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, snapshot="only") as customers:
        before = customers.table("customers")
        customers.until_planned()
        if when == "pre high watermark":
            customers.execute(*CHANGES)
            before = customers.table("customers")
        customers.engine.run_batch()
        customers.batches()
        customers.write(*CHANGES[:2])
        assert customers.copy() == before
        assert set(kinds(customers)) == {"r"}


@pytest.mark.parametrize("parallelism", ["1", "4"])
def test_read_multiple_table_with_single_and_multiple_parallelism(
    postgres: PostgresServer, parallelism: str
) -> None:
    other = TABLE.replace("customers", "customers_1"), ROWS.replace("customers", "customers_1")
    with query(
        postgres, TABLE, ROWS, *other, tables="public.customers,public.customers_1", parallelism=parallelism,
        key=("_table", "id"),
    ) as customers:  # fmt: skip
        customers.until_planned()
        customers.execute(*CHANGES)
        customers.engine.run_batch()
        customers.write(*(change.replace("customers", "customers_1") for change in CHANGES))
        customers.check_copy("customers", "customers_1")


def test_new_lsn_committed_when_checkpoint(customers: Query) -> None:
    customers.read_all()
    before = customers.confirmed()
    customers.execute(*CHANGES)
    customers.engine.restart(available_now=True)
    customers.until_planned()
    assert customers.confirmed() == before
    customers.engine.run_batch()
    customers.catch_up()
    assert customers.confirmed() >= max(change["_lsn"] for change in customers.changes)


def test_commit_lsn_when_task_manager_failover(customers: Query) -> None:
    customers.read_all()
    before = customers.confirmed()
    customers.execute(*CHANGES)
    customers.engine.restart(available_now=True)
    customers.engine.crash_at(Step.SINK_WRITTEN)
    with pytest.raises(Crashed):
        customers.engine.run_batch()
    assert customers.confirmed() == before
    customers.catch_up()
    assert customers.confirmed() > before
    customers.check_copy()


def test_heart_beat(postgres: PostgresServer) -> None:
    """The slot advances while only other tables are written."""
    other = "CREATE TABLE other AS SELECT repeat('x', 100) AS filler"
    with query(postgres, TABLE, ROWS, other, **CUSTOMERS, heartbeatBytes="64k") as customers:
        customers.read_all()
        before = customers.confirmed()
        customers.write("INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 2000)")
        assert customers.confirmed() > before
        assert kinds(customers) == "r" * 21


# NewlyAddedTableITCase: a new table that matches the pattern is found when the query starts.


@pytest.fixture
def every_table(postgres: PostgresServer) -> Iterator[Query]:
    """A query of all tables that has read the first one."""
    with query(postgres, TABLE, ROWS, tables="public.*", key=("_table", "id")) as customers:
        customers.read_all()
        yield customers


def address(number: int) -> tuple[str, str]:
    return (
        f"CREATE TABLE address_{number} (id int PRIMARY KEY, v text)",
        f"INSERT INTO address_{number} SELECT i, 'China' FROM generate_series(1, 9) i",
    )


@pytest.mark.parametrize("is_log_ahead", [False, True])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_newly_added_table_for_exists_pipeline(every_table: Query, times: int, is_log_ahead: bool) -> None:
    for number in range(times):
        every_table.execute(*address(number))
        if is_log_ahead:
            every_table.write(f"UPDATE customers SET v = 'ahead {number}'")
        every_table.write(
            f"UPDATE address_{number} SET v = 'Beijing' WHERE id = 3", "DELETE FROM customers WHERE id = 9"
        )
    every_table.catch_up()
    every_table.check_copy("customers", *(f"address_{number}" for number in range(times)))


@pytest.mark.parametrize("step", [Step.OFFSET_RETURNED, Step.TASK_ENDED, Step.SINK_WRITTEN])
def test_job_manager_failover_for_newly_added_table(every_table: Query, step: Step) -> None:
    every_table.execute(*address(1), "UPDATE customers SET v = 'ahead'")
    every_table.engine.restart(available_now=True)
    every_table.engine.crash_at(step)
    with pytest.raises(Crashed):
        every_table.engine.process_all_available()
    every_table.write("UPDATE address_1 SET v = 'Beijing' WHERE id = 3")
    every_table.catch_up()
    every_table.check_copy("customers", "address_1", is_exact=False)


def test_a_transaction_that_wrote_a_new_table_before_it_was_published_is_not_lost(
    every_table: Query, postgres: PostgresServer
) -> None:
    every_table.execute(*address(1))
    with postgres.connect(every_table.name, autocommit=False) as session:
        session.execute("UPDATE address_1 SET v = 'not published yet' WHERE id = 5")
        every_table.restart_without_end()
        every_table.batches()
        session.commit()
    every_table.catch_up()
    every_table.catch_up()
    every_table.check_copy("customers", "address_1")
