"""A replica made from snapshot and log equals the table, whatever happens meanwhile."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.enumerators.postgres.database import TestedDatabase
from tests.enumerators.postgres.faults import caught_up
from tests.postgres_server import PostgresServer
from tests.replica import TABLE, Writers, copy_of, rows_of
from tests.table_audit import AUDIT, audited_table, complaint, complaints

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
CRASH_STEPS = [step for step in Step if step not in (Step.STATE_WRITE, Step.REPORT_WRITE)]


class Shop(TestedDatabase):
    """A database with one table that three sessions write, and the options of a query that reads it."""

    options: dict[str, str]
    sessions: list[psycopg.Connection]
    writers: Writers


@contextmanager
def shop(server: PostgresServer, seed: int, **options: str) -> Iterator[Shop]:
    """Make a table of 60 rows, which is read in chunks of 7, and three writers."""
    with (
        server.database() as name,
        tempfile.TemporaryDirectory() as location,
        closing(Shop(server=server, name=name)) as shop,
    ):
        shop.execute(
            TABLE.format(name="public.orders", key="int"),
            "INSERT INTO orders SELECT 3 * i, 'n' || i, repeat('y', 4000) FROM generate_series(0, 59) i",
        )
        chunks = {"snapshotChunkRows": "7", "maxLogLagDuringSnapshot": "1k", "stateLocation": location}
        shop.options = server.options(name, tables="public.orders") | chunks | options
        shop.sessions = [shop.session() for _ in range(3)]
        shop.writers = Writers(shop.sessions, "public.orders", seed=seed)
        yield shop
        shop.writers.finish()


def batch_among_writes(engine: MicroBatchEngine, writers: Writers, rng: random.Random) -> None:
    """Run a batch; sessions write before it is planned, and between its plan and its tasks."""
    writers.act(rng.randrange(12))
    if engine.logs.has_uncommitted or engine.trigger():
        writers.act(rng.randrange(12))
        engine.run_batch()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_equals_the_table_and_every_change_fits(postgres: PostgresServer, seed: int) -> None:
    rng = random.Random(seed)
    with shop(postgres, seed, parallelism="1") as orders:
        engine = MicroBatchEngine(orders.options)
        engine.run_batch()  # makes the slot, which would wait for open transactions
        for _ in range(30):
            batch_among_writes(engine, orders.writers, rng)
        orders.writers.finish()
        caught_up(engine)
        assert engine.rows
        assert copy_of(engine.rows) == rows_of(orders.control, "orders")
        engine.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_crashes_of_drivers_and_tasks_neither_lose_nor_invent_changes(
    postgres: PostgresServer, seed: int
) -> None:
    rng = random.Random(seed)
    with shop(postgres, seed) as orders:
        engine = MicroBatchEngine(orders.options)
        engine.run_batch()
        for _ in range(40):
            if rng.random() < 0.5:
                engine.crash_at(rng.choice(CRASH_STEPS))
            try:
                batch_among_writes(engine, orders.writers, rng)
            except Crashed:
                engine.restart()
        orders.writers.finish()
        engine.itinerary.crash_points.clear()
        caught_up(engine)
        assert copy_of(engine.rows, is_exact=False) == rows_of(orders.control, "orders")
        engine.stop()


def test_the_changes_of_each_key_equal_those_recorded_by_triggers_in_order(postgres: PostgresServer) -> None:
    rng = random.Random(3)
    # Each batch has one chunk: there are writes before and while each chunk is read.
    with shop(postgres, 3, tables="public.audited", maxRowsPerTrigger="7", parallelism="1") as orders:
        orders.control.execute(AUDIT)
        orders.control.execute(audited_table("public.audited", 60))
        writers = Writers(orders.sessions, "public.audited", seed=3)
        engine = MicroBatchEngine(orders.options)
        engine.run_batch()
        for _ in range(30):
            batch_among_writes(engine, writers, rng)
        writers.finish()
        caught_up(engine)
        assert complaints(orders.control, "public.audited", engine.rows, is_exact=True) == []
        assert engine.rows
        engine.stop()


@pytest.mark.parametrize(
    ("events", "snapshot", "said"),
    [
        ([("u", 8, "b"), ("d", 9, None)], ["a"], None),
        ([("d", 9, None)], ["b"], None),
        ([("d", 9, None)], [], None),
        ([("u", 8, "b")], ["a"], "and the triggers have noted"),
        ([("d", 9, None), ("u", 8, "b")], ["a"], "and the triggers have noted"),
        ([("c", 7, "a"), ("u", 8, "b"), ("d", 9, None)], [], None),
        ([("c", 7, "a"), ("c", 7, "a"), ("u", 8, "b"), ("d", 9, None)], [], "and the triggers have noted"),
        ([("d", 9, None)], ["a"], "the snapshot has"),
        ([], ["b"], "the snapshot has"),
        ([], [], None),
    ],
)
def test_an_audit_notices_missing_repeated_and_reordered_changes(
    events: list[tuple[str, int, str | None]], snapshot: list[str | None], said: str | None
) -> None:
    told = complaint([("c", 7, "a"), ("u", 8, "b"), ("d", 9, None)], events, snapshot)
    assert (told is None) if said is None else (said in (told or ""))


def test_an_audit_without_repeated_chunks_allows_no_newer_row() -> None:
    noted = [("c", 7, "a"), ("u", 8, "b")]
    assert complaint(noted, noted[1:], ["b"]) is None
    assert "the snapshot has" in (complaint(noted, noted[1:], ["b"], is_exact=True) or "")
    assert complaint(noted, noted[1:], ["a"], is_exact=True) is None
