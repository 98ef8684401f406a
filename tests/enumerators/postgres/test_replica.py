"""A replica made from snapshot and log equals the table, whatever happens meanwhile."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from flip27_source.testing import Crashed, MicroBatchEngine, Step
from tests.postgres_server import PostgresServer
from tests.replica import TABLE, Replica, Writers, rows_of
from tests.table_audit import AUDIT, audited_table, complaint, complaints

SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
CRASH_STEPS = [step for step in Step if step not in (Step.STATE_WRITE, Step.REPORT_WRITE)]


@dataclass(frozen=True)
class Shop:
    """A database with one table that sessions write."""

    options: dict[str, str]
    control: psycopg.Connection
    sessions: list[psycopg.Connection]
    writers: Writers


@contextmanager
def shop(
    server: PostgresServer,
    seed: int,
    *,
    key_type: str = "int",
    key: Callable[[int], Any] = lambda number: number,
    rows: int = 60,
    **options: str,
) -> Iterator[Shop]:
    """Make a table of ``rows`` rows, which is read in chunks of 7, and three writers."""
    with ExitStack() as stack:
        database = stack.enter_context(server.database())
        control, *sessions = (stack.enter_context(server.connect(database)) for _ in range(4))
        control.execute(TABLE.format(name="public.orders", key=key_type))
        for number in range(rows):
            control.execute(
                "INSERT INTO orders VALUES (%s, %s, %s)", [key(3 * number), f"n{number}", "y" * 4000]
            )
        location = stack.enter_context(tempfile.TemporaryDirectory())
        given = {
            "enumerator": "postgres", "host": "127.0.0.1", "port": str(server.port), "database": database,
            "user": "postgres", "tables": "public.orders", "snapshotChunkRows": "7",
            "maxLogLagDuringSnapshot": "1k", "stateLocation": location, **options,
        }  # fmt: skip
        writers = Writers(sessions, "public.orders", seed=seed, key=key)
        yield Shop(given, control, sessions, writers)
        writers.finish()


def batch_among_writes(engine: MicroBatchEngine, writers: Writers, rng: random.Random) -> None:
    """Run a batch; sessions write before it is planned, and between its plan and its tasks."""
    writers.act(rng.randrange(12))
    if engine.logs.has_uncommitted or engine.trigger():
        writers.act(rng.randrange(12))
        engine.run_batch()


def catch_up(engine: MicroBatchEngine) -> None:
    """Read everything that is available, in a run that ends."""
    engine.restart(available_now=True)
    engine.process_all_available()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_equals_the_table_and_every_change_fits(postgres: PostgresServer, seed: int) -> None:
    rng = random.Random(seed)
    with shop(postgres, seed, parallelism="1") as found:
        engine = MicroBatchEngine(found.options)
        engine.run_batch()  # makes the slot, which would wait for open transactions
        for _ in range(30):
            batch_among_writes(engine, found.writers, rng)
        found.writers.finish()
        catch_up(engine)
        replica = Replica()
        replica.apply(engine.rows)
        assert replica.rows == rows_of(found.control, "orders")
        assert engine.rows
        engine.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_crashes_of_drivers_and_tasks_neither_lose_nor_invent_changes(
    postgres: PostgresServer, seed: int
) -> None:
    rng = random.Random(seed)
    with shop(postgres, seed) as found:
        engine = MicroBatchEngine(found.options)
        engine.run_batch()
        for _ in range(40):
            if rng.random() < 0.5:
                engine.crash_at(rng.choice(CRASH_STEPS))
            try:
                batch_among_writes(engine, found.writers, rng)
            except Crashed:
                engine.restart()
        found.writers.finish()
        engine.itinerary.crash_points.clear()
        catch_up(engine)
        replica = Replica(is_exact=False)
        replica.apply(engine.rows)
        assert replica.rows == rows_of(found.control, "orders")
        engine.stop()


def test_the_changes_of_each_key_equal_those_recorded_by_triggers_in_order(
    postgres: PostgresServer,
) -> None:
    rng = random.Random(3)
    # Each batch has one chunk: there are writes before and while each chunk is read.
    with shop(postgres, 3, tables="public.audited", maxRowsPerTrigger="7", parallelism="1") as found:
        found.control.execute(AUDIT)
        found.control.execute(audited_table("public.audited", 60))
        writers = Writers(found.sessions, "public.audited", seed=3)
        engine = MicroBatchEngine(found.options)
        engine.run_batch()
        for _ in range(30):
            batch_among_writes(engine, writers, rng)
        writers.finish()
        catch_up(engine)
        assert complaints(found.control, "public.audited", engine.rows, is_exact=True) == []
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
