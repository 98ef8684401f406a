"""Queries that start from another query's savepoint, and a query that is rewound: which slot each reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source import edits, savepoints
from flip27_source.enumerators.postgres.split import parse_lsn
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.checkpoint_rows import checkpoint_rows
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.faults import FaultyShop, faulty_shop
from tests.postgres_server import PostgresServer

ROWS = [("r", n, f"n{n}") for n in range(1, 4)]


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(server, rows=len(ROWS)) as shop:
        yield shop


def ended(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Let the query read everything available, and stop it; return it."""
    if engine.is_alive:
        engine.stop()
    engine.restart(available_now=True)
    engine.process_all_available()
    engine.stop()
    return engine


def saved(shop: FaultyShop, engine: MicroBatchEngine, folder: Path) -> str:
    """Create a savepoint of a stopped query with Spark's logs."""
    for batch_id, offset in enumerate(engine.logs.offsets):
        for log, text in (("offsets", f"v1\n{{}}\n{offset}"), ("commits", "v1\n{}")):
            (folder / log).mkdir(parents=True, exist_ok=True)
            (folder / log / str(batch_id)).write_text(text)
    location = shop.options["stateLocation"]
    return savepoints.create(state=location, to=str(folder / "saved"), checkpoint=str(folder)).directory


def started(shop: FaultyShop, savepoint: str, folder: Path, **options: str) -> MicroBatchEngine:
    """Return a new query from the savepoint, with its own state location."""
    return shop.engine(savepoint=savepoint, stateLocation=str(folder / "new"), **options)


def insert(shop: FaultyShop, number: int) -> tuple[str, int, str]:
    shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
    return "c", number, "x"


def slots(shop: FaultyShop) -> list[str]:
    query = "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
    return [name for (name,) in shop.control.execute(query)]


def confirmed(shop: FaultyShop, slot: str) -> int:
    query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    return parse_lsn(shop.one(query, slot))


# The same slot.


