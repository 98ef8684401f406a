"""Transactions that are large, open for a long time, or prepared while tables are read."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.faults import OTHER, FaultyShop, caught_up, has_read


def run(engine: MicroBatchEngine, batches: int) -> None:
    for _ in range(batches):
        engine.run_batch()


def test_a_transaction_of_many_rows_is_delivered_in_one_batch(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(maxBytesPerTrigger="1m"))
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(11, 200010) n")
    before = len(engine.batches)
    caught_up(engine)
    sizes = [len(batch.rows) for batch in engine.batches[before:]]
    assert [size for size in sizes if size] == [200_000]
    seq = engine.schema.names.index("_seq")
    assert [row[seq] for row in engine.rows[10:]] == list(range(1, 200_001))


def test_chunks_wait_for_a_transaction_that_was_open_before_them_and_nothing_is_lost(
    shop: FaultyShop,
) -> None:
    engine = shop.engine()
    engine.run_batch()
    with shop.session() as writer:
        writer.execute(
            "BEGIN; UPDATE orders SET name = 'late' WHERE id = 1; INSERT INTO orders VALUES (11, 'x')"
        )
        run(engine, 4)
        shop.execute("UPDATE orders SET name = 'other' WHERE id = 2")
        run(engine, 2)
        writer.execute("COMMIT")
    caught_up(engine)
    shop.check_copy(engine)


def test_a_new_table_is_read_by_a_run_that_ends(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine(tables="public.*"))
    shop.execute(
        OTHER,
        "INSERT INTO other SELECT n, 'o' FROM generate_series(101, 109) n",
        "INSERT INTO orders VALUES (11, 'x')",
    )
    caught_up(engine)
    assert sorted(shop.ops(engine)[10:]) == [("c", 11, "x"), *(("r", n, "o") for n in range(101, 110))]


def test_a_transaction_that_is_open_during_the_whole_snapshot_is_delivered_once(shop: FaultyShop) -> None:
    engine = has_read(shop.engine(maxRowsPerTrigger="4"))
    # The horizon has settled: transactions from now on do not hold chunks back.
    with shop.session() as writer:
        writer.execute("BEGIN; UPDATE orders SET name = 'late'; DELETE FROM orders WHERE id = 5")
        has_read(engine, 10)
        run(engine, 3)
        assert len(engine.rows) == 10
        writer.execute("COMMIT")
    caught_up(engine)
    assert [op for op, _, _ in shop.ops(engine)].count("u") == 10
    shop.check_copy(engine)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_prepared_during_the_snapshot_is_delivered_when_it_is_committed(
    shop: FaultyShop, end: str
) -> None:
    engine = has_read(shop.engine(maxRowsPerTrigger="4"))
    shop.execute("BEGIN", "UPDATE orders SET name = 'late'", f"PREPARE TRANSACTION '{shop.name}'")
    run(engine, 4)
    assert {op for op, _, _ in shop.ops(engine)} == {"r"}
    shop.execute(f"{end} PREPARED '{shop.name}'")
    caught_up(engine)
    assert [op for op, _, _ in shop.ops(engine)].count("u") == (10 if end == "COMMIT" else 0)
    shop.check_copy(engine)


def test_a_transaction_with_rolled_back_savepoints_has_only_the_remaining_changes(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    shop.execute(
        "BEGIN", "INSERT INTO orders VALUES (11, 'kept')", "SAVEPOINT s", "DELETE FROM orders",
        "ROLLBACK TO s", "UPDATE orders SET name = 'kept too' WHERE id = 1", "COMMIT",
    )  # fmt: skip
    caught_up(engine)
    assert shop.ops(engine)[10:] == [("c", 11, "kept"), ("u", 1, "kept too")]


READ_ALL = """
import json, sys
from flip27_source.testing import MicroBatchEngine
from tests.peak_memory import peak_mib

engine = MicroBatchEngine(json.loads(sys.argv[1]), available_now=True)
assert engine.trigger()
rows = sum(item.num_rows for task in engine.partitions() for item in engine.read(task))
print(json.dumps([rows, peak_mib()]))
"""


@pytest.mark.slow
def test_a_transaction_of_a_million_rows_needs_less_than_512_mb(shop: FaultyShop) -> None:
    columns = ", ".join(f"c{n} text" for n in range(8))
    shop.execute(f"CREATE TABLE wide (id int PRIMARY KEY, n bigint, {columns})")
    slot = f"million_{shop.name}"
    options = {
        **shop.options, "tables": "public.wide", "snapshot": "never", "startingLsn": "earliest",
        "slotName": slot, "maxBytesPerTrigger": "2g",
    }  # fmt: skip
    shop.execute(f"CREATE PUBLICATION {slot} FOR TABLE wide")
    shop.one("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')::text", slot)
    values = ", ".join("md5(n::text)" for _ in range(8))
    shop.execute(f"INSERT INTO wide SELECT n, n, {values} FROM generate_series(1, 1000000) n")
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, json.dumps(options)], stdout=subprocess.PIPE, text=True, check=True
    )
    rows, megabytes = json.loads(done.stdout)
    assert rows == 1_000_000
    assert megabytes < 512
