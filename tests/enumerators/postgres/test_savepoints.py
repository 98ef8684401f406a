"""Queries that start from another query's savepoint, and a query that is rewound: which slot each reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_source import edits, savepoints
from flip27_source.errors import DataLossError, DiscoveryError
from flip27_source.snapshots.locations import find_lineages
from flip27_source.state_tables.checkpoint_rows import checkpoint_rows
from flip27_source.state_tables.history import History
from flip27_source.state_tables.predicates import EVERYTHING
from flip27_source.testing import MicroBatchEngine
from tests.enumerators.postgres.faults import FaultyShop, caught_up, faulty_shop, running
from tests.postgres_server import PostgresServer

ROWS = [("r", n, f"n{n}") for n in range(1, 4)]


@pytest.fixture
def shop(server: PostgresServer) -> Iterator[FaultyShop]:
    with faulty_shop(server, rows=len(ROWS)) as shop:
        yield shop


def ended(engine: MicroBatchEngine) -> MicroBatchEngine:
    """Let the query read everything available, and stop it; return it."""
    engine.stop()
    caught_up(engine).stop()
    return engine


def saved(shop: FaultyShop, engine: MicroBatchEngine, folder: Path) -> str:
    """Create a savepoint of a stopped query with Spark's logs."""
    for batch_id, offset in enumerate(engine.logs.offsets):
        for log, text in (("offsets", f"v1\n{{}}\n{offset}"), ("commits", "v1\n{}")):
            (folder / log).mkdir(parents=True, exist_ok=True)
            (folder / log / str(batch_id)).write_text(text)
    location = shop.options["stateLocation"]
    return savepoints.create(state=location, to=str(folder / "saved"), checkpoint=str(folder)).directory


def started(shop: FaultyShop, savepoint: str, **options: str) -> MicroBatchEngine:
    """Return a new query from the savepoint, with its own state location."""
    return shop.engine(savepoint=savepoint, stateLocation=f"{savepoint}_continued", **options)


@pytest.fixture
def query(shop: FaultyShop) -> MicroBatchEngine:
    """A query that has read the snapshot and has ended."""
    return ended(shop.engine())


@pytest.fixture
def savepoint(shop: FaultyShop, query: MicroBatchEngine, tmp_path: Path) -> str:
    """A savepoint of the query, whose slot is at the end of the snapshot."""
    return saved(shop, query, tmp_path)


def insert(shop: FaultyShop, number: int) -> tuple[str, int, str]:
    shop.execute(f"INSERT INTO orders VALUES ({number}, 'x')")
    return "c", number, "x"


# The same slot.


@pytest.mark.usefixtures("savepoint")
def test_a_savepoint_of_a_stopped_query_does_not_disturb_it(
    shop: FaultyShop, query: MicroBatchEngine
) -> None:
    event = insert(shop, 11)
    assert shop.ops(ended(query)) == [*ROWS, event]


def test_a_query_from_a_savepoint_continues_with_the_slot_of_the_query_that_has_ended(
    shop: FaultyShop, query: MicroBatchEngine, tmp_path: Path
) -> None:
    insert(shop, 11)
    ended(query)
    new = started(shop, saved(shop, query, tmp_path))
    event = insert(shop, 12)
    assert shop.ops(ended(new)) == [event]
    assert shop.slots() == [shop.slot]
    later = insert(shop, 13)
    assert shop.ops(ended(new)) == [event, later]