def test_a_savepoint_of_a_stopped_query_does_not_disturb_it(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    saved(shop, query, tmp_path)
    event = insert(shop, 11)
    assert shop.ops(ended(query)) == [*ROWS, event]


def test_a_query_from_a_savepoint_continues_with_the_slot_of_the_query_that_has_ended(
    shop: FaultyShop, tmp_path: Path
) -> None:
    query = shop.engine()
    ended(query)
    insert(shop, 11)
    ended(query)
    savepoint = saved(shop, query, tmp_path)
    event = insert(shop, 12)
    new = started(shop, savepoint, tmp_path)
    assert shop.ops(ended(new)) == [event]
    assert slots(shop) == [shop.slot]
    later = insert(shop, 13)
    assert shop.ops(ended(new)) == [event, later]


def test_a_query_from_a_savepoint_waits_until_the_query_of_its_slot_has_ended(
    shop: FaultyShop, tmp_path: Path
) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    query.restart(available_now=False)
    query.run_batch()
    new = started(shop, savepoint, tmp_path)
    with pytest.raises(DiscoveryError, match=f"slot {shop.slot} belongs to another query that is running"):
        new.run_batch()
    query.stop()
    event = insert(shop, 11)
    assert shop.ops(ended(new)) == [event]


def test_a_query_whose_slot_was_taken_over_and_advanced_says_so(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    new = started(shop, saved(shop, query, tmp_path), tmp_path)
    insert(shop, 11)
    ended(new)
    with pytest.raises(DataLossError, match="has moved the slot"):
        ended(query)


def test_a_savepoint_before_the_position_of_the_slot_is_refused(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    insert(shop, 11)
    ended(query)
    with pytest.raises(
        DataLossError, match=f"slot {shop.slot} begins at [0-9A-F/]+, and this query has read"
    ):
        ended(started(shop, savepoint, tmp_path))


# A separate slot.


def test_a_fork_gets_a_copy_of_the_slot_and_both_queries_continue(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    event = insert(shop, 11)
    fork = started(shop, savepoint, tmp_path, slotName="forked")
    assert shop.ops(ended(fork)) == [event]
    assert shop.ops(ended(query)) == [*ROWS, event]
    later = insert(shop, 12)
    assert shop.ops(ended(fork)) == [event, later]
    assert shop.ops(ended(query)) == [*ROWS, event, later]
    assert slots(shop) == sorted(["forked", shop.slot])
    assert confirmed(shop, "forked") > confirmed(shop, shop.slot) - 1


def test_a_fork_does_not_need_the_first_query_to_end(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    query.restart(available_now=False)
    query.run_batch()
    fork = started(shop, savepoint, tmp_path, slotName="forked")
    event = insert(shop, 11)
    assert shop.ops(ended(fork)) == [event]
    query.stop()


def test_a_fork_does_not_need_the_option_once_it_has_its_slot(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    fork = ended(started(shop, saved(shop, query, tmp_path), tmp_path, slotName="forked"))
    again = shop.engine(stateLocation=str(tmp_path / "new"))
    again.logs, again.sink = fork.logs, fork.sink
    event = insert(shop, 11)
    assert shop.ops(ended(again)) == [event]
    assert shop.ops(ended(query)) == [*ROWS, event]


def test_a_fork_that_was_killed_after_the_creation_of_its_slot_uses_that_slot(
    shop: FaultyShop, tmp_path: Path
) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    shop.one("SELECT pg_copy_logical_replication_slot(%s, 'forked')::text", shop.slot)
    event = insert(shop, 11)
    ended(query)
    assert shop.ops(ended(started(shop, savepoint, tmp_path, slotName="forked"))) == [event]


def test_a_fork_of_a_savepoint_before_the_position_of_the_slot_is_refused_and_leaves_no_slot(
    shop: FaultyShop, tmp_path: Path
) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    insert(shop, 11)
    ended(query)
    said = (
        f"slot {shop.slot} begins at [0-9A-F/]+, and the state has read up to [0-9A-F/]+: a copy of the slot"
    )
    with pytest.raises(DataLossError, match=said) as refused:
        ended(started(shop, savepoint, tmp_path, slotName="forked"))
    assert "stop_with_savepoint" in str(refused.value)
    assert slots(shop) == [shop.slot]


def test_a_fork_is_refused_if_the_slot_to_copy_is_gone(shop: FaultyShop, tmp_path: Path) -> None:
    query = ended(shop.engine())
    savepoint = saved(shop, query, tmp_path)
    shop.one("SELECT pg_drop_replication_slot(%s)::text", shop.slot)
    with pytest.raises(
        DataLossError, match=f"slot {shop.slot}, which slot forked would be copied from, no longer exists"
    ):
        ended(started(shop, savepoint, tmp_path, slotName="forked"))


def test_a_query_continues_with_another_slot_when_its_option_changes(shop: FaultyShop) -> None:
    query = ended(shop.engine())
    renamed = shop.engine(slotName="renamed")
    renamed.logs, renamed.sink = query.logs, query.sink
    event = insert(shop, 11)
    assert shop.ops(ended(renamed)) == [*ROWS, event]
    assert slots(shop) == sorted(["renamed", shop.slot])


# Rewinds.


def rewind(shop: FaultyShop, checkpoint: int) -> str:
    return edits.submit(
        edits.plan("rewind", state=shop.options["stateLocation"], why="a test", to_checkpoint=checkpoint)
    )


def edits_of(shop: FaultyShop) -> list[dict[str, str]]:
    (lineage,) = find_lineages(shop.options["stateLocation"], {})
    rows = checkpoint_rows(History(lineage.store({}), lineage), EVERYTHING)
    return [edit for row in rows for edit in json.loads(row["edits"] or "[]")]


def test_a_rewind_to_before_the_slot_is_refused_and_the_query_continues(shop: FaultyShop) -> None:
    query = ended(shop.engine())
    first = insert(shop, 11)
    ended(query)
    first_later = insert(shop, 12)
    ended(query)
    rewind(shop, 1)
    later = insert(shop, 13)
    assert shop.ops(ended(query)) == [*ROWS, first, first_later, later]
    (edit,) = edits_of(shop)
    assert f"slot {shop.slot} begins at" in edit["refused"]
    assert "the server has discarded the log in between" in edit["refused"]
