"""The scenarios of Flink CDC's test suites for PostgreSQL, under their names in these suites.

The suites are PostgresScanFetchTaskTest, PostgresSourceITCase and NewlyAddedTableITCase of apache/flink-cdc.
A low watermark is the moment before a chunk is read, a high watermark the moment after; this source backfills
nothing.
"""

from __future__ import annotations

import pytest

from flip27_source.testing import Crashed, Step, Victim
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


def run(found: Query, *statements: str) -> None:
    for statement in statements:
        found.control.execute(statement)


def among(found: Query, *statements: str) -> None:
    """Run these statements between the plan of the chunks and their reads; then read everything."""
    found.until_planned()
    run(found, *statements)
    found.engine.run_batch()
    found.batches()
    found.catch_up()
    assert found.copy() == found.table("customers")


def kinds(found: Query) -> str:
    return "".join(sorted(op for op, _ in found.ops()))


# PostgresScanFetchTaskTest


@pytest.mark.parametrize(
    "statements",
    [
        CHANGES,
        ("INSERT INTO customers VALUES (30, 'new'), (-1, 'new')",),
        ("DELETE FROM customers WHERE id < 9",),
    ],
    ids=["changing", "insert", "delete"],
)
def test_changing_inserting_and_deleting_data_in_snapshot_scan(
    postgres: PostgresServer, statements: tuple[str, ...]
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        among(found, *statements)
        assert set(kinds(found)) == {"r"}


def test_snapshot_scan_skip_backfill_with_post_low_watermark(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        among(found, "UPDATE customers SET v = 'after the low watermark' WHERE id = 5")
        assert [op for op in found.ops() if op[1] == "5"] == [("r", "5")]


def test_snapshot_scan_skip_backfill_with_pre_high_watermark(postgres: PostgresServer) -> None:
    """The change is committed after some chunks were read and before the others are."""
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="3", parallelism="1") as found:
        while not found.engine.rows:
            found.until_planned()
            found.engine.run_batch()
        run(found, "UPDATE customers SET v = v || ' changed' WHERE id IN (1, 21)")
        found.batches()
        found.catch_up()
        assert found.copy() == found.table("customers")
        changed = [op for op in found.ops() if op[1] in ("1", "21")]
        assert sorted(changed) == [("r", "1"), ("r", "21"), ("u", "1")]


def test_multiple_splits_with_backfill(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="6") as found:
        found.until_planned()
        for statement in CHANGES:
            run(found, statement)
            found.engine.run_batch()
            found.engine.trigger()
        found.batches()
        found.catch_up()
        assert found.copy() == found.table("customers")


def test_snapshot_fetch_size(postgres: PostgresServer) -> None:
    many = "INSERT INTO customers SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i"
    with query(postgres, TABLE, many, **CUSTOMERS, snapshotChunkRows="2000") as found:
        found.batches()
        found.catch_up()
        assert len(found.ops()) == 5000
        assert found.copy() == found.table("customers")


# PostgresSourceITCase


@pytest.mark.parametrize("parallelism", ["1", "4"])
def test_read_single_table_with_single_and_multiple_parallelism(
    postgres: PostgresServer, parallelism: str
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, parallelism=parallelism) as found:
        found.batches()
        found.catch_up()
        assert kinds(found) == "r" * 21
        run(found, *CHANGES)
        found.catch_up()
        assert found.ops()[21:] == [
            ("u", "3"), ("u", "20"), ("d", "2"), ("c", "2"), ("u", "3"), ("c", "2001"), ("c", "2002")
        ]  # fmt: skip
        assert found.copy() == found.table("customers")


@pytest.mark.parametrize("parallelism", ["1", "4"])
def test_read_multiple_table_with_single_and_multiple_parallelism(
    postgres: PostgresServer, parallelism: str
) -> None:
    other = TABLE.replace("customers", "customers_1"), ROWS.replace("customers", "customers_1")
    with query(
        postgres, TABLE, ROWS, *other, tables="public.customers,public.customers_1", parallelism=parallelism,
        key=("_table", "id"),
    ) as found:  # fmt: skip
        found.until_planned()
        run(found, *CHANGES)
        found.engine.run_batch()
        run(found, *(change.replace("customers", "customers_1") for change in CHANGES))
        found.catch_up()
        copied = found.copy()
        assert copied == sorted(found.table("customers") + found.table("customers_1"), key=repr)


PHASES = ["snapshot", "stream"]


@pytest.mark.parametrize("parallelism", ["1", "4"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("victim", [Victim.EXECUTOR, Victim.DRIVER], ids=["task_manager", "job_manager"])
def test_task_manager_and_job_manager_failover(
    postgres: PostgresServer, victim: Victim, phase: str, parallelism: str
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, parallelism=parallelism) as found:
        if phase == "stream":
            found.batches()
            found.catch_up()
            found.restart_without_end()
        run(found, *CHANGES[:2])
        step = Step.ROWS_READ if victim is Victim.EXECUTOR else Step.TASK_ENDED
        found.engine.crash_at(step, victim=victim)
        try:
            found.until_planned()
            found.engine.run_batch()
        except Crashed:
            found.engine.restart()
        run(found, *CHANGES[2:])
        found.engine.itinerary.crash_points.clear()
        found.catch_up()
        # A chunk that is read again may contain rows that are newer than its first snapshot.
        assert found.copy(is_exact=False) == found.table("customers")


def test_consuming_table_without_primary_key(postgres: PostgresServer) -> None:
    table = TABLE.replace(" PRIMARY KEY", "")
    with query(postgres, table, "ALTER TABLE customers REPLICA IDENTITY FULL", ROWS, **CUSTOMERS) as found:
        among(found, *CHANGES)


def test_read_single_table_with_single_parallelism_and_unbounded_chunk_first(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="3", parallelism="1") as found:
        among(found, "INSERT INTO customers VALUES (-100, 'below all bounds'), (100, 'above all bounds')")


def test_a_slot_stays_when_the_query_stops(postgres: PostgresServer) -> None:
    """testDebeziumSlotDropOnStop: there, an option drops the slot; here, ``flip27 postgres drop`` does."""
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        found.batches()
        found.engine.stop()
        row = found.control.execute(
            "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        ).fetchone()
        assert row == (1,)


def test_read_single_table_multiple_fetch(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="3", parallelism="1") as found:
        assert found.batches() >= 7
        found.catch_up()
        assert found.copy() == found.table("customers")


@pytest.mark.parametrize("when", ["pre high watermark", "post high watermark"])
def test_snapshot_only_mode_with_dml(postgres: PostgresServer, when: str) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, snapshot="only") as found:
        before = found.table("customers")
        found.until_planned()
        if when == "pre high watermark":
            run(found, *CHANGES)
            before = found.table("customers")
        found.engine.run_batch()
        found.batches()
        run(found, *CHANGES[:2])
        found.catch_up()
        assert found.copy() == before
        assert set(kinds(found)) == {"r"}


@pytest.mark.parametrize("statement", CHANGES)
def test_skip_and_enable_backfill_with_dml_pre_high_and_post_low_watermark(
    postgres: PostgresServer, statement: str
) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS, maxRowsPerTrigger="9", parallelism="1") as found:
        if statement == CHANGES[2]:
            run(found, CHANGES[1])
        among(found, statement)


def confirmed(found: Query) -> int:
    row = found.control.execute(
        "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_new_lsn_committed_when_checkpoint(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        found.batches()
        found.catch_up()
        before = confirmed(found)
        run(found, *CHANGES)
        found.engine.restart(available_now=True)
        found.until_planned()
        assert confirmed(found) == before
        found.engine.run_batch()
        found.catch_up()
        assert confirmed(found) >= max(change["_lsn"] for change in found.changes)


def test_commit_lsn_when_task_manager_failover(postgres: PostgresServer) -> None:
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        found.batches()
        found.catch_up()
        before = confirmed(found)
        run(found, *CHANGES)
        found.engine.restart(available_now=True)
        found.engine.crash_at(Step.SINK_WRITTEN)
        with pytest.raises(Crashed):
            found.engine.run_batch()
        assert confirmed(found) == before
        found.catch_up()
        assert confirmed(found) > before
        assert found.copy() == found.table("customers")


def test_table_with_chunk_column_of_no_primary_key(postgres: PostgresServer) -> None:
    """The table is cut by the index of its replica identity instead of its primary key."""
    with query(
        postgres,
        "CREATE TABLE customers (id int PRIMARY KEY, phone text NOT NULL UNIQUE, v text)",
        "ALTER TABLE customers REPLICA IDENTITY USING INDEX customers_phone_key",
        "INSERT INTO customers SELECT i, '555-' || 100 - i, 'user' FROM generate_series(1, 21) i",
        **CUSTOMERS, columns=("id", "phone", "v"), key=("phone",),
    ) as found:  # fmt: skip
        among(
            found,
            "UPDATE customers SET v = 'Hangzhou' WHERE id = 3",
            "UPDATE customers SET phone = '556' WHERE id = 4",
            "DELETE FROM customers WHERE id = 5",
        )


def test_heart_beat(postgres: PostgresServer) -> None:
    """The slot advances while only other tables are written."""
    other = "CREATE TABLE other AS SELECT repeat('x', 100) AS filler"
    with query(postgres, TABLE, ROWS, other, **CUSTOMERS, heartbeatBytes="64k") as found:
        found.batches()
        found.catch_up()
        before = confirmed(found)
        run(found, "INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 2000)")
        found.catch_up()
        assert confirmed(found) > before
        assert kinds(found) == "r" * 21


def test_append_only(postgres: PostgresServer) -> None:
    """Every change is a separate row with its operation."""
    with query(postgres, TABLE, ROWS, **CUSTOMERS) as found:
        found.batches()
        found.catch_up()
        run(found, *CHANGES)
        found.catch_up()
        assert kinds(found) == "cccd" + "r" * 21 + "uuu"


# NewlyAddedTableITCase: a new table that matches the pattern is found when the query starts.

ALL = {"tables": "public.*"}
EVERY_ROW = ("_table", "id")


def address(number: int) -> tuple[str, str]:
    return (
        f"CREATE TABLE address_{number} (id int PRIMARY KEY, v text)",
        f"INSERT INTO address_{number} SELECT i, 'China' FROM generate_series(1, 9) i",
    )


def check_all(found: Query, *tables: str) -> None:
    copied = found.copy()
    assert copied == sorted((row for table in tables for row in found.table(table)), key=repr)


@pytest.mark.parametrize("is_log_ahead", [False, True])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_newly_added_table_for_exists_pipeline(
    postgres: PostgresServer, times: int, is_log_ahead: bool
) -> None:
    tables = ["customers"]
    with query(postgres, TABLE, ROWS, **ALL, key=EVERY_ROW) as found:
        found.batches()
        found.catch_up()
        for number in range(times):
            run(found, *address(number))
            tables.append(f"address_{number}")
            if is_log_ahead:
                run(found, f"UPDATE customers SET v = 'ahead {number}'")
            found.catch_up()
            run(
                found,
                f"UPDATE address_{number} SET v = 'Beijing' WHERE id = 3",
                "DELETE FROM customers WHERE id = 9",
            )
            found.catch_up()
        found.catch_up()
        check_all(found, *tables)


@pytest.mark.parametrize("step", [Step.OFFSET_RETURNED, Step.TASK_ENDED, Step.SINK_WRITTEN])
def test_job_manager_failover_for_newly_added_table(postgres: PostgresServer, step: Step) -> None:
    with query(postgres, TABLE, ROWS, **ALL, key=EVERY_ROW) as found:
        found.batches()
        found.catch_up()
        run(found, *address(1), "UPDATE customers SET v = 'ahead'")
        found.engine.restart(available_now=True)
        found.engine.crash_at(step)
        with pytest.raises(Crashed):
            found.engine.process_all_available()
        run(found, "UPDATE address_1 SET v = 'Beijing' WHERE id = 3")
        found.catch_up()
        found.catch_up()
        assert sorted(found.copy(is_exact=False), key=repr) == sorted(
            found.table("customers") + found.table("address_1"), key=repr
        )


def test_a_transaction_that_wrote_a_new_table_before_it_was_published_is_not_lost(
    postgres: PostgresServer,
) -> None:
    with query(postgres, TABLE, ROWS, **ALL, key=EVERY_ROW) as found:
        found.batches()
        found.catch_up()
        run(found, *address(1))
        with postgres.connect(found.control.info.dbname, autocommit=False) as session:
            session.execute("UPDATE address_1 SET v = 'not published yet' WHERE id = 5")
            found.restart_without_end()
            found.batches()
            session.commit()
        found.catch_up()
        found.catch_up()
        check_all(found, "customers", "address_1")