def test_a_query_from_a_savepoint_waits_until_the_query_of_its_slot_has_ended(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    running(query)
    new = started(shop, savepoint)
    with pytest.raises(DiscoveryError, match=f"slot {shop.slot} belongs to another query that is running"):
        new.run_batch()
    query.stop()
    event = insert(shop, 11)
    assert shop.ops(ended(new)) == [event]


def test_a_query_whose_slot_was_taken_over_and_advanced_says_so(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    new = started(shop, savepoint)
    insert(shop, 11)
    ended(new)
    with pytest.raises(DataLossError, match="has moved the slot"):
        ended(query)


def test_a_savepoint_before_the_position_of_the_slot_is_refused(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    insert(shop, 11)
    ended(query)
    with pytest.raises(
        DataLossError, match=f"slot {shop.slot} begins at [0-9A-F/]+, and this query has read"
    ):
        ended(started(shop, savepoint))


# A separate slot.


def test_a_fork_gets_a_copy_of_the_slot_and_both_queries_continue(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    event = insert(shop, 11)
    fork = started(shop, savepoint, slotName="forked")
    assert shop.ops(ended(fork)) == [event]
    assert shop.ops(ended(query)) == [*ROWS, event]
    later = insert(shop, 12)
    assert shop.ops(ended(fork)) == [event, later]
    assert shop.ops(ended(query)) == [*ROWS, event, later]
    assert shop.slots() == sorted(["forked", shop.slot])
    assert shop.confirmed("forked") > shop.confirmed(shop.slot) - 1


def test_a_fork_does_not_need_the_first_query_to_end(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    running(query)
    fork = started(shop, savepoint, slotName="forked")
    event = insert(shop, 11)
    assert shop.ops(ended(fork)) == [event]
    query.stop()


def test_a_fork_does_not_need_the_option_once_it_has_its_slot(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    fork = ended(started(shop, savepoint, slotName="forked"))
    again = shop.engine(after=fork, stateLocation=f"{savepoint}_continued")
    event = insert(shop, 11)
    assert shop.ops(ended(again)) == [event]
    assert shop.ops(ended(query)) == [*ROWS, event]


def test_a_fork_that_was_killed_after_the_creation_of_its_slot_uses_that_slot(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    shop.copy_slot("forked")
    event = insert(shop, 11)
    ended(query)
    assert shop.ops(ended(started(shop, savepoint, slotName="forked"))) == [event]


def test_a_fork_of_a_savepoint_before_the_position_of_the_slot_is_refused_and_leaves_no_slot(
    shop: FaultyShop, query: MicroBatchEngine, savepoint: str
) -> None:
    insert(shop, 11)
    ended(query)
    said = (
        f"slot {shop.slot} begins at [0-9A-F/]+, and the state has read up to [0-9A-F/]+: a copy of the slot"
    )
    with pytest.raises(DataLossError, match=said) as refused:
        ended(started(shop, savepoint, slotName="forked"))
    assert "stop_with_savepoint" in str(refused.value)
    assert shop.slots() == [shop.slot]


def test_a_fork_is_refused_if_the_slot_to_copy_is_gone(shop: FaultyShop, savepoint: str) -> None:
    shop.one("SELECT pg_drop_replication_slot(%s)::text", shop.slot)
    with pytest.raises(
        DataLossError, match=f"slot {shop.slot}, which slot forked would be copied from, no longer exists"
    ):
        ended(started(shop, savepoint, slotName="forked"))


def test_a_query_continues_with_another_slot_when_its_option_changes(
    shop: FaultyShop, query: MicroBatchEngine
) -> None:
    renamed = shop.engine(after=query, slotName="renamed")
    event = insert(shop, 11)
    assert shop.ops(ended(renamed)) == [*ROWS, event]
    assert shop.slots() == sorted(["renamed", shop.slot])


# Rewinds.


def edits_of(shop: FaultyShop) -> list[dict[str, str]]:
    (lineage,) = find_lineages(shop.options["stateLocation"], {})
    rows = checkpoint_rows(History(lineage.store({}), lineage), EVERYTHING)
    return [edit for row in rows for edit in json.loads(row["edits"] or "[]")]


def test_a_rewind_to_before_the_slot_is_refused_and_the_query_continues(
    shop: FaultyShop, query: MicroBatchEngine
) -> None:
    first = insert(shop, 11)
    ended(query)
    first_later = insert(shop, 12)
    ended(query)
    edits.submit(edits.plan("rewind", state=shop.options["stateLocation"], why="a test", to_checkpoint=1))
    later = insert(shop, 13)
    assert shop.ops(ended(query)) == [*ROWS, first, first_later, later]
    (edit,) = edits_of(shop)
    assert f"slot {shop.slot} begins at" in edit["refused"]
    assert "the server has discarded the log in between" in edit["refused"]
