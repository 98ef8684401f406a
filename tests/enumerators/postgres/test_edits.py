"""Edits of a query that reads tables: chunks are skipped or replayed, and shown in the view of splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flip27_source import edits
from flip27_source.errors import EditError, SplitReadError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop, has_read
from tests.postgres_server import PostgresServer
from tests.snapshots.spark_logs import view_rows


@pytest.fixture
def shop(postgres: PostgresServer) -> Iterator[FaultyShop]:
    """A shop with ten rows in three chunks; each batch reads one of them."""
    with faulty_shop(postgres, maxRowsPerTrigger="4", parallelism="1") as shop:
        yield shop


def splits(shop: FaultyShop) -> dict[str, Any]:
    """Return the rows of the view of splits, by number of the chunk or ``log``."""
    rows = view_rows("splits", find_lineages(shop.options["stateLocation"], {}))
    return {row["split_id"].rpartition("/")[2]: row for row in rows}


def chunk(shop: FaultyShop, number: int) -> str:
    oid = shop.one("SELECT 'orders'::regclass::oid::int")
    return f"public.orders/{oid}/{number}"


def ask(shop: FaultyShop, operation: str, split_id: str) -> None:
    plan = edits.plan(operation, state=shop.options["stateLocation"], why="a test", splits=[split_id])
    assert [change.split_id for change in plan.changes] == [split_id]
    edits.submit(plan)


def first_chunk_read(shop: FaultyShop, **options: str) -> MicroBatchEngine:
    engine = shop.engine(**options)
    engine.restart(available_now=True)
    assert len(has_read(engine, 4).rows) == 4
    return engine


def test_unassigned_chunks_are_shown_and_can_be_skipped(shop: FaultyShop) -> None:
    engine = first_chunk_read(shop, snapshotChunkRows="1")
    found = splits(shop)
    assert found.keys() == {"log", *map(str, range(10))}
    assert found["0"]["status"] in ("planned", "finished")
    assert found["9"]["status"] == "waiting"
    assert '"lower":["10"]' in found["9"]["split"]
    assert '"lag_bytes"' in found["log"]["split"]
    ask(shop, "skip", chunk(shop, 9))
    caught_up(engine)
    assert sorted(row[0] for row in engine.rows) == list(range(1, 10))


def test_a_skipped_chunk_is_never_read_but_changes_of_its_rows_are(shop: FaultyShop) -> None:
    engine = first_chunk_read(shop)
    for number in (1, 2):
        ask(shop, "skip", chunk(shop, number))
    shop.execute("UPDATE orders SET name = 'new' WHERE id IN (1, 5, 9)")
    caught_up(engine)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    rows = [("r", n, f"n{n}") for n in range(1, 5)]
    assert shop.ops(engine) == [*rows, ("u", 1, "new"), ("u", 5, "new"), ("u", 9, "new"), ("c", 11, "x")]
    assert splits(shop).keys() == {"log", "0"}


@pytest.mark.parametrize("policy", ["quarantine", "ignore"])
def test_the_log_does_not_wait_for_a_chunk_that_was_given_up(shop: FaultyShop, policy: str) -> None:
    shop.execute("ALTER TABLE orders ADD price numeric(4, 2)", "UPDATE orders SET price = 'NaN' WHERE id = 6")
    engine = caught_up(shop.engine(onSplitError=policy, maxSplitAttempts="1"))
    shop.execute("UPDATE orders SET name = 'new', price = 1 WHERE id IN (1, 6)")
    caught_up(engine)
    assert sorted(key for op, key, _ in shop.ops(engine) if op == "r") == [1, 2, 3, 4, 9, 10]
    assert shop.changes(engine) == [("u", 1, "new"), ("u", 6, "new")]
    if policy == "quarantine":
        ask(shop, "quarantine retry", chunk(shop, 1))
        shop.execute("DELETE FROM orders WHERE id = 5")
        caught_up(engine)
        caught_up(engine)
        shop.check_copy(engine, is_exact=False)


@pytest.mark.parametrize("policy", ["quarantine", "ignore"])
def test_a_window_of_the_log_that_cannot_be_read_stops_the_query_and_is_read_once_it_can(
    shop: FaultyShop, policy: str
) -> None:
    shop.execute("ALTER TABLE orders ADD price numeric(4, 2)")
    engine = caught_up(shop.engine(onSplitError=policy, maxSplitAttempts="1"))
    shop.execute("INSERT INTO orders VALUES (11, 'a', 1)", "INSERT INTO orders VALUES (12, 'b', 'NaN')")
    with pytest.raises(SplitReadError, match="value 'NaN', which does not fit"):
        caught_up(engine)
    shop.execute("DELETE FROM orders WHERE id = 11")
    with pytest.raises(SplitReadError, match="value 'NaN', which does not fit"):
        caught_up(engine)
    fields = [pa.field("price", pa.string()) if field.name == "price" else field for field in engine.schema]
    with_texts = caught_up(shop.engine(pa.schema(fields), after=engine, onSplitError=policy))
    assert shop.changes(with_texts) == [("c", 11, "a"), ("c", 12, "b"), ("d", 11, None)]


def test_a_replayed_chunk_is_read_again_with_its_current_rows(shop: FaultyShop) -> None:
    engine = shop.read()
    ask(shop, "replay", chunk(shop, 0))
    shop.execute("UPDATE orders SET name = 'new' WHERE id = 1")
    caught_up(engine)
    again = engine.rows[10:]
    assert sorted(row[:2] for row in again if row[0] != 1) == [(2, "n2"), (3, "n3"), (4, "n4")]
    assert [row[:2] for row in again if row[0] == 1] in ([(1, "new")] * 2, [(1, "n1"), (1, "new")])
    shop.execute("UPDATE orders SET name = 'newer' WHERE id = 1")
    caught_up(engine)
    assert engine.rows[-1][:2] == (1, "newer")


def test_the_log_is_neither_skipped_nor_moved(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    place = shop.options["stateLocation"]
    with pytest.raises(EditError, match="log is left alone: the log is read without gaps"):
        edits.plan("skip", state=place, why="a test", splits=["log"])
    with pytest.raises(EditError, match="log is left alone: the log is read without gaps"):
        edits.plan("set-position", state=place, why="a test", splits=["log"], position={"log": {"first": 1}})
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    assert shop.changes(caught_up(engine)) == [("c", 11, "x")]


def test_a_skip_of_all_splits_leaves_the_log(shop: FaultyShop) -> None:
    engine = first_chunk_read(shop)
    plan = edits.plan("skip", state=shop.options["stateLocation"], why="a test", glob="*")
    edits.submit(plan)
    shop.execute("UPDATE orders SET name = 'new' WHERE id = 9")
    caught_up(engine)
    caught_up(engine)
    assert shop.changes(engine) == [("u", 9, "new")]
    assert len(shop.ops(engine)) == 5


def test_a_rewind_in_mid_snapshot_is_refused_and_a_replay_instead_delivers_deletes_between_the_reads(
    shop: FaultyShop,
) -> None:
    engine = has_read(first_chunk_read(shop), 8)
    place = shop.options["stateLocation"]
    first = min(row["checkpoint_id"] for row in view_rows("checkpoints", find_lineages(place, {})))
    shop.execute("DELETE FROM orders WHERE id = 6", "UPDATE orders SET id = 17 WHERE id = 7")
    has_read(engine, 10)
    said = f"{chunk(shop, 1)}, {chunk(shop, 2)} would be read again as if for the first time"
    with pytest.raises(EditError, match=said):
        edits.plan("rewind", state=place, why="a test", to_checkpoint=first)
    ask(shop, "replay", chunk(shop, 1))
    caught_up(engine)
    caught_up(engine)
    shop.check_copy(engine, is_exact=False)


def test_a_window_of_the_log_cannot_be_replayed_and_the_dry_run_says_so(shop: FaultyShop) -> None:
    engine = caught_up(shop.engine())
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    caught_up(engine)
    with pytest.raises(EditError, match="log: read in ranges, which cannot be replayed"):
        ask(shop, "replay", "log")


def test_a_replayed_chunk_whose_key_was_altered_can_be_quarantined(shop: FaultyShop) -> None:
    engine = shop.read()
    shop.execute("ALTER TABLE orders ALTER id TYPE numeric(9)")
    ask(shop, "replay", chunk(shop, 0))
    with pytest.raises(SplitReadError, match="was integer when the table was cut") as refused:
        caught_up(engine)
    assert "if an edit replays the chunk, set onSplitError=quarantine for one start" in str(refused.value)
    shop.execute("INSERT INTO orders VALUES (11, 'x')")
    engine = caught_up(shop.engine(engine.schema, after=engine, onSplitError="quarantine"))
    engine = caught_up(shop.engine(engine.schema, after=engine))
    assert shop.changes(engine) == [("c", 11, "x")]
